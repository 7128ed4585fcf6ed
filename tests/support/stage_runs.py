"""Stages as a user runs them: in this process, or in a new process to be interrupted."""

import io
import os
import re
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
TIMEOUT = 300  # seconds


@dataclass(frozen=True)
class Done:
    """How a stage ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def line(self) -> str:
        """The one line of ours on stderr, beside the progress bar."""
        assert "Traceback" not in self.stderr
        lines = [line for line in re.split(r"[\r\n]+", self.stderr) if line.strip()]
        messages = [line for line in lines if "item/s" not in line and "?item" not in line]
        assert len(messages) == 1, self.stderr
        assert messages[0].startswith("genlab: ")
        return messages[0]


def run_stage(folder: Path, stage: str, *arguments: str) -> Done:
    """Run `stages/STAGE.py` in `folder`, without the seconds of a process for its imports."""
    stdout = io.StringIO()
    stderr = io.StringIO()
    script = Path("stages", f"{stage}.py")
    code = compile((ROOT / script).read_bytes(), script, "exec")
    status = 0
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(stdout), redirect_stderr(stderr):
        patch.chdir(folder)
        patch.setattr(sys, "argv", [str(script), *arguments])
        try:
            exec(code, {"__name__": "__main__", "__doc__": None, "__file__": str(ROOT / script)})
        except SystemExit as stop:
            status = int(stop.code or 0)
    return Done(status, stdout.getvalue(), stderr.getvalue())


def start_stage(folder: Path, stage: str, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start `stages/STAGE.py` in `folder` as a new process and process group."""
    return subprocess.Popen(
        [sys.executable, str(ROOT / "stages" / f"{stage}.py"), *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        **options,
    )


def end(process: subprocess.Popen[str]) -> Done:
    """Wait for a started stage."""
    stdout, stderr = process.communicate(timeout=TIMEOUT)
    return Done(process.returncode, stdout, stderr)


def wait_for_epochs(folder: Path, process: subprocess.Popen[str], epochs: int) -> None:
    """Wait until a training has saved its state `epochs` times; it is then in the next epoch."""
    saved: set[int] = set()
    deadline = time.monotonic() + TIMEOUT
    while len(saved) < epochs and time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[1]
        for state in (folder / "data/.making").glob("*/state.pt"):
            saved.add(state.stat().st_mtime_ns)
        time.sleep(0.005)
    assert len(saved) >= epochs
    time.sleep(0.1)
