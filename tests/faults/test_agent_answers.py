"""Hostile and malformed answers neither crash, hang nor escape the loop; its registry stays."""

import random
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from agent_runs import settings
from hostile_llm import Fuzz
from loopback import Server
from sandboxes import needs_sandbox

from genlab.agent.config import Settings
from genlab.agent.goals.parser import parse_goal
from genlab.agent.record import read_run
from genlab.agent.registry import Registry, format_record
from genlab.agent.run import run
from genlab.agent.workspace import Workspace, create_project
from genlab.core.io import read_json

GOAL = parse_goal("Classify the dummy images, validation loss below 0.000001")  # out of reach
SECRET = "sk-canary0123456789abcdef0123456789"
TAG = "canary-in-a-file-31415926"
SLOWEST = 600.0  # seconds of an attempt: probes, repairs and a training, each stopped at its limit
ATTEMPTS = 12  # per run; then a new one begins


class Watch:
    """Checks the registry and the clock after each attempt."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace = workspace
        self.faults: list[str] = []
        self._since = time.monotonic()

    def __call__(self, line: str) -> None:
        if not re.match(r"attempt \d+:", line):
            return
        if time.monotonic() - self._since > SLOWEST:
            self.faults.append(f"hang: {line}")
        self._since = time.monotonic()
        registry = Registry(self.workspace)
        listed = read_json(registry.path, producer_command="agent")
        if listed != [format_record(attempt) for attempt in registry.read_attempts()]:
            self.faults.append(f"registry: it differs from its files at {line}")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def attack(chosen: Settings, workspace: Workspace) -> list[str]:
    """Run against the hostile model; returns what went wrong."""
    watch = Watch(workspace)
    try:
        run(chosen, workspace, watch)
    except Exception as error:
        return [*watch.faults, f"crash: {type(error).__name__}: {error}"[:300]]
    verdict = read_run(workspace).verdict
    if not verdict.startswith("stopped: "):
        watch.faults.append(f"escape: the verdict is {verdict!r}")
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
    untouched = contents(outside)
    faults: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as forbidden:
        forbidden.setblocking(False)
        fuzz = Fuzz(random.Random(seed), outside, forbidden.getsockname()[1], count)
        with Server(fuzz) as server:
            while not fuzz.is_done:
                mode = "tools" if fuzz.served.total() % 2 else "loop"
                chosen = settings(
                    GOAL, backend="openai", base_url=server.url, mode=mode, time_limit=3.0,
                    max_iterations=ATTEMPTS, patience=ATTEMPTS, seeds=1, max_tokens=0,
                    max_seconds=0.0,
                )  # fmt: skip
                chosen = replace(chosen, seed=seed)
                workspace = create_project(place / f"run{fuzz.served.total()}", GOAL)
                faults += attack(chosen, workspace)
        with pytest.raises(BlockingIOError):  # nobody has called
            forbidden.accept()
    if contents(outside) != untouched:
        faults.append("escape: files outside were changed")
    record("agent.malformed", len(faults), n=fuzz.served.total())
    assert faults == []
    assert fuzz.served.total() == count
