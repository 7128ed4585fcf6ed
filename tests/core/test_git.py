"""Which commit a result names."""

from pathlib import Path

import pytest
from clones import run_in

from genlab.core.git import describe_commit


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    run_in(tmp_path, "git", "init", "-q")
    return tmp_path


def commit_files(repository: Path) -> str:
    """Commit everything; return the short hash."""
    run_in(repository, "git", "add", "-A")
    run_in(repository, "git", "commit", "-q", "-m", "files")
    return run_in(repository, "git", "rev-parse", "--short=8", "HEAD").strip()


def test_the_last_commit_that_changed_the_paths_is_named(repository: Path) -> None:
    (repository / "code.py").write_text("a = 1\n", encoding="utf-8")
    code = commit_files(repository)
    (repository / "text.md").write_text("A text\n", encoding="utf-8")
    text = commit_files(repository)
    assert describe_commit(repository, "code.py") == code
    assert describe_commit(repository, "code.py", "text.md") == text


def test_changes_of_other_paths_do_not_make_a_commit_dirty(repository: Path) -> None:
    for name in ("code.py", "text.md"):
        (repository / name).write_text("1\n", encoding="utf-8")
    commit = commit_files(repository)
    (repository / "text.md").write_text("2\n", encoding="utf-8")
    assert describe_commit(repository, "code.py") == commit
    assert describe_commit(repository, "text.md") == f"{commit}-dirty"


def test_without_a_repository_there_is_no_commit(tmp_path: Path) -> None:
    assert describe_commit(tmp_path, "code.py") == ""
