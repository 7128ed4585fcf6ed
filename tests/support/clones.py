"""Clones of the project with the clone's code: one that the pipeline ran in, for all tests."""

import io
import logging
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import colorama
import pytest
from dvc.cli import main as dvc
from dvc.logger import set_loggers_level
from filelock import FileLock
from scripts.smoke import IDENTITY

from genlab.core.io import sha256
from scripts import smoke

TIMEOUT = 900  # seconds; a loaded machine is slow
PASSING = re.compile(r"timing|provenance|\.making|\.part")
# Without Fashion-MNIST on this machine, those of smoke.py: the agent's goal is about it.
TARGETS = smoke.TARGETS or ("failure_gallery@arc_grids", "agent_iterate", "benchmark")
SIZE = smoke.SMALL | {
    "threads": 1,
    "grids.count": 2000,
    "width": 16,
    "prior_width": 16,
    "prior_components": 4,
    "epochs": 2,
    "samples_per_epoch": 256,
    "images_model.epochs": 2,
    "images_model.samples_per_epoch": 512,
    "evaluate.samples": 100,
    "evaluate.iwae_samples": 2,
    "agent.max_iterations": 1,
}


def make_once(folder: Path, make: Callable[[Path], object]) -> Path:
    """A folder that `make` fills, once for all processes of a test run.

    folder: below what these processes share. Whoever changes its files works on a copy.
    """
    done = folder.with_suffix(".done")
    with FileLock(folder.with_suffix(".lock")):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that failed
            make(folder)
            done.touch()
    return folder


def reproduce(target: Path) -> None:
    """A clone of the working tree in `target`, on the branch main, after `dvc repro`."""
    smoke.clone(target, SIZE)
    run_in(target, "git", "branch", "-M", "main")
    dvc_in(target, "repro", *TARGETS)


def copy_clone(source: Path, target: Path) -> Path:
    """A copy of a clone with its DVC cache, without what only a running dvc needs."""
    skipped = shutil.ignore_patterns("tmp")
    return Path(shutil.copytree(source, target, symlinks=True, ignore=skipped))


def environment(folder: Path) -> dict[str, str]:
    """Variables for commands in a clone: its own code, this interpreter's programs."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**IDENTITY, "PATH": path, "PYTHONPATH": str(folder / "src")}


def run_in(folder: Path, *command: str) -> str:
    """The standard output of a command in `folder`, which must succeed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dvc_in(folder: Path, *arguments: str) -> str:
    """What dvc says to a command in `folder`, which must succeed.

    It runs in this process, without the second that a process takes to import dvc.
    """
    output = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        redirect_stdout(output),
        redirect_stderr(output),
        set_loggers_level(logging.INFO),  # which dvclive raises, in a test that trains
    ):
        for name, value in environment(folder).items():
            patch.setenv(name, value)
        patch.chdir(folder)
        for name in ("deinit", "reinit"):  # by which dvc would print past what is redirected
            patch.setattr(colorama, name, lambda: None)
        for handler in logging.getLogger("dvc").handlers:
            patch.setattr(handler, "stream", output, raising=False)
        status = dvc(list(arguments))
    assert status == 0, output.getvalue()
    return output.getvalue()


def find_files(folder: Path, *places: str) -> dict[str, str]:
    """Checksum by name of every finished file, but what says how long a run took.

    places: folders of `folder`; all of it where none is named.
    """
    files = [path for place in places or (".",) for path in (folder / place).rglob("*")]
    names = {str(path.relative_to(folder)): path for path in files if path.is_file()}
    return {name: sha256(path) for name, path in names.items() if not PASSING.search(name)}
