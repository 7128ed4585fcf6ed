"""A disk in memory, which is small or cannot be written."""

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def mounted(place: Path, options: str) -> Iterator[None]:
    """A disk at the folder `place`, with options such as size=64k; skips where none is allowed."""
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(place)]
    if not shutil.which("mount") or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this user may not mount a disk")
    try:
        yield
    finally:
        subprocess.run(["umount", str(place)], check=True)
