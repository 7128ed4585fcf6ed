"""What changed since the last commit is what dvc says, the largest change first."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from genlab.web import tables
from genlab.web.changes import changes, last_commit

DIFF = {
    "metrics/grids.json": {"n": {"old": 100, "new": 101, "diff": 1}},
    "metrics/images.json": {
        "ssim": {"old": 0.5, "new": 0.75, "diff": 0.25},
        "passed": {"old": True, "new": False, "diff": -1},
        "psnr": {"old": None, "new": 20.0},
    },
}


def test_numbers_follow_what_is_new_or_gone_by_relative_change() -> None:
    found = changes(DIFF)
    assert [change.name for change in found] == ["passed", "psnr", "ssim", "n"]
    assert (found[2].file, found[2].before, found[2].after) == ("images", 0.5, 0.75)
    assert found[2].relative == pytest.approx(0.5)
    assert found[0].relative is found[1].relative is None
    assert "+50 %" in tables.changes(found)


def test_the_last_commit_is_named(git: Callable[..., str], tmp_path: Path) -> None:
    assert last_commit(tmp_path) == "no commit yet"
    git("commit", "-q", "--allow-empty", "-m", "Measure")
    assert "Measure" in last_commit(tmp_path)
