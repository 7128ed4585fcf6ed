"""Which commit a result names."""

import subprocess
from pathlib import Path

from genlab.core.git import describe_commit, run_git


def commit_files(root: Path, message: str) -> str:
    """Commit everything in `root`; return the short hash."""
    author = ("-c", "user.name=A", "-c", "user.email=a@example.org")
    for command in (("add", "-A"), (*author, "commit", "-q", "-m", message)):
        subprocess.run(["git", *command], cwd=root, check=True)
    return (run_git(root, "rev-parse", "--short=8", "HEAD") or b"").decode().strip()


def test_the_last_commit_that_changed_the_paths_is_named(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    (tmp_path / "code.py").write_text("a = 1\n", encoding="utf-8")
    code = commit_files(tmp_path, "Code")
    (tmp_path / "text.md").write_text("A text\n", encoding="utf-8")
    text = commit_files(tmp_path, "Text")
    assert describe_commit(tmp_path, "code.py") == code
    assert describe_commit(tmp_path, "code.py", "text.md") == text


def test_changes_of_other_paths_do_not_make_a_commit_dirty(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for name in ("code.py", "text.md"):
        (tmp_path / name).write_text("1\n", encoding="utf-8")
    commit = commit_files(tmp_path, "Both")
    (tmp_path / "text.md").write_text("2\n", encoding="utf-8")
    assert describe_commit(tmp_path, "code.py") == commit
    assert describe_commit(tmp_path, "text.md") == f"{commit}-dirty"


def test_without_a_repository_there_is_no_commit(tmp_path: Path) -> None:
    assert describe_commit(tmp_path, "code.py") == ""
