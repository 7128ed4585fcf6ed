"""What changed since the last commit is what git says, number by number."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from genlab.web import tables
from genlab.web.changes import about, changes, leaves


def git(root: Path, *arguments: str) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *who, *arguments], cwd=root, check=True, capture_output=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A repository with one committed metrics file."""
    write(tmp_path, {"ssim": 0.5, "n": 10, "intervals": {"ssim": {"low": 0.4}}})
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "results")
    git(tmp_path, "commit", "-q", "-m", "Measure")
    return tmp_path


def write(root: Path, value: object) -> None:
    folder = root / "results" / "d"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(value))


def test_nothing_differs_right_after_a_commit(project: Path) -> None:
    assert changes(project, ["d"]) == []
    assert "Measure" in about(project)


def test_changed_new_and_gone_numbers_are_listed(project: Path) -> None:
    write(project, {"ssim": 0.75, "psnr": 20.0, "intervals": {"ssim": {"low": 0.6}}})
    found = {change.name: change for change in changes(project, ["d"])}
    assert set(found) == {"ssim", "psnr", "n"}
    assert (found["ssim"].before, found["ssim"].after) == (0.5, 0.75)
    assert found["ssim"].relative == pytest.approx(0.5)
    assert (found["psnr"].before, found["n"].after) == (None, None)
    assert "+50 %" in tables.changes(list(found.values()))


def test_a_commit_settles_it(project: Path) -> None:
    write(project, {"ssim": 0.75})
    assert changes(project, ["d"])
    git(project, "commit", "-q", "-a", "-m", "Measure again")
    assert changes(project, ["d"]) == []


def test_criteria_are_known_by_their_names() -> None:
    criteria = [{"name": "ssim", "value": 0.9, "passed": True, "why": "x"}]
    found = dict(leaves({"criteria": criteria, "series": {"loss": [1, 2]}, "a": {"b": None}}))
    assert found == {"criteria.ssim.value": 0.9, "criteria.ssim.passed": True, "a.b": None}
