"""Read from, and clone, git repositories."""

import os
import subprocess
from pathlib import Path

from genlab.core.errors import GenlabError

TIMEOUT = 60.0  # seconds; these commands take milliseconds


def run_git(root: Path, *arguments: str) -> bytes | None:
    """Return the output of `git ARGUMENTS` in `root`; None if it fails or git is missing."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, timeout=TIMEOUT)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def list_files(root: Path, *paths: str) -> list[str]:
    """List files below `paths` (by default all) that git tracks or would add."""
    command = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", *paths]
    names = os.fsdecode(run_git(root, *command) or b"").split("\0")
    return sorted(name for name in names if (root / name).is_file())


def describe_commit(root: Path, *paths: str) -> str:
    """Return the short hash of the last commit that changed `paths`; `-dirty` if they have changed.

    Commits of other paths leave it as it is. Empty outside a repository, or before such a commit.
    """
    commit = run_git(root, "log", "-1", "--abbrev=8", "--format=%h", "HEAD", "--", *paths)
    if not commit:
        return ""
    changes = run_git(root, "status", "--porcelain", "--", *paths)
    return commit.decode().strip() + ("-dirty" if changes else "")


def resolve_commit(root: Path, commit: str) -> str:
    """Return the full hash of a commit. Raises a GenlabError if there is no such commit."""
    full_hash = run_git(root, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}")
    if full_hash is None:
        raise GenlabError(f"{commit!r} is not a commit of {root}; see: git log", key="commit")
    return full_hash.decode().strip()


def clone_commit(root: Path, commit: str, target: Path) -> None:
    """Clone a repository into `target` and check a commit out; git objects are shared."""
    for command in (
        ["git", "clone", "--quiet", "--shared", str(root), str(target)],
        ["git", "-C", str(target), "checkout", "--quiet", commit],
    ):
        subprocess.run(command, check=True)
