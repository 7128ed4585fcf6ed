"""Results are read from the run's own files."""

from pathlib import Path

import pytest

from genlab.web.pages import evaluation


@pytest.mark.parametrize("dataset", ["arc_grids", "fashion_mnist"])
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
