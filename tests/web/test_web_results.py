"""Results, bars and the next step are read from the run's own files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from genlab.core.errors import GenlabError
from genlab.web.changes import Change
from genlab.web.files import Missing
from genlab.web.pipeline import read_pipeline
from genlab.web.results import Results, read_results
from genlab.web.steps import next_step

DATASETS = ("arc_grids", "fashion_mnist")


@pytest.fixture
def copied(root: Path, tmp_path: Path) -> Path:
    """A folder with the committed results, to be changed."""
    shutil.copytree(root / "results", tmp_path / "results")
    for name in ("dvc.yaml", "dvc.lock", "experiments.yaml"):
        shutil.copy(root / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("dataset", DATASETS)
def test_the_committed_run_is_shown(root: Path, dataset: str) -> None:
    found = read_results(root, dataset)
    verdict = json.loads((root / f"results/{dataset}/verdict.json").read_text())
    assert found.passed == verdict["passed"]
    assert f"of {len(verdict['criteria'])} criteria" in found.sentence
    assert len(found.numbers) == 5
    assert all(number.interval for number in found.numbers[:2])
    assert found.sampler in found.metrics["samplers"]


def test_no_run_and_half_a_run_are_told_apart(copied: Path, tmp_path: Path) -> None:
    with pytest.raises(Missing, match="make repro"):
        read_results(tmp_path / "elsewhere", "arc_grids")
    file = copied / "results/arc_grids/metrics.json"
    file.write_text(file.read_text()[:99])
    with pytest.raises(GenlabError, match="truncated"):
        read_results(copied, "arc_grids")
    file.write_text("{}")
    with pytest.raises(GenlabError, match="older run"):
        read_results(copied, "arc_grids")


def results(root: Path, **changes: object) -> Results:
    found = read_results(root, "arc_grids")
    parts = {"metrics": found.metrics, "verdict": found.verdict, "diagnosis": found.diagnosis}
    return Results("arc_grids", **{**parts, **changes})  # type: ignore[arg-type]


def test_the_next_step_follows_the_order_of_the_work(copied: Path) -> None:
    stale = read_pipeline(copied, DATASETS, {"train@arc_grids": [{"changed deps": {"x": "new"}}]})
    done, asked = (read_pipeline(copied, ["arc_grids"], found) for found in ({}, None))
    change = Change("arc_grids", "metrics", "n", 1, 2)
    ill = {
        "verdict": {"passed": False, "criteria": [{"name": "ssim", "passed": False}]},
        "diagnosis": {
            "diagnoses": [{"name": "kl_explosion", "found": True, "fix": {"grad_clip": 1.0}}]
        },
    }
    assert next_step(copied, stale, [results(copied, **ill)], [change]).command == "make repro"
    cured = next_step(copied, done, [results(copied, **ill)], [change])
    assert cured.command == "dvc exp run -S grad_clip=1.0"
    assert next_step(copied, asked, [results(copied)], []).command == "dvc status"
    assert next_step(copied, done, [], []).command == "make repro"
    assert "git commit" in next_step(copied, done, [results(copied)], [change]).command
    assert next_step(copied, done, [results(copied)], []).command.startswith("make ")


def test_an_experiment_without_a_record_is_named(copied: Path) -> None:
    (copied / "experiments.yaml").write_text("new-one: {why: x, params: {}}\n")
    done = read_pipeline(copied, ["arc_grids"], {})
    assert "new-one" in next_step(copied, done, [results(copied)], []).command
    (copied / "experiments.yaml").write_text("beta0: [why]\n")
    with pytest.raises(GenlabError, match=r"experiments\.yaml.*git checkout"):
        next_step(copied, done, [results(copied)], [])
    (copied / "experiments.yaml").unlink()
    assert next_step(copied, done, [results(copied)], []).command == "make report"
