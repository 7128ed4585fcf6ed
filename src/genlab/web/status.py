"""What `dvc status` says, asked in the background: a page shows at once, the answer comes in."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genlab.web.files import stamp

PATIENCE = 120.0
"""Seconds until dvc is given up: hashing gigabytes for the first time takes its time."""

DVC = [sys.executable, "-m", "dvc", "status", "--json"]
WATCHED = ("dvc.yaml", "dvc.lock", "params.yaml", "src", "stages", "data", "metrics", "plots")


@dataclass(frozen=True)
class Status:
    """dvc's answer, or None; whether it is being asked; and why there is no answer."""

    stages: Mapping[str, Any] | None = None
    asking: bool = False
    fault: str | None = None


class Watch:
    """The status of one project, asked again whenever a watched file is another one."""

    def __init__(self, root: Path, command: Iterable[str] | None = None) -> None:
        """command: what prints the JSON; dvc of this environment by default."""
        self.root = root.absolute()
        self._command = list(command or DVC)
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
        if self._command == DVC and not (self.root / ".dvc").is_dir():
            known = Status(fault=f"{self.root} is no project of dvc; run: git clone, then dvc pull")
        else:
            known = ask(self._command, self.root)
        with self._lock:
            self._known, self._state, self._thread = known, state, None


def ask(command: list[str], root: Path) -> Status:
    """Run the command and read its answer; a fault is a sentence in the status."""
    # A second dvc must not touch what a run writes: status only reads, but it compiles modules.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "DVC_NO_ANALYTICS": "1"}
    try:
        done = subprocess.run(
            command, cwd=root, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
    except subprocess.TimeoutExpired:
        return Status(fault=f"dvc status took over {PATIENCE:.0f} s; run it yourself: dvc status")
    except OSError as error:
        return Status(fault=f"dvc could not be started ({error.strerror}); run: make setup")
    if done.returncode:
        said = " ".join(done.stderr.split())
        if "Unable to acquire lock" in said or "is busy" in said:
            return Status(fault="A run is going on: dvc tells the state again when it is over.")
        return Status(fault=f"dvc status failed: {said[:200] or 'it said nothing'}")
    try:
        found = json.loads(done.stdout or "{}")
    except ValueError:
        return Status(fault="dvc status printed no JSON; run it yourself: dvc status")
    return Status(stages=found if isinstance(found, dict) else {})


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
