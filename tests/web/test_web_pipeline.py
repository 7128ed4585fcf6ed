"""The board shows every stage of every dataset, and why one is stale."""

from __future__ import annotations

import os
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from genlab.core.io import write_json
from genlab.web import board
from genlab.web.pipeline import ago, lasted, read_pipeline, reasons

DATASETS = ["arc_grids", "fashion_mnist"]


def test_the_projects_own_stages_stand_in_their_order(root: Path) -> None:
    found = read_pipeline(root, DATASETS, {})
    assert found.names[:5] == ("params", "generate", "split", "train", "evaluate")
    assert {"train@arc_grids", "evaluate@fashion_mnist"} <= set(found.cells)
    assert found.cells["train@arc_grids"].state == "up to date"
    assert found.cells["train@arc_grids"].stage.outs[0] == "data/checkpoints/arc_grids"


def test_a_stale_stage_says_which_dependency_changed(root: Path) -> None:
    status = {
        "train@arc_grids": [
            {"changed deps": {"src/genlab/grids": "modified", "params.yaml": {"lr": "modified"}}}
        ]
    }
    found = read_pipeline(root, DATASETS, status)
    cell = found.cells["train@arc_grids"]
    assert cell.reasons == ("src/genlab/grids changed", "params.yaml: lr (modified)")
    assert [cell.stage.address for cell in found.stale] == ["train@arc_grids"]
    drawn = board.draw(found)
    assert "src/genlab/grids changed" in drawn
    assert drawn.count('class="g-card ') == len(found.cells)


def test_a_stage_without_a_matrix_is_run_once(tmp_path: Path) -> None:
    (tmp_path / "dvc.yaml").write_text(
        "stages:\n  all:\n    cmd: x\n    outs: [metrics/a.json: {cache: false}]\n"
    )
    found = read_pipeline(tmp_path, DATASETS, {})
    assert [cell.stage.address for cell in found.row(None)] == ["all"]
    assert found.cells["all"].state == "never run"
    assert found.cells["all"].stage.outs == ("metrics/a.json",)


def test_duration_and_time_come_from_what_the_stage_left(tmp_path: Path) -> None:
    (tmp_path / "dvc.yaml").write_text(
        "stages:\n  train:\n    matrix: {dataset: [d]}\n    cmd: x\n"
        "    outs: ['data/checkpoints/${item.dataset}']\n"
    )
    folder = tmp_path / "data/checkpoints/d"
    write_json(folder / "provenance.json", {"training_seconds": 65.2})
    os.utime(folder, (0, 1_000_000))
    cell = read_pipeline(tmp_path, ["d"], {}).cells["train@d"]
    assert cell.seconds == 65.2
    assert cell.written == datetime.fromtimestamp(1_000_000, timezone.utc)


def test_reasons_know_what_dvc_can_say() -> None:
    said = [{"changed outs": {"data/x": "not in cache"}}, {"changed command": "a -> b"}, "frozen"]
    assert reasons(said) == ["data/x is not in the cache", "its command changed", "frozen"]


@pytest.mark.parametrize(
    ("seconds", "duration", "age"),
    [
        (None, "–", "never"),
        (2.5, "2.5 s", "just now"),
        (59.0, "59 s", "just now"),
        (65.2, "1 min 05 s", "1 minute ago"),
        (7260.0, "2 h 01 min", "2 hours ago"),
        (86400.0, "24 h 00 min", "1 day ago"),
    ],
)
def test_durations_are_rounded_to_their_size(
    seconds: float | None, duration: str, age: str
) -> None:
    now = datetime.now(timezone.utc)
    assert lasted(seconds) == duration
    assert ago(None if seconds is None else now - timedelta(seconds=seconds), now) == age


def test_a_hostile_name_stays_text(tmp_path: Path) -> None:
    (tmp_path / "dvc.yaml").write_text("stages:\n  '<script>x':\n    cmd: x\n    desc: '\"<b>'\n")
    drawn = board.draw(read_pipeline(tmp_path, [], {}))
    assert "<script>" not in drawn
    assert '"<b>"' not in drawn
    assert "&lt;script&gt;" in drawn
