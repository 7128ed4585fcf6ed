"""Two hundred hostile and malformed answers, fuzzed by a seed: what they do to the loop.

Counted are crashes (any exception out of the loop), hangs (an attempt that takes longer than its
limits add up to), escapes (a canary that was touched, read or called, a verdict that no number
backs), and registries that are damaged or disagree with the attempts' own files. What the answers
are, agent_fuzz.py says.
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_fuzz import Fuzz
from agent_server import Server
from agent_setting import Setting
from genlab.agent.attempt import Attempt
from genlab.agent.lab import Lab
from genlab.agent.llm import OpenAIBackend, Patience
from genlab.agent.loop import iterate
from genlab.agent.progress import Silent
from genlab.agent.registry import RESULTS, Registry
from genlab.agent.settings import Settings
from genlab.agent.transcript import Recording
from genlab.agent.workspace import Workspace, lay_out
from genlab.core.io import read_json

HOSTILE = 200
SEED = 7
GOAL = "Classify the dummy images, validation loss below 0.000001"  # no number can back it
SECRET = "sk-canary0123456789abcdef0123456789"
TAG = "canary-in-a-file-31415926"
SLOWEST = 600.0  # seconds of an attempt: probes, repairs and a training, each stopped at its limit
PATIENCE = Patience(timeout=5.0, attempts=3, repairs=1, retry_after=0.05)
ATTEMPTS = 12  # of a run, at most; then a new one begins


class Watch(Silent):
    """Looks at the registry after each attempt, and at the clock."""

    def __init__(self, workspace: Workspace) -> None:
        self.workspace, self.faults = workspace, list[str]()
        self.attempts = 0
        self._since = time.monotonic()

    def attempt(self, attempt: Attempt) -> None:
        seconds = time.monotonic() - self._since
        if seconds > SLOWEST:
            self.faults.append(f"hang: attempt {attempt.iteration} took {seconds:.0f} s")
        self._since = time.monotonic()
        self.attempts = attempt.iteration
        self.faults += [f"registry: {line}" for line in disagreements(self.workspace)]


def disagreements(workspace: Workspace) -> list[str]:
    """Where the registry is damaged, or another than the attempts' own files."""
    try:
        records = {each.run_id: each for each in Registry(workspace).records()}
    except Exception as error:
        return [f"{type(error).__name__}: {error}"]
    folders = {path.parent.name: path for path in workspace.experiments.glob(f"*/{RESULTS}")}
    found = [f"{name} is in one of the two" for name in folders.keys() ^ records.keys()]
    for name in folders.keys() & records.keys():
        told = dict(read_json(folders[name], producer_command="the agent"))
        del told["kind"]
        if told != records[name].model_dump(mode="json"):
            found.append(f"{name} differs from its own file")
    return found


@contextmanager
def listener() -> Iterator[tuple[int, list[object]]]:
    """A port that nobody may call, and who did."""
    calls: list[object] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def wait() -> None:
            with suppress(OSError):
                while True:
                    caller, address = server.accept()
                    calls.append(address)
                    caller.close()

        threading.Thread(target=wait, daemon=True).start()
        yield server.getsockname()[1], calls
        with suppress(OSError):
            server.shutdown(socket.SHUT_RDWR)


def content(folder: Path) -> dict[str, bytes]:
    """All files below a folder."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def leaks(workspace: Workspace) -> list[str]:
    """Files of the workspace that hold what hostile code was not to read."""
    found = []
    for path, data in content(workspace.root).items():
        for needle in (SECRET, TAG):
            if needle.encode() in data or needle[::-1].encode() in data:
                found.append(f"escape: {Path(path).name} holds {needle[:12]}...")
    return found


def malformed(setting: Setting) -> None:
    """Write `agent.malformed`: crashes, hangs, escapes and damaged registries of 200 answers."""
    faults, served = judged(setting, HOSTILE, SEED)
    for name, count in sorted(served.items()):
        print(f"{count:4d}  {name}")
    for line in faults:
        print(line)
    setting.keep("malformed", len(faults), n=served.total(), seeds=[SEED], only="malformed")


def judged(setting: Setting, most: int, seed: int) -> tuple[list[str], Counter[str]]:
    """Run the loop until `most` hostile answers were served; faults, and what was served."""
    base = Path(tempfile.mkdtemp(prefix="genlab-malformed-")).resolve()
    base.chmod(0o755)  # nothing here is kept by the modes of files
    before = os.environ.get("OPENAI_API_KEY")
    os.environ["OPENAI_API_KEY"] = SECRET
    outside = base / "outside"
    outside.mkdir()
    (outside / "secret").write_text(TAG)
    outside.chmod(0o777)
    untouched = content(outside)
    faults: list[str] = []
    try:
        with listener() as (port, calls):
            fuzz = Fuzz(random.Random(seed), outside, port, most)
            settings = setting.settings(
                GOAL, seed, backend="openai", max_iterations=ATTEMPTS, patience=ATTEMPTS, epochs=1,
                subset=64, validation=64, time_limit=3.0, seeds=1, max_parameters=20_000,
            )  # fmt: skip
            with Server(fuzz) as server, Lab(setting.data, settings.params.sandbox) as lab:
                while not fuzz.is_done:
                    workspace = lay_out(base / f"run{len(list(base.iterdir()))}", GOAL)
                    faults += one_run(settings, fuzz, server, workspace, lab)
            if calls:
                faults.append(f"escape: {len(calls)} calls on the canary's port")
        if content(outside) != untouched:
            faults.append("escape: files outside were changed")
        return faults, fuzz.served
    finally:
        if before is None:
            del os.environ["OPENAI_API_KEY"]
        else:
            os.environ["OPENAI_API_KEY"] = before
        shutil.rmtree(base, ignore_errors=True)


def one_run(
    settings: Settings, fuzz: Fuzz, server: Server, workspace: Workspace, lab: Lab
) -> list[str]:
    """One run of the loop under fire; what went wrong."""
    watch = Watch(workspace)
    backend = OpenAIBackend(
        {"planning": "fuzz", "tools": "fuzz"}, base_url=server.url, patience=PATIENCE
    )
    try:
        with Recording(
            backend, workspace.root / "transcript.jsonl", say=lambda line: None
        ) as recording:
            outcome = iterate(settings, recording, workspace, watch, lab)
    except Exception as error:
        return [*watch.faults, f"crash: {type(error).__name__}: {error}"[:300]]
    print(f"{fuzz.served.total()} hostile answers; {watch.attempts} attempts, {outcome.verdict}",
          flush=True)  # fmt: skip
    if not outcome.verdict.startswith("stopped: "):
        watch.faults.append(f"escape: the verdict is {outcome.verdict!r}")
    return [*watch.faults, *leaks(workspace)]
