"""The stage evaluate on grids: metrics, the selected scalars and the figures."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import tiny
from PIL import Image
from stage_runs import run_stage

from genlab.core.io import write_json
from genlab.evaluation.evaluators.grids import best_sampler

NAME = "arc_grids"
ENTROPY = 20.0


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a tiny model of grids was trained and evaluated."""
    folder = tmp_path_factory.mktemp("grids")
    tiny.write_params(folder, epochs=1)
    tiny.write_dataset(folder / "data" / NAME)
    described = {"data_entropy_bound_nats": ENTROPY}
    write_json(folder / "results" / NAME / "data.json", described)
    for stage in ("train", "evaluate"):
        done = run_stage(folder, stage, "--dataset", NAME)
        assert done.status == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def metrics(done: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((done / "results" / NAME / "metrics.json").read_text())
    return found


def test_the_bound_is_compared_with_the_entropy_of_the_data(metrics: dict[str, Any]) -> None:
    bound = metrics["reconstruction_nats"] + metrics["kl_nats"]
    assert metrics["neg_elbo_nats"] == pytest.approx(bound)
    assert metrics["neg_elbo_over_entropy_bound"] == pytest.approx(bound / ENTROPY)
    assert metrics["bits_per_cell"] == pytest.approx(bound / (tiny.SIZE**2 * math.log(2)))
    interval = metrics["intervals"]["neg_elbo_over_entropy_bound"]
    assert interval["low"] <= metrics["neg_elbo_over_entropy_bound"] <= interval["high"]
    assert interval["n"] == 40


def test_the_summary_selects_scalars_of_the_metrics(done: Path, metrics: dict[str, Any]) -> None:
    summary = json.loads((done / "metrics" / f"{NAME}.json").read_text())
    assert summary == {
        "passed": False,
        **{name: metrics[name] for name in ("active_units", "pixel_accuracy", "nonblack_accuracy")},
        "exact_match": metrics["exact_grid_accuracy"],
        "neg_elbo_over_entropy_bound": metrics["neg_elbo_over_entropy_bound"],
        "valid_rate": metrics["samplers"][best_sampler(metrics)]["valid_rate"],
        "arc_exact_match": metrics["arc_agi"]["exact_grid_accuracy"],
    }


def test_the_best_sampler_is_the_most_valid_of_those_that_count() -> None:
    def samplers(**valid: tuple[float, bool]) -> dict[str, Any]:
        return {
            "samplers": {
                name: {"valid_rate": share, "counted": counted}
                for name, (share, counted) in valid.items()
            }
        }

    assert best_sampler(samplers(a=(0.5, True), b=(0.7, True), c=(1, False))) == "b"
    assert best_sampler(samplers(a=(0.5, False), b=(0.7, False))) == "b"


def test_every_figure_is_drawn_and_opens(done: Path) -> None:
    paths = list((done / "plots" / NAME / "evaluation").iterdir())
    assert {path.stem for path in paths} == {
        "reconstructions", "arc_agi", "samples_prior", "samples_gaussian", "colour_histogram",
        "training_curves",
    }  # fmt: skip
    for path in paths:
        with Image.open(path) as picture:
            picture.verify()
            assert picture.width == 1200
