"""The board shows every stage of every dataset, and why one is stale."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

from genlab.core.io import write_json
from genlab.web import board
from genlab.web.pipeline import read_pipeline, reasons

DATASETS = ["arc_grids", "fashion_mnist"]
STAGES = """\
stages:
  train:
    matrix: {dataset: [d]}
    cmd: x
    outs: ["data/checkpoints/${item.dataset}"]
  <script>x:
    cmd: x
    desc: '"<b>'
    outs: [metrics/a.json: {cache: false}]
"""


def test_the_projects_own_stages_stand_in_their_order(root: Path) -> None:
    found = read_pipeline(root, DATASETS, {})
    assert found.names[:5] == ("params", "generate", "split", "train", "evaluate")
    assert {"train@arc_grids", "evaluate@fashion_mnist"} <= set(found.cells)
    assert found.cells["train@arc_grids"].state == "up to date"
    assert found.cells["train@arc_grids"].stage.outs[0] == "data/checkpoints/arc_grids"


def test_a_stale_stage_says_which_dependency_changed(root: Path) -> None:
    changed = {"src/genlab/grids": "modified", "params.yaml": {"lr": "modified"}}
    found = read_pipeline(root, DATASETS, {"train@arc_grids": [{"changed deps": changed}]})
    cell = found.cells["train@arc_grids"]
    assert cell.reasons == ("src/genlab/grids changed", "params.yaml: lr (modified)")
    assert [cell.stage.address for cell in found.stale] == ["train@arc_grids"]
    drawn = board.draw(found)
    assert "src/genlab/grids changed" in drawn
    assert drawn.count('class="g-card ') == len(found.cells)


def test_stages_have_their_times_and_hostile_names_stay_text(tmp_path: Path) -> None:
    (tmp_path / "dvc.yaml").write_text(STAGES)
    folder = tmp_path / "data/checkpoints/d"
    write_json(folder / "provenance.json", {"training_seconds": 65.2})
    os.utime(folder, (0, 1_000_000))
    found = read_pipeline(tmp_path, ["d"], {})
    cell = found.cells["train@d"]
    assert cell.seconds == 65.2
    assert cell.written == datetime.fromtimestamp(1_000_000, timezone.utc)
    [alone] = found.row(None)
    assert (alone.state, alone.stage.outs) == ("never run", ("metrics/a.json",))
    drawn = board.draw(found)
    assert "<script>" not in drawn
    assert '"<b>"' not in drawn
    assert "&lt;script&gt;" in drawn


def test_reasons_know_what_dvc_can_say() -> None:
    said = [{"changed outs": {"data/x": "not in cache"}}, {"changed command": "a -> b"}, "frozen"]
    assert reasons(said) == ["data/x is not in the cache", "its command changed", "frozen"]
