"""The last lines of make repro and make smoke: times, outputs, what was learnt, what to open."""

import json
from pathlib import Path

import pytest
from scripts.smoke import SMALL, describe_models
from scripts.summary import describe_next, describe_stages

from genlab.core.io import read_yaml
from genlab.core.params import parse_params
from genlab.core.runtime import STAGES_LOG
from genlab.experiments.definitions import apply_changes

ROOT = Path(__file__).resolve().parents[2]
LOCK = """
stages:
  train@grids:
    cmd: train
    outs:
    - path: data/checkpoints/grids
    - path: results/grids/training.json
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder in which a stage ran at 100 s and two at 200 s and later."""
    stages = [
        {"stage": "params", "dataset": "grids", "started": 100.0},
        {"stage": "train", "dataset": "grids", "started": 200.0},
        {"stage": "benchmark", "dataset": None, "started": 230.0},
    ]
    (tmp_path / STAGES_LOG).parent.mkdir()
    lines = (json.dumps(stage | {"seconds": 30.0, "cpu_seconds": 45.5}) for stage in stages)
    (tmp_path / STAGES_LOG).write_text("\n".join(lines) + "\n")
    (tmp_path / "dvc.lock").write_text(LOCK)
    return tmp_path


def test_stages_since_a_moment_are_shown_with_times_and_outputs(folder: Path) -> None:
    _, train, benchmark, total = (line.split() for line in describe_stages(folder, 150.0))
    assert train[:3] == ["train@grids", "30.0", "45.5"]
    assert train[3:] == ["data/checkpoints/grids,", "results/grids/training.json"]
    assert benchmark == ["benchmark", "30.0", "45.5"]
    assert total == ["2", "stages", "60.0", "91.0"]


def test_a_run_without_stages_says_so(folder: Path, tmp_path: Path) -> None:
    (line,) = describe_stages(folder, 300.0)
    assert "no stage ran" in line
    assert list(describe_stages(tmp_path / "empty")) == [line]


def test_what_is_there_is_named_to_be_opened(folder: Path) -> None:
    assert list(describe_next(folder)) == ["next:"]
    page = folder / "plots/grids/failures/index.html"
    page.parent.mkdir(parents=True)
    page.touch()
    (folder / "results").mkdir()
    text = "\n".join(describe_next(folder))
    for item in (str(page), "make app", "make report"):
        assert item in text


def test_what_the_models_reconstruct_is_one_line(folder: Path) -> None:
    (folder / "metrics").mkdir()
    (folder / "metrics/arc_grids.json").write_text('{"exact_match": 0.97}')
    line = describe_models(folder)
    assert "0.970" in line
    assert "SSIM" not in line
    (folder / "metrics/fashion_mnist.json").write_text('{"ssim": 0.65}')
    assert "SSIM of test images 0.650" in describe_models(folder)


def test_the_task_is_learnt_at_the_default_beta() -> None:
    params = parse_params(apply_changes(read_yaml(ROOT / "params.yaml"), SMALL, "smoke"), "smoke")
    assert params.beta_max == 1.0
    assert not {"beta_max", "beta_schedule", "free_bits"} & SMALL.keys()
