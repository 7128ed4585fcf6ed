"""What changed since the last commit is what git says, number by number."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from genlab.web import tables
from genlab.web.changes import about, changes, leaves
from genlab.web.files import Missing

Git = Callable[..., str]


def write(root: Path, value: object) -> None:
    folder = root / "results" / "d"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metrics.json").write_text(json.dumps(value))


def test_changed_new_and_gone_numbers_are_listed_until_they_are_committed(
    git: Git, tmp_path: Path
) -> None:
    with pytest.raises(Missing):
        changes(tmp_path, ["d"])
    write(tmp_path, {"ssim": 0.5, "n": 10, "intervals": {"ssim": {"low": 0.4}}})
    git("add", "results")
    git("commit", "-q", "-m", "Measure")
    assert changes(tmp_path, ["d"]) == []
    assert "Measure" in about(tmp_path)

    write(tmp_path, {"ssim": 0.75, "psnr": 20.0, "intervals": {"ssim": {"low": 0.6}}})
    found = {change.name: change for change in changes(tmp_path, ["d"])}
    assert set(found) == {"ssim", "psnr", "n"}
    assert (found["ssim"].before, found["ssim"].after) == (0.5, 0.75)
    assert found["ssim"].relative == pytest.approx(0.5)
    assert (found["psnr"].before, found["n"].after) == (None, None)
    assert "+50 %" in tables.changes(list(found.values()))

    git("commit", "-q", "-a", "-m", "Measure again")
    assert changes(tmp_path, ["d"]) == []


@pytest.mark.parametrize("committed", ["{", ""])
def test_a_broken_file_has_no_numbers(git: Git, tmp_path: Path, committed: str) -> None:
    write(tmp_path, {})
    (tmp_path / "results/d/metrics.json").write_text(committed)
    git("add", "results")
    git("commit", "-q", "-m", "Measure")
    assert changes(tmp_path, ["d"]) == []
    write(tmp_path, {"n": 1})
    assert [(found.before, found.after) for found in changes(tmp_path, ["d"])] == [(None, 1)]


def test_criteria_are_known_by_their_names() -> None:
    criteria = [{"name": "ssim", "value": 0.9, "passed": True, "why": "x"}]
    found = dict(leaves({"criteria": criteria, "series": {"loss": [1, 2]}, "a": {"b": None}}))
    assert found == {"criteria.ssim.value": 0.9, "criteria.ssim.passed": True, "a.b": None}
