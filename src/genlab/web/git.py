"""What git says, or None where it has nothing to say."""

from __future__ import annotations

import subprocess
from pathlib import Path

PATIENCE = 20.0
"""Seconds: what is asked here is read from git's own files in milliseconds."""


def ask(root: Path, *arguments: str) -> bytes | None:
    """The output of `git ARGUMENTS` in `root`; None where it fails or there is no git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
