"""What dvc says of stages and metrics, asked in the background: a page shows at once."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genlab.core.errors import GenlabError
from genlab.web.components.files import stamp

PATIENCE = 120.0
"""Seconds until dvc is given up: hashing gigabytes for the first time takes its time."""

DVC = [sys.executable, "-m", "dvc"]
COMMANDS = ([*DVC, "status", "--json"], [*DVC, "metrics", "diff", "--json"])
WATCHED = (
    "dvc.yaml", "dvc.lock", "params.yaml", "src", "stages", "data", "metrics", "plots",
    ".git/logs/HEAD",
)  # fmt: skip


@dataclass(frozen=True)
class Status:
    """dvc's answers, or None; whether it is being asked; and why there is no answer.

    stages: those that would run again, with the reasons. metrics: what differs from the last
    commit.
    """

    stages: Mapping[str, Any] | None = None
    metrics: Mapping[str, Any] | None = None
    asking: bool = False
    fault: str | None = None


class Watch:
    """The status of one project, asked again whenever a watched file is another one."""

    def __init__(self, root: Path, commands: Sequence[Sequence[str]] = COMMANDS) -> None:
        """commands: what prints the JSON of stages and of metrics; this environment's dvc."""
        self.root = root.absolute()
        self._commands = commands
        self._lock = threading.Lock()
        self._known = Status()
        self._state: str | None = None
        self._thread: threading.Thread | None = None

    def look(self) -> Status:
        """What is known now; never waits for dvc.

        Where files changed since the last answer, that answer is not shown: it is asked again.
        """
        state = fingerprint(self.root)
        with self._lock:
            if state == self._state:
                return self._known
            if self._thread is None:
                self._thread = threading.Thread(target=self._ask, args=(state,), daemon=True)
                self._thread.start()
            return Status(asking=True)

    def wait(self, seconds: float) -> None:
        """Wait for a question that is under way."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _ask(self, state: str) -> None:
        if self._commands is COMMANDS and not (self.root / ".dvc").is_dir():
            known = Status(fault=f"{self.root} is no project of dvc; run: git clone, then dvc pull")
        else:
            try:
                stages, metrics = (ask(command, self.root) for command in self._commands)
                known = Status(stages, metrics)
            except GenlabError as error:
                known = Status(fault=str(error))
        with self._lock:
            self._known, self._state, self._thread = known, state, None


def ask(command: Sequence[str], root: Path) -> dict[str, Any]:
    """Run the command and read its answer. Raises a GenlabError without one."""
    # A second dvc must not touch what a run writes: status only reads, but it compiles modules.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "DVC_NO_ANALYTICS": "1"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired as error:
        slow = f"dvc took over {PATIENCE:.0f} s; run it yourself: {_words(command)}"
        raise GenlabError(slow) from error
    except OSError as error:
        raise GenlabError(
            f"dvc could not be started ({error.strerror}); run: make setup"
        ) from error
    if done.returncode:
        said = " ".join(done.stderr.split())
        if "Unable to acquire lock" in said or "is busy" in said:
            raise GenlabError("A run is going on: dvc tells the state again when it is over.")
        raise GenlabError(f"{_words(command)} failed: {said[:200] or 'it said nothing'}")
    try:
        found = json.loads(done.stdout or "{}")
    except ValueError as error:
        raise GenlabError(f"dvc printed no JSON; run it yourself: {_words(command)}") from error
    return found if isinstance(found, dict) else {}


def _words(command: Sequence[str]) -> str:
    return " ".join(command).replace(" ".join(DVC), "dvc")


def fingerprint(root: Path) -> str:
    """A digest of the stamps of all files that a status depends on.

    The runs in the making and live state are left out: they change all the time.
    """
    digest = hashlib.sha256()
    for name in WATCHED:
        for path in _files(root / name):
            digest.update(f"{path}{stamp(path)}".encode())
    return digest.hexdigest()


def _files(path: Path) -> Iterable[str]:
    if not path.is_dir():
        yield str(path)
        return
    for folder, folders, names in os.walk(path):
        folders[:] = sorted(d for d in folders if not d.startswith((".", "__pycache__")))
        yield from (f"{folder}/{name}" for name in sorted(names))
