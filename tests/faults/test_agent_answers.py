"""Hostile and malformed answers neither crash, hang nor escape the loop; its registry stays."""

from __future__ import annotations

import random
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from agent_runs import settings
from hostile_llm import Fuzz
from llm_server import Server
from sandboxes import needs_sandbox

from genlab.agent.attempt import Attempt
from genlab.agent.goal import goal
from genlab.agent.lab import Lab
from genlab.agent.llm import OpenAIBackend, Patience
from genlab.agent.loop import iterate
from genlab.agent.progress import Silent
from genlab.agent.registry import Registry
from genlab.agent.settings import Settings
from genlab.agent.transcript import Recording
from genlab.agent.workspace import Workspace, lay_out

GOAL = goal("Classify the dummy images, validation loss below 0.000001")  # no number can back it
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
        if time.monotonic() - self._since > SLOWEST:
            self.faults.append(f"hang: attempt {attempt.iteration}")
        self._since = time.monotonic()
        registry = Registry(self.workspace)
        records = registry.records()
        registry.rebuild()  # from the attempts' own files
        if registry.records() != records:
            self.faults.append(f"registry: it differs from its files at {attempt.iteration}")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def attack(chosen: Settings, server: Server, workspace: Workspace, lab: Lab) -> list[str]:
    """Run the loop against the hostile model; returns what went wrong."""
    watch = Watch(workspace)
    models = {"planning": "fuzz", "tools": "fuzz"}
    backend = OpenAIBackend(models, base_url=server.url, patience=PATIENCE)
    transcript = workspace.root / "transcript.jsonl"
    try:
        with Recording(backend, transcript, say=lambda line: None) as recording:
            outcome = iterate(chosen, recording, workspace, watch, lab)
    except Exception as error:
        return [*watch.faults, f"crash: {type(error).__name__}: {error}"[:300]]
    if not outcome.verdict.startswith("stopped: "):
        watch.faults.append(f"escape: the verdict is {outcome.verdict!r}")
    for name, data in contents(workspace.root).items():
        if any(text.encode() in data for text in (SECRET, SECRET[::-1], TAG, TAG[::-1])):
            watch.faults.append(f"escape: {name} holds a canary")
    return watch.faults


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
    place: Path,
    monkeypatch: pytest.MonkeyPatch,
    full_size: bool,
    record: Callable[..., None],
) -> None:
    needs_sandbox()
    count, seed = (200, 7) if full_size else (6, 4)
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    outside = place / "outside"
    quick = settings(
        GOAL, max_iterations=ATTEMPTS, patience=ATTEMPTS, validation=64, time_limit=3.0, seeds=1,
        max_parameters=20_000, max_tokens=0, max_seconds=0.0,
    )  # fmt: skip
    chosen = replace(quick, seed=seed, llm_code=True)
    untouched = contents(outside)
    faults: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as forbidden:
        forbidden.setblocking(False)
        fuzz = Fuzz(random.Random(seed), outside, forbidden.getsockname()[1], count)
        with Server(fuzz) as server, Lab(chosen.data) as lab:
            while not fuzz.is_done:
                workspace = lay_out(place / f"run{fuzz.served.total()}", GOAL.text)
                faults += attack(chosen, server, workspace, lab)
        with pytest.raises(BlockingIOError):  # nobody has called
            forbidden.accept()
    if contents(outside) != untouched:
        faults.append("escape: files outside were changed")
    record("agent.malformed", len(faults), n=fuzz.served.total())
    assert faults == []
    assert fuzz.served.total() == count
