"""Commands in a clone of the project, with the clone's code, and the files that they leave."""

import os
import re
import subprocess
import sys
from pathlib import Path

from scripts.smoke import IDENTITY

from genlab.core.io import sha256

TIMEOUT = 900  # seconds; a loaded machine is slow
PASSING = re.compile(r"timing|provenance|\.making|\.part")


def run_in(folder: Path, *command: str) -> str:
    """The standard output of a command in `folder`, which must succeed."""
    environment = {
        **os.environ,
        **IDENTITY,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(folder / "src"),
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dvc_in(folder: Path, *arguments: str) -> str:
    """The standard output of a command of dvc in `folder`, which must succeed."""
    return run_in(folder, sys.executable, "-m", "dvc", *arguments)


def find_files(folder: Path, *places: str) -> dict[str, str]:
    """Checksum by name of every finished file, but what says how long a run took.

    places: folders of `folder`; all of it where none is named.
    """
    files = [path for place in places or (".",) for path in (folder / place).rglob("*")]
    names = {str(path.relative_to(folder)): path for path in files if path.is_file()}
    return {name: sha256(path) for name, path in names.items() if not PASSING.search(name)}
