"""Results and the next step are read from the run's own files."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from genlab.core.errors import GenlabError
from genlab.core.io import write_json
from genlab.web.changes import Change
from genlab.web.pipeline import read_pipeline
from genlab.web.results import Results, read_results
from genlab.web.steps import next_step

NAME = "arc_grids"
CHANGE = Change(NAME, "n", 1, 2)
MISSED = {"passed": False, "criteria": [{"name": "ssim", "passed": False}]}
FIX = {"name": "kl_explosion", "found": True, "fix": {"grad_clip": 1.0}}


@pytest.fixture
def copied(project: Path, tmp_path: Path) -> Path:
    """A folder with results, to be changed."""
    shutil.copytree(project / "results", tmp_path / "results")
    for name in ("dvc.yaml", "dvc.lock", "experiments.yaml"):
        shutil.copy(project / name, tmp_path / name)
    return tmp_path


def results(root: Path, **changes: object) -> Results:
    found = read_results(root, NAME)
    parts = {"metrics": found.metrics, "verdict": found.verdict, "diagnosis": found.diagnosis}
    return Results(NAME, **{**parts, **changes})  # type: ignore[arg-type]


@pytest.mark.parametrize("dataset", [NAME, "fashion_mnist"])
def test_results_have_a_sampler_and_numbers_with_intervals(project: Path, dataset: str) -> None:
    found = read_results(project, dataset)
    assert str(len(found.verdict["criteria"])) in found.sentence
    assert len(found.numbers) == 5
    assert all(number.interval for number in found.numbers[:2])
    assert found.sampler in found.metrics["samplers"]


def test_results_of_an_older_run_name_the_command(copied: Path) -> None:
    write_json(copied / "results" / NAME / "metrics.json", {})
    with pytest.raises(GenlabError, match="make repro"):
        read_results(copied, NAME)


@pytest.mark.parametrize(
    ("status", "found", "changed", "command"),
    [
        ({f"train@{NAME}": [{"changed deps": {"x": "new"}}]}, {}, [], "make repro"),
        ({}, None, [], "make repro"),
        (None, {}, [], "dvc status"),
        ({}, {"verdict": MISSED, "diagnosis": {"diagnoses": [FIX]}}, [CHANGE],
         "dvc exp run -S grad_clip=1.0"),
        ({}, {"verdict": MISSED, "diagnosis": {"diagnoses": []}}, [], "--jobs 2"),
        ({}, {}, [CHANGE], "git commit"),
    ],
)  # fmt: skip
def test_the_next_step_follows_the_order_of_the_work(
    copied: Path, status: Any, found: Any, changed: list[Change], command: str
) -> None:
    pipeline = read_pipeline(copied, [NAME], status)
    read = [] if found is None else [results(copied, **found)]
    assert command in next_step(copied, pipeline, read, changed).command


def test_what_was_not_measured_comes_last(copied: Path) -> None:
    done, read = read_pipeline(copied, [NAME], {}), [results(copied)]
    (copied / "experiments.yaml").write_text("new-one: {why: x, params: {}, seeds: [0]}\n")
    assert "new-one" in next_step(copied, done, read, []).command
    (copied / "experiments.yaml").write_text("new-one: {why: x, params: {}, manual: true}\n")
    assert next_step(copied, done, read, []).command == "make report"
    (copied / "experiments.yaml").unlink()
    assert next_step(copied, done, read, []).command == "make report"
    (copied / "results" / "benchmarks.json").unlink()
    assert next_step(copied, done, read, []).command == "make bench"
