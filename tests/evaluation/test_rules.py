"""Each known failure is provoked and detected; a healthy model has none."""

import json
import math
from typing import Any

import numpy as np
import pytest
from healthy import evidence, grid_run_metrics, grid_series, grids, image_metrics, image_series
from scipy.ndimage import gaussian_filter

from genlab.evaluation.diagnostics.rules import (
    GRIDS,
    IMAGES,
    SIGMA_FLOOR,
    detected_issues,
    diagnose,
)
from genlab.evaluation.metrics.fidelity import sharpness

NAN = float("nan")
RMSE = math.sqrt(0.0093)
NEEDED = 392 * math.log(0.0866 / 0.0093)  # nats that any source of that variance needs
DENSITY = {"comparable": False, "likelihood": "gaussian"}
CLAIM = -784 * math.log(256)
FREE = image_series(beta_kl=[0.0] * 6)


def _detected(kind: str, metrics: dict[str, Any], curves: dict[str, Any]) -> dict[str, Any]:
    findings = diagnose(kind, evidence(kind, metrics, curves))
    assert [f["name"] for f in findings] == [
        rule.name for rule in {"grids": GRIDS, "images": IMAGES}[kind]
    ]
    for finding in findings:
        assert finding["evidence"]
        assert bool(finding["fix"]) == finding["found"]
        json.dumps(finding, allow_nan=False)
    return {finding["name"]: finding for finding in findings if finding["found"]}


def _images(changes: dict[str, Any], series: dict[str, Any] | None = None) -> dict[str, Any]:
    return _detected("images", image_metrics(changes), series or image_series())


@pytest.mark.parametrize("dims", [28 * 28, 32 * 32 * 3, 64 * 64 * 3])
def test_a_healthy_model_of_any_size_has_none(dims: int) -> None:
    assert _detected("images", image_metrics(dims=dims), image_series()) == {}


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"kl_nats": 0.99}, ["posterior_collapse"]),
        ({"active_units": 0}, ["posterior_collapse"]),
        ({"active_units": 1}, ["partial_collapse"]),
        ({"active_units": 2}, []),
        ({"kl_nats": NEEDED * 0.999}, []),
        ({"kl_nats": NEEDED * 1.001}, ["kl_explosion"]),
        # An exact image allows a KL of its bits, 8 of each pixel: 4347 nats.
        ({"mse": 0.0, "kl_nats": 4200.0}, []),
        ({"mse": 0.0, "kl_nats": 4400.0}, ["kl_explosion"]),
        ({"sharpness.samples": 0.61 * 0.136}, []),
        ({"sharpness.samples": 0.59 * 0.136}, ["over_smoothing"]),
        ({"sharpness.reconstructions": 0.59 * 0.136}, ["over_smoothing"]),
        ({"sigma": [RMSE]}, []),
        # One channel at the floor, though the three together stand for their error.
        ({"sigma": [1.4 * RMSE, RMSE, SIGMA_FLOOR]}, ["sigma_collapse"]),
        # A likelihood of more than there is to know
        ({**DENSITY, "reconstruction_nats": CLAIM + 1}, []),
        ({**DENSITY, "reconstruction_nats": CLAIM - 1}, ["sigma_collapse"]),
        ({"reconstruction_nats": -1.0}, ["sigma_collapse"]),
        ({"samplers.prior.frechet_distance": 28.0}, []),
        ({"samplers.prior.frechet_distance": 28.1}, ["prior_hole"]),
        # Where p(z) is learned, N(0, I) is not the model's prior.
        ({"samplers.normal.frechet_distance": 400.0}, []),
        ({"memorisation.intervals.near_duplicate_rate.low": 0.0501}, ["memorisation"]),
        ({"memorisation.intervals.exact_duplicate_rate.low": 0.0002}, ["memorisation"]),
    ],
)
def test_a_failure_of_images_is_detected(changes: dict[str, Any], found: list[str]) -> None:
    assert list(_images(changes)) == found


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"kl_divergence": [2100.0, 200, None, 72, 71, 70]}, ["nan"]),
        ({"kl_divergence": [2100.0, 200, math.inf, 72, 71, 70]}, ["nan"]),
        ({"loss": [900.0, NAN, 1790, 1780, 1775, 1770]}, ["nan"]),
        ({"skipped_updates": [0.0, 6, 6, 6, 6, 6]}, []),
        ({"skipped_updates": [0.0, 7, 7, 7, 7, 7]}, ["training_instability"]),
    ],
)
def test_a_failure_of_the_training_is_detected(changes: dict[str, Any], found: list[str]) -> None:
    assert list(_images({}, image_series(**changes))) == found


def test_a_free_kl_explodes_nothing() -> None:
    assert _images({"kl_nats": NEEDED * 100, "beta_max": 0.0}, FREE) == {}


@pytest.mark.parametrize(
    ("changes", "name", "fix"),
    [
        ({"kl_nats": 0.1, "beta_max": 200.0}, "posterior_collapse", {"beta_max": 1.0}),
        ({"sharpness.samples": 0.05, "beta_max": 4.0}, "over_smoothing", {"beta_max": 1.0}),
        (
            {"sharpness.samples": 0.05, "likelihood": "bernoulli"},
            "over_smoothing",
            {"likelihood": "gaussian_analytic"},
        ),
        ({"sharpness.samples": 0.05}, "over_smoothing", {"latent_dim": 80, "epochs": 12}),
        ({"memorisation.intervals.near_duplicate_rate.low": 1.0}, "memorisation", {"epochs": 3}),
    ],
)
def test_the_fix_depends_on_the_cause(
    changes: dict[str, Any], name: str, fix: dict[str, Any]
) -> None:
    assert fix.items() <= _images(changes)[name]["fix"].items()


def test_sharpness_is_the_mean_slope_and_a_blur_of_a_pixel_is_diagnosed() -> None:
    plane = np.add.outer(30 * np.arange(4), 40 * np.arange(4)).astype(np.uint8)
    assert sharpness(plane[None, :, :, None]) == pytest.approx(50 / 255)
    rng = np.random.default_rng(0)
    texture = gaussian_filter(rng.normal(size=(1100, 28, 28, 1)), (0, 0.7, 0.7, 0))
    images = np.clip(128 + 100 * texture, 0, 255).astype(np.uint8)
    blurred = gaussian_filter(images.astype(float), (0, 1, 1, 0)).astype(np.uint8)
    changes = {"sharpness.test": sharpness(images), "sharpness.samples": sharpness(images)}
    assert _images({**changes, "sharpness.reconstructions": sharpness(images // 2 * 2)}) == {}
    found = _images({**changes, "sharpness.reconstructions": sharpness(blurred)})
    assert list(found) == ["over_smoothing"]


def _without(colour: int) -> np.ndarray:
    predicted = grids()
    predicted[predicted == colour] = 8
    return predicted


def _coarse() -> np.ndarray:
    predicted, rng = grids(), np.random.default_rng(1)
    predicted[rng.random(predicted.shape) < 0.03] = 0
    lost = (predicted > 0) & (rng.random(predicted.shape) < 0.3)
    predicted[lost] = 1 + predicted[lost] % 9
    return predicted


@pytest.mark.parametrize(
    ("predicted", "metrics", "series", "found"),
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
    predicted: np.ndarray, metrics: dict[str, Any], series: dict[str, Any], found: list[str]
) -> None:
    measured = grid_run_metrics(predicted, **metrics)
    findings = _detected("grids", measured, grid_series(**series))
    assert list(findings) == found
    assert detected_issues(list(findings.values())) == found
