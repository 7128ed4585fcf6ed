"""From arrays to metrics, verdict, diagnosis and figures."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
from PIL import Image

from genlab.datasets.arc_grids import arc_agi_grids, make_distribution
from genlab.evaluation.diagnostics.criteria import grid_verdict
from genlab.evaluation.diagnostics.rules import diagnose
from genlab.evaluation.evaluators import grids as evaluation
from genlab.evaluation.evaluators.base import per_epoch
from genlab.grids.generator import AtomicImageGenerator, take_objects

N = 120
ENTROPY = 20.0
HISTORY = [
    {
        "loss": 30.0 - epoch,
        "reconstruction_loss": 10.0 - epoch,
        "kl_divergence": 20.0,
        "beta_kl": 20.0,
        "train/loss": 30.0 - epoch,
        "train/reconstruction_loss": 10.0 - epoch,
        "train/kl_divergence": 20.0,
        "elbo": -30.0 + epoch,
        "beta": 1.0,
        "pixel_accuracy": 0.9,
        "exact_grid_accuracy": 0.1,
        "skipped_updates": float(skipped),
    }
    for epoch, skipped in enumerate([0, 2, 2, 5])
]


@pytest.fixture(scope="module")
def evidence() -> evaluation.GridEvidence:
    """A model that knows every grid, and whose samples are other grids of the program."""
    draw = AtomicImageGenerator(make_distribution(tiny.params().grids)).generate(3 * N, 0)
    rng = np.random.default_rng(0)
    arc = arc_agi_grids(tiny.SIZE)[:60]
    return evaluation.GridEvidence(
        truth=draw.grids[:N],
        predicted=draw.grids[:N],
        reconstruction=np.full(N, 1.0),
        kl=rng.normal(29.0, 1.0, N),
        log_weights=rng.normal(-29.0, 1.0, (10, 8)),
        means=rng.normal(size=(N, 6)) * [1, 1, 1, 1, 0, 0],
        objects=take_objects(draw.objects, np.arange(N), 3 * N),
        train=draw.grids[N : 2 * N],
        samples={"good": draw.grids[2 * N :], "copies": draw.grids[N : 2 * N]},
        arc_truth=arc,
        arc_predicted=arc,
    )


def _series(updates: int) -> dict[str, list[float]]:
    return per_epoch(HISTORY, {"samples_per_epoch": updates, "batch_size": 1})


def _measure(evidence: evaluation.GridEvidence) -> dict[str, Any]:
    return evaluation.measure_grids(
        evidence,
        beta_max=1.0,
        entropy_nats=ENTROPY,
        object_range=(1, 2),
        bootstrap=100,
        seed=0,
    )


@pytest.fixture(scope="module")
def metrics(evidence: evaluation.GridEvidence) -> dict[str, Any]:
    return _measure(evidence)


def test_a_perfect_model_scores_one(metrics: dict[str, Any]) -> None:
    for name in ("pixel_accuracy", "nonblack_accuracy", "exact_grid_accuracy"):
        assert metrics[name] == 1.0
    assert metrics["arc_agi"]["exact_grid_accuracy"] == 1.0
    assert metrics["arc_agi"]["n"] == 60


def test_the_bound_is_held_against_the_programs_entropy(
    metrics: dict[str, Any], evidence: evaluation.GridEvidence
) -> None:
    expected = float((evidence.reconstruction + evidence.kl).mean())
    assert metrics["neg_elbo_nats"] == pytest.approx(expected)
    assert metrics["neg_elbo_over_entropy_bound"] == pytest.approx(expected / ENTROPY)
    interval = metrics["intervals"]["neg_elbo_over_entropy_bound"]
    assert interval["low"] <= metrics["neg_elbo_over_entropy_bound"] <= interval["high"]
    assert interval["n"] == N


def test_bits_a_cell_are_those_of_this_grid_size(metrics: dict[str, Any]) -> None:
    cells = tiny.SIZE**2
    assert metrics["bits_per_cell"] == pytest.approx(
        metrics["neg_elbo_nats"] / (cells * math.log(2))
    )


def test_dead_latents_are_not_active(metrics: dict[str, Any]) -> None:
    assert (metrics["active_units"], metrics["latent_dim"]) == (4, 6)


def test_an_all_black_model_scores_as_one(evidence: evaluation.GridEvidence) -> None:
    found = _measure(replace(evidence, predicted=np.zeros_like(evidence.truth)))
    assert found["nonblack_accuracy"] == 0.0
    assert found["exact_grid_accuracy"] == 0.0
    assert grid_verdict(found, _series(10))["passed"] is False


def test_copies_of_training_grids_do_not_win(metrics: dict[str, Any]) -> None:
    assert metrics["samplers"]["copies"]["valid_rate"] == 1.0
    assert metrics["samplers"]["copies"]["unique_and_novel_share"] == 0.0
    assert metrics["samplers"]["copies"]["counted"] is False


def test_the_best_sampler_is_the_most_legal_of_those_that_count() -> None:
    def samplers(**legal: tuple[float, bool]) -> dict[str, Any]:
        return {
            "samplers": {
                name: {"valid_rate": share, "counted": counted}
                for name, (share, counted) in legal.items()
            }
        }

    assert evaluation.best_sampler(samplers(a=(0.5, True), b=(0.7, True), c=(1, False))) == "b"
    assert evaluation.best_sampler(samplers(a=(0.5, False), b=(0.7, False))) == "b"


def test_skipped_updates_are_counted_per_epoch() -> None:
    found = _series(10)
    assert found["skipped_updates"] == [0.0, 2.0, 0.0, 3.0]
    assert found["updates"] == [10.0] * 4
    assert found["loss"] == [30.0, 29.0, 28.0, 27.0]


def test_a_run_that_skips_many_updates_is_diagnosed(metrics: dict[str, Any]) -> None:
    findings = diagnose("grids", metrics, _series(10))
    (finding,) = [found for found in findings if found["name"] == "kl_explosion"]
    assert finding["found"] is True


def test_every_figure_is_drawn_and_opens(
    tmp_path: Path, metrics: dict[str, Any], evidence: evaluation.GridEvidence
) -> None:
    evaluation.draw_grids(tmp_path, evidence, metrics, (1, 2))
    names = {path.name for path in tmp_path.iterdir()}
    assert {
        "reconstructions.png",
        "arc_agi.png",
        "samples_good.png",
        "samples_copies.png",
        "colour_histogram.png",
        "colour_confusion.png",
    } == names
    for path in tmp_path.iterdir():
        with Image.open(path) as picture:
            picture.verify()
            assert min(picture.size) > 100
