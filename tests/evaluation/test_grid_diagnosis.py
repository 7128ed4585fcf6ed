"""Each collapse is provoked and named; a healthy model has none."""

import json
from typing import Any

import numpy as np
import pytest

from genlab.evaluation.diagnostics.criteria import grid_verdict
from genlab.evaluation.diagnostics.evidence import betas
from genlab.evaluation.diagnostics.rules import diagnose
from genlab.evaluation.metrics.reconstruction import grid_metrics

NAMES = [
    "posterior_collapse",
    "all_black_collapse",
    "kl_explosion",
    "dead_colours",
    "over_regularisation",
]


def _truth() -> np.ndarray:
    rng = np.random.default_rng(0)
    grids = rng.integers(0, 10, (300, 16, 16), dtype=np.uint8)
    grids[rng.random(grids.shape) < 0.9] = 0
    return grids


def _metrics(predicted: np.ndarray, **changes: Any) -> dict[str, Any]:
    """Metrics of an answer, of a model that is healthy but for `changes`."""
    latent = {
        "kl_nats": 45.0,
        "active_units": 100,
        "latent_dim": 128,
        "data_entropy_bound_nats": 37.0,
    }
    return {**grid_metrics(_truth(), predicted, bootstrap=20), **latent, **changes}


def _series(**changes: list[float]) -> dict[str, list[float]]:
    healthy = {
        "kl_divergence": [20.0, 40.0, 45.0],
        "beta_kl": [0.0, 20.0, 45.0],
        "loss": [200.0, 90.0, 60.0],
        "skipped_updates": [0.0, 0.0, 0.0],
        "updates": [100.0, 100.0, 100.0],
    }
    return {**healthy, **changes}


def _found(metrics: dict[str, Any], series: dict[str, list[float]] | None = None) -> list[str]:
    findings = diagnose("grids", metrics, series or _series())
    assert [finding["name"] for finding in findings] == NAMES
    for finding in findings:
        assert finding["evidence"]
        assert finding["evidence_files"]
        assert bool(finding["fix"]) == finding["found"]
        json.dumps(finding, allow_nan=False)
    return [finding["name"] for finding in findings if finding["found"]]


def test_a_healthy_model_has_no_collapse_and_passes() -> None:
    metrics = _metrics(_truth())
    assert _found(metrics) == []
    assert grid_verdict(metrics, _series())["passed"] is True


def test_a_free_kl_at_beta_0_is_no_explosion() -> None:
    metrics = _metrics(_truth(), kl_nats=20_000.0)
    series = _series(kl_divergence=[100.0, 9000.0, 20_000.0], beta_kl=[0.0, 0.0, 0.0])
    assert _found(metrics, series) == []


def test_an_all_black_answer_is_an_all_black_collapse_with_dead_colours() -> None:
    metrics = _metrics(np.zeros_like(_truth()))
    assert _found(metrics) == ["all_black_collapse", "dead_colours"]
    failed = {c["name"] for c in grid_verdict(metrics, _series())["criteria"] if not c["passed"]}
    assert {"above_collapse_threshold", "no_dominant_colour", "all_colours_learnt"} <= failed


@pytest.mark.parametrize("change", [{"kl_nats": 0.3}, {"active_units": 0}])
def test_a_latent_that_says_nothing_is_a_posterior_collapse(change: dict[str, float]) -> None:
    # Good pictures all the same: what a decoder that ignores its latent could reach.
    assert "posterior_collapse" in _found(_metrics(_truth(), **change))


def test_a_penalised_kl_of_ten_times_the_entropy_explodes() -> None:
    metrics = _metrics(_truth(), kl_nats=900.0)
    series = _series(kl_divergence=[50.0, 300.0, 900.0], beta_kl=[50.0, 300.0, 900.0])
    assert _found(metrics, series) == ["kl_explosion"]


def test_a_loss_that_is_not_finite_or_many_skipped_updates_explode() -> None:
    metrics = _metrics(_truth())
    assert _found(metrics, _series(loss=[200.0, float("nan"), 60.0])) == ["kl_explosion"]
    assert _found(metrics, _series(skipped_updates=[0.0, 9.0, 0.0])) == ["kl_explosion"]
    assert _found(metrics, _series(skipped_updates=[0.0, 2.0, 0.0])) == []


def test_one_colour_that_is_never_predicted_is_dead() -> None:
    predicted = _truth()
    predicted[predicted == 7] = 8
    metrics = _metrics(predicted)
    assert _found(metrics) == ["dead_colours"]
    assert diagnose("grids", metrics, _series())[3]["evidence"]["colours"] == ["7"]
    assert grid_verdict(metrics, _series())["passed"] is False


def test_too_short_a_code_under_a_large_beta_is_over_regularisation() -> None:
    predicted, rng = _truth(), np.random.default_rng(1)
    predicted[rng.random(predicted.shape) < 0.03] = 0
    lost = (predicted > 0) & (rng.random(predicted.shape) < 0.3)
    predicted[lost] = 1 + predicted[lost] % 9
    metrics = _metrics(predicted, kl_nats=8.0)
    series = _series(kl_divergence=[8.0] * 3, beta_kl=[32.0] * 3)
    assert _found(metrics, series) == ["over_regularisation"]
    assert diagnose("grids", metrics, series)[4]["fix"]["beta_max"] == 1.0


def test_the_collapse_threshold_follows_the_baseline_of_the_data() -> None:
    metrics = _metrics(_truth())
    criterion = grid_verdict(metrics, _series())["criteria"][1]
    baseline = metrics["all_black_baseline"]
    assert criterion["threshold"] == pytest.approx((1 + baseline) / 2)


def test_betas_are_read_from_the_curves() -> None:
    assert betas(_series()).tolist() == [0, 0.5, 1]
    assert betas(_series(kl_divergence=[1.0, float("inf")], beta_kl=[1.0, 1.0])).tolist() == [1, 0]


def test_a_colour_that_the_data_lack_was_not_learnt() -> None:
    metrics = _metrics(_truth())
    del metrics["per_class_accuracy"]["7"]
    failed = [c for c in grid_verdict(metrics, _series())["criteria"] if not c["passed"]]
    assert [(c["name"], c["value"]) for c in failed] == [("all_colours_learnt", None)]
