"""Hostile and malformed answers neither crash, hang nor escape the loop; its registry stays."""

from __future__ import annotations

import random
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hostile_llm import Fuzz
from llm_server import Server

from genlab.agent.attempt import Attempt
from genlab.agent.goal import goal
from genlab.agent.lab import Lab
from genlab.agent.llm import OpenAIBackend, Patience
from genlab.agent.loop import iterate
from genlab.agent.progress import Silent
from genlab.agent.registry import RESULTS, Registry
from genlab.agent.settings import Settings
from genlab.agent.transcript import Recording
from genlab.agent.workspace import Workspace, lay_out
from genlab.core.io import read_json
from genlab.core.params import AgentParams, load_params

GOAL = "Classify the dummy images, validation loss below 0.000001"  # no number can back it
SECRET = "sk-canary0123456789abcdef0123456789"
TAG = "canary-in-a-file-31415926"
SLOWEST = 600.0  # seconds of an attempt: probes, repairs and a training, each stopped at its limit
PATIENCE = Patience(timeout=5.0, attempts=3, repairs=1, retry_after=0.05)
ATTEMPTS = 12  # per run; then a new one begins


class Watch(Silent):
    """Checks the registry and the clock after each attempt."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.faults = workspace, list[str]()
        self._since = time.monotonic()

    def attempt(self, attempt: Attempt) -> None:
        seconds = time.monotonic() - self._since
        if seconds > SLOWEST:
            self.faults.append(f"hang: attempt {attempt.iteration} took {seconds:.0f} s")
        self._since = time.monotonic()
        self.faults += [f"registry: {line}" for line in disagreements(self.workspace)]


def disagreements(workspace: Workspace) -> list[str]:
    """Where the registry is damaged or differs from the attempts' files."""
    try:
        records = {each.run_id: each for each in Registry(workspace).records()}
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    files = {path.parent.name: path for path in workspace.experiments.glob(f"*/{RESULTS}")}
    found = [f"{name} is in one of the two" for name in files.keys() ^ records.keys()]
    for name in files.keys() & records.keys():
        stored = dict(read_json(files[name], producer_command="the agent"))
        del stored["kind"]
        if stored != records[name].model_dump(mode="json"):
            found.append(f"{name} differs from its file")
    return found


def leaks(workspace: Workspace) -> list[str]:
    """Files of the workspace that hold what hostile code must not read."""
    needles = [text.encode() for each in (SECRET, TAG) for text in (each, each[::-1])]
    return [
        f"escape: {name} holds a canary"
        for name, data in contents(workspace.root).items()
        if any(needle in data for needle in needles)
    ]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@contextmanager
def forbidden_port() -> Iterator[tuple[int, list[object]]]:
    """A port that nobody may call, and who did."""
    calls: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def listen() -> None:
            with suppress(OSError):
                while True:
                    caller, address = server.accept()
                    calls.append(address)
                    caller.close()

        threading.Thread(target=listen, daemon=True).start()
        yield server.getsockname()[1], calls
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def attack(settings: Settings, server: Server, workspace: Workspace, lab: Lab) -> list[str]:
    """Run the loop against the hostile model; returns what went wrong."""
    watch = Watch(workspace)
    models = {"planning": "fuzz", "tools": "fuzz"}
    backend = OpenAIBackend(models, base_url=server.url, patience=PATIENCE)
    transcript = workspace.root / "transcript.jsonl"
    try:
        with Recording(backend, transcript, say=lambda line: None) as recording:
            outcome = iterate(settings, recording, workspace, watch, lab)
    except Exception as error:
        return [*watch.faults, f"crash: {type(error).__name__}: {error}"[:300]]
    if not outcome.verdict.startswith("stopped: "):
        watch.faults.append(f"escape: the verdict is {outcome.verdict!r}")
    return [*watch.faults, *leaks(workspace)]


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that no file mode protects: what is not reached was kept off by the sandbox."""
    with tempfile.TemporaryDirectory(prefix="genlab-answers-") as name:
        place = Path(name).resolve()
        place.chmod(0o755)
        (place / "outside").mkdir()
        (place / "outside").chmod(0o777)
        (place / "outside" / "secret").write_text(TAG)
        yield place


def test_malformed_answers(
    root: Path,
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    full_size: bool,
    record: Callable[..., None],
) -> None:
    count, seed = (200, 7) if full_size else (6, 4)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    outside = place / "outside"
    changes = {
        "goal": GOAL, "backend": "openai", "max_iterations": ATTEMPTS, "patience": ATTEMPTS,
        "epochs": 1, "subset": 64, "validation": 64, "time_limit": 3.0, "seeds": 1,
        "max_parameters": 20_000, "max_tokens": 0, "max_seconds": 0.0,
    }  # fmt: skip
    params = AgentParams(**{**load_params(root / "params.yaml").agent.model_dump(), **changes})
    untouched = contents(outside)
    faults: list[str] = []
    with forbidden_port() as (port, calls):
        fuzz = Fuzz(random.Random(seed), outside, port, count)
        settings = Settings(goal(GOAL), params, seed)
        with Server(fuzz) as server, Lab(settings.data, params.sandbox) as lab:
            while not fuzz.is_done:
                workspace = lay_out(place / f"run{fuzz.served.total()}", GOAL)
                faults += attack(settings, server, workspace, lab)
    faults += [f"escape: a call from {address}" for address in calls]
    if contents(outside) != untouched:
        faults.append("escape: files outside were changed")
    record("agent.malformed", len(faults), n=fuzz.served.total())
    assert faults == []
    assert fuzz.served.total() == count
