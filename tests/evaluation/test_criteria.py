"""Acceptance criteria: a healthy model passes, one bad number fails one criterion."""

import json
from typing import Any

import numpy as np
import pytest
from healthy import evidence, grid_run_metrics, grid_series, grids, image_metrics, image_series

from genlab.evaluation.diagnostics.criteria import check_criteria


def _failed(kind: str, metrics: dict[str, Any], curves: dict[str, Any]) -> list[str]:
    verdict = check_criteria(kind, evidence(kind, metrics, curves))
    failed = [criterion["name"] for criterion in verdict["criteria"] if not criterion["passed"]]
    assert verdict["passed"] == (not failed)
    json.dumps(verdict, allow_nan=False)
    return failed


def _of_grids(metrics: dict[str, Any], **curves: list[float]) -> list[str]:
    return _failed("grids", metrics, grid_series(**curves))


@pytest.mark.parametrize(
    ("changes", "failed"),
    [
        ({}, []),
        ({"bits_per_dim": 3.46}, ["bits_per_dim"]),
        ({"bits_per_dim": 3.459}, []),
        ({"comparable": False}, ["bits_per_dim"]),
        ({"ssim": 0.70}, ["ssim"]),
        ({"samplers.prior.frechet_distance": 0.127 * 10.1}, ["prior_over_posterior"]),
        ({"samplers.prior.frechet_distance": 0.127 * 9.9}, []),
        ({"samplers.rejection.relative_frechet": 10.1}, ["relative_frechet_best"]),
        (
            {"samplers.gmm.relative_frechet": 99.0},
            [],
        ),  # neither the best sampler nor one with a criterion
        ({"best_sampler": "gmm"}, ["relative_frechet_best"]),
        ({"samplers.rejection.discriminator_accuracy": 0.76}, ["discriminator_accuracy"]),
    ],
)
def test_one_bad_number_fails_one_criterion(changes: dict[str, Any], failed: list[str]) -> None:
    assert _failed("images", image_metrics(changes), image_series()) == failed


def test_the_first_line_of_a_verdict_says_what_is_missed() -> None:
    changes = {"ssim": 0.5, "comparable": False}
    verdict = check_criteria("images", evidence("images", image_metrics(changes), image_series()))
    assert next(iter(verdict)) == "summary"
    assert verdict["summary"] == "missed: bits_per_dim – (wanted < 3.46), ssim 0.5 (wanted > 0.7)"
    assert verdict["criteria"][1]["interval"] == {"low": 0.83, "high": 0.85, "n": 10_000}


def test_skipped_updates_fail_from_one_percent_on() -> None:
    series = [image_series(skipped_updates=[skipped] * 6) for skipped in (5.0, 6.0)]
    failed = [_failed("images", image_metrics(), curves) for curves in series]
    assert failed == [[], ["skipped_updates"]]


def test_black_answers_and_a_few_wrong_cells_in_most_grids_fail() -> None:
    black = _of_grids(grid_run_metrics(np.zeros_like(grids())))
    assert {"exact_grid_accuracy", "no_dominant_colour", "all_colours_learnt"} <= set(black)
    predicted = grids()
    predicted[:250, 0, :4] = (predicted[:250, 0, :4] + 1) % 10
    metrics = grid_run_metrics(predicted)
    assert metrics["pixel_accuracy"] > 0.98
    assert "exact_grid_accuracy" in _of_grids(metrics)


def test_a_run_with_a_kl_term_must_generate() -> None:
    sampler = {"valid_rate": 0.5, "intervals": {"valid_rate": {"low": 0.4, "high": 0.6, "n": 100}}}
    poor = {"neg_elbo_over_entropy_bound": 1.11, "samplers": {"prior": sampler}}
    metrics = grid_run_metrics(grids(), **poor)
    both = ["valid_rate", "neg_elbo_over_entropy_bound"]
    assert _of_grids(metrics) == both
    # Also where the KL has vanished, from which beta cannot be read.
    assert _of_grids(metrics, kl_divergence=[0.0] * 3, beta_kl=[0.0] * 3) == both
    assert _of_grids({**metrics, "beta_max": 0.0}) == []


def test_a_colour_that_the_data_lack_was_not_learnt() -> None:
    metrics = grid_run_metrics(grids())
    assert _of_grids(metrics) == []
    del metrics["per_class_accuracy"]["7"]
    assert _of_grids(metrics) == ["all_colours_learnt"]
