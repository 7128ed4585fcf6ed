"""Questions to git."""

import os
import subprocess
from pathlib import Path

from genlab.core.errors import GenlabError

PATIENCE = 60.0  # seconds; what is asked here is read from git's own files in milliseconds


def run_git(root: Path, *arguments: str) -> bytes | None:
    """The output of `git ARGUMENTS` in `root`; None where it fails or there is no git."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, timeout=PATIENCE)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def list_files(root: Path, *places: str) -> list[str]:
    """Files below `places` (all, where none are named) that git tracks or would add."""
    command = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", *places]
    listed = os.fsdecode(run_git(root, *command) or b"").split("\0")
    return sorted(name for name in listed if (root / name).is_file())


def describe_commit(root: Path, *places: str) -> str:
    """Short name of the current commit, ending in `-dirty` where `places` have changed since.

    Empty outside a repository.
    """
    commit = run_git(root, "rev-parse", "--short=8", "HEAD")
    if commit is None:
        return ""
    changes = run_git(root, "status", "--porcelain", "--", *places)
    return commit.decode().strip() + ("-dirty" if changes else "")


def resolve_commit(root: Path, commit: str) -> str:
    """Full name of a commit. Raises a GenlabError where there is none."""
    name = run_git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if name is None:
        raise GenlabError(f"{commit or 'nothing'} is no commit here; see: git log", key="commit")
    return name.decode().strip()


def clone_at(root: Path, commit: str, target: Path) -> None:
    """Clone a repository into `target`, with a commit checked out; objects are shared."""
    for command in (
        ["git", "clone", "--quiet", "--shared", str(root), str(target)],
        ["git", "-C", str(target), "checkout", "--quiet", commit],
    ):
        subprocess.run(command, check=True)
