"""Each known failure is provoked and detected; a healthy model has none."""

import json
import math
from typing import Any

import numpy as np
import pytest
from healthy import evidence, grid_run_metrics, grid_series, grids, image_metrics, image_series

from genlab.evaluation.diagnostics.rules import GRIDS, IMAGES, detected_issues, diagnose

NAN = float("nan")
PRIOR = "samplers.prior.frechet_distance"
AUTOREGRESSIVE = {"prior": "autoregressive_mixture"}
MIXTURE = {"likelihood": "discretized_logistic_mixture"}
SLOWER = {"grad_clip": 1.0, "lr": 0.001}
STEADIER = {"amsgrad": True, "lr": 0.006 / 3}


def _detected(kind: str, metrics: dict[str, Any], curves: dict[str, Any]) -> dict[str, Any]:
    findings = diagnose(kind, evidence(kind, metrics, curves))
    rules = {"grids": GRIDS, "images": IMAGES}[kind]
    assert [finding["name"] for finding in findings] == [rule.name for rule in rules]
    for finding in findings:
        assert finding["evidence"]
        assert bool(finding["fix"]) == finding["found"]
        json.dumps(finding, allow_nan=False)
    return {finding["name"]: finding for finding in findings if finding["found"]}


@pytest.mark.parametrize(
    ("changes", "series", "failure", "fix"),
    [
        ({}, {}, None, {}),
        # ln 10,000 = 9.2 nats name one of the test images.
        ({"kl_nats": 9.2}, {}, "posterior_collapse", {"free_bits": 0.2}),
        ({"kl_nats": 9.2, "beta_max": 200.0}, {}, "posterior_collapse", {"beta_max": 1.0}),
        ({"kl_nats": 9.3}, {}, None, {}),
        ({PRIOR: 1.28}, {}, "prior_posterior_mismatch", {"prior_width": 192}),
        ({PRIOR: 1.28, "prior": "standard"}, {}, "prior_posterior_mismatch", AUTOREGRESSIVE),
        ({"samplers.posterior.frechet_distance": 0.6}, {}, None, {}),
        ({"residual_correlation": 0.11}, {}, "pixel_independence", {"causal_channels": 64}),
        (
            {"residual_correlation": 0.11, "causal_channels": 0},
            {},
            "pixel_independence",
            {"causal_channels": 32},
        ),
        ({"residual_correlation": 0.09}, {}, None, {}),
        ({"noise_mismatch": 2.1}, {}, "likelihood_scale", {"likelihood": "gaussian_analytic"}),
        ({"noise_mismatch": 2.1, "likelihood": "gaussian"}, {}, "likelihood_scale", MIXTURE),
        ({}, {"kl_divergence": [2100.0, 200, None, 72, 71, 70]}, "nan", SLOWER),
        ({}, {"kl_divergence": [2100.0, 200, math.inf, 72, 71, 70]}, "nan", SLOWER),
        ({}, {"loss": [900.0, NAN, 1790, 1780, 1775, 1770]}, "nan", SLOWER),
        ({}, {"skipped_updates": [0.0, 6, 6, 6, 6, 6]}, None, {}),
        ({}, {"skipped_updates": [0.0, 7, 7, 7, 7, 7]}, "training_instability", STEADIER),
    ],
)
def test_a_failure_of_images_is_detected_with_the_fix_of_its_cause(
    changes: dict[str, Any], series: dict[str, Any], failure: str | None, fix: dict[str, Any]
) -> None:
    detected = _detected("images", image_metrics(changes), image_series(**series))
    assert {name: row["fix"] for name, row in detected.items()} == (
        {failure: fix} if failure else {}
    )


def _without(colour: int) -> np.ndarray:
    predicted = grids()
    predicted[predicted == colour] = 8
    return predicted


def _coarse() -> np.ndarray:
    predicted = grids()
    rng = np.random.default_rng(1)
    predicted[rng.random(predicted.shape) < 0.03] = 0
    lost = (predicted > 0) & (rng.random(predicted.shape) < 0.3)
    predicted[lost] = 1 + predicted[lost] % 9
    return predicted


@pytest.mark.parametrize(
    ("predicted", "metrics", "series", "failures"),
    [
        (grids(), {}, {}, []),
        (grids(), {"kl_nats": 0.3}, {}, ["posterior_collapse"]),
        (grids(), {"active_units": 0}, {}, ["posterior_collapse"]),
        (np.zeros_like(grids()), {}, {}, ["all_black_collapse", "dead_colours"]),
        (_without(7), {}, {}, ["dead_colours"]),
        (grids(), {"kl_nats": 900.0}, {"beta_kl": [20.0, 40.0, 45.0]}, ["kl_explosion"]),
        (grids(), {"kl_nats": 20_000.0}, {"beta_kl": [0.0, 0.0, 0.0]}, []),  # nothing holds it
        (grids(), {}, {"loss": [200.0, NAN, 60.0]}, ["kl_explosion"]),
        (grids(), {}, {"skipped_updates": [0.0, 9.0, 9.0]}, ["training_instability"]),
        (grids(), {}, {"skipped_updates": [0.0, 2.0, 2.0]}, []),
        (
            _coarse(),
            {"kl_nats": 8.0},
            {"kl_divergence": [8.0] * 3, "beta_kl": [32.0] * 3},
            ["over_regularisation"],
        ),
    ],
)
def test_a_failure_of_grids_is_detected(
    predicted: np.ndarray, metrics: dict[str, Any], series: dict[str, Any], failures: list[str]
) -> None:
    measured = grid_run_metrics(predicted, **metrics)
    findings = _detected("grids", measured, grid_series(**series))
    assert list(findings) == failures
    assert detected_issues(list(findings.values())) == failures
