"""Results are read from the run's own files."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from genlab.core.errors import GenlabError
from genlab.core.io import write_json
from genlab.web.pages import evaluation

NAME = "arc_grids"


@pytest.mark.parametrize("dataset", [NAME, "fashion_mnist"])
def test_results_have_a_sampler_and_numbers_with_intervals(project: Path, dataset: str) -> None:
    state, reasons, criteria = evaluation.read_verdict(project, dataset)
    assert state in ("passed", "not passed")
    assert f"of {len(criteria)} criteria" in reasons
    numbers = evaluation.key_numbers(project, dataset)
    assert len(numbers) == 5
    assert all(interval for *_, interval in numbers[:2])
    samplers = evaluation.compare_samplers(project, dataset)
    assert sum("(picked)" in row["sampler"] for row in samplers) == 1
    assert evaluation.compare_targets(project, dataset)


def test_results_of_an_older_run_name_the_command(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "results", tmp_path / "results")
    write_json(tmp_path / "results" / NAME / "metrics.json", {})
    with pytest.raises(GenlabError, match=r"metrics\.json.*make repro"):
        evaluation.key_numbers(tmp_path, NAME)
