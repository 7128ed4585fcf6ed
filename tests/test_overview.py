"""The overview page shows what the files say, and says how to get them where there are none."""

from __future__ import annotations

import json
from pathlib import Path

from genlab.measure.overview import Overview, read_overview


def test_the_committed_run_is_shown(root: Path) -> None:
    found = read_overview(root, "arc_grids")
    assert isinstance(found, Overview)
    verdict = json.loads((root / "metrics/arc_grids/verdict.json").read_text())
    assert found.passed == verdict["passed"]
    assert [row["name"] for row in found.criteria] == [c["name"] for c in verdict["criteria"]]
    assert all(picture.path.is_file() for picture in found.pictures)
    assert any(picture.path.stem == "reconstructions" for picture in found.pictures)
    assert dict(found.numbers)["cells right"].endswith("%")


def test_without_a_run_it_says_which_command_makes_one(tmp_path: Path) -> None:
    found = read_overview(tmp_path, "arc_grids")
    assert isinstance(found, str)
    assert "make repro" in found


def test_a_truncated_file_is_a_sentence(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "metrics" / "arc_grids"
    folder.mkdir(parents=True)
    text = (root / "metrics/arc_grids/metrics.json").read_text()
    (folder / "metrics.json").write_text(text[: len(text) // 2])
    found = read_overview(tmp_path, "arc_grids")
    assert isinstance(found, str)
    assert "metrics.json" in found
