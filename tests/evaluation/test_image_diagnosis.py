"""Each disease of an image VAE is provoked and named; a healthy model has none."""

import copy
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.ndimage import gaussian_filter

from genlab.core.io import write_json
from genlab.evaluation.diagnostics.criteria import image_verdict
from genlab.evaluation.diagnostics.rules import SIGMA_FLOOR, diagnose
from genlab.evaluation.metrics.duplicates import Neighbours, memorisation
from genlab.evaluation.metrics.fidelity import sharpness

NAMES = [
    "posterior_collapse",
    "partial_collapse",
    "kl_explosion",
    "over_smoothing",
    "sigma_collapse",
    "prior_hole",
    "memorisation",
    "nan",
]
NAN = float("nan")


def _sampler(distance: float) -> dict[str, Any]:
    return {"frechet_distance": distance, "recall": 0.5, "validation_frechet": distance}


def _healthy(dims: int = 784) -> dict[str, Any]:
    """Metrics of a healthy VAE of images of h w c = dims; nats go with dims."""
    kl, recon = 0.09 * dims, 2.2 * dims
    bits = dims * math.log(2)
    return {
        "likelihood": "discretized_logistic_mixture",
        "comparable": True,
        "neg_elbo_nats": kl + recon,
        "reconstruction_nats": recon,
        "kl_nats": kl,
        "bits_per_dim": (kl + recon) / bits,
        "neg_iwae_nats": kl + recon - 5,
        "iwae_bits_per_dim": (kl + recon - 5) / bits,
        "active_units": 30,
        "latent_dim": 40,
        "kl_per_latent": [kl / 30] * 30 + [0.0] * 10,
        "beta_max": 1.0,
        "mse": 0.0093,
        "mean_image_mse": 0.0866,
        "ssim": 0.73,
        "reconstruction": {"frechet_distance": 8.0},
        "floor": {"frechet_distance": 0.67},
        "best_sampler": "flow",
        "samplers": {
            "normal": _sampler(24.0),
            "prior": _sampler(24.0),
            "gaussian": _sampler(20.0),
            "gmm": _sampler(16.0),
            "flow": _sampler(14.0),
        },
        "memorisation": {
            "near_duplicate_rate": 0.01,
            "exact_duplicate_rate": 0.0,
            "held_out_exact_duplicate_rate": 0.0,
            "median_ratio": 0.9,
            "intervals": {
                "near_duplicate_rate": {"low": 0.005, "high": 0.02, "n": 1000},
                "exact_duplicate_rate": {"low": 0.0, "high": 0.004, "n": 1000},
            },
        },
        "sharpness": {"test": 0.136, "reconstructions": 0.105, "samples": 0.109},
        "aggregate": {
            "aggregate_std_p05": 0.9,
            "aggregate_std_p95": 1.1,
            "aggregate_gaussian_kl": 0.06 * kl / 40,
        },
        "sigma": None,
        "features": {"kind": "classifier", "accuracy": 0.92},
        "intervals": {
            "neg_elbo_nats": {"low": kl + recon - 3, "high": kl + recon + 3, "n": 10_000},
            "neg_iwae_nats": {"low": kl + recon - 9, "high": kl + recon - 1, "n": 1000},
        },
    }


def _changed(changes: dict[str, Any], dims: int = 784) -> dict[str, Any]:
    """The healthy metrics with some entries replaced: {"samplers.prior.recall": 0.1}."""
    metrics = copy.deepcopy(_healthy(dims))
    for path, value in changes.items():
        *sections, key = path.split(".")
        place = metrics
        for section in sections:
            place = place[section]
        assert key in place, path
        place[key] = value
    return metrics


def _series(**changes: Sequence[float | None]) -> dict[str, Any]:
    """A free KL that a warm-up takes to a thirtieth, as a wide code at β = 0 does."""
    healthy = {
        "loss": [900.0, 1700.0, 1790.0, 1780.0, 1775.0, 1770.0],
        "reconstruction_loss": [900.0, 1600.0, 1715.0, 1708.0, 1704.0, 1700.0],
        "kl_divergence": [2100.0, 200.0, 75.0, 72.0, 71.0, 70.0],
        "beta_kl": [0.0, 100.0, 75.0, 72.0, 71.0, 70.0],
        "skipped_updates": [0.0] * 6,
        "updates": [100.0] * 6,
    }
    return {**healthy, **changes}


def _findings(metrics: dict[str, Any], series: dict[str, Any] | None = None) -> dict[str, Any]:
    findings = diagnose("images", metrics, series or _series(), evidence_files=["here.json"])
    assert [finding["name"] for finding in findings] == NAMES
    for finding in findings:
        assert finding["evidence"]
        assert finding["evidence_files"] == ["here.json"]
        assert bool(finding["fix"]) == finding["found"]
        json.dumps(finding, allow_nan=False)
    return {finding["name"]: finding for finding in findings if finding["found"]}


def _found(changes: dict[str, Any], series: dict[str, Any] | None = None) -> list[str]:
    return list(_findings(_changed(changes), series))


def _failed(metrics: dict[str, Any], series: dict[str, Any] | None = None) -> list[str]:
    found = image_verdict(metrics, series or _series(), min_accuracy=0.9)
    failed = [c["name"] for c in found["criteria"] if not c["passed"]]
    assert found["passed"] == (not failed)
    json.dumps(found, allow_nan=False)
    return failed


@pytest.mark.parametrize("dims", [28 * 28, 32 * 32 * 3, 64 * 64 * 3])
def test_a_healthy_model_of_any_size_has_nothing_and_passes(dims: int) -> None:
    assert _findings(_healthy(dims)) == {}
    assert _failed(_healthy(dims)) == []


@pytest.mark.parametrize(
    ("changes", "criterion"),
    [
        ({"mse": 0.3 * 0.0866}, "skill_over_mean_image"),
        ({"ssim": 0.599}, "ssim"),
        ({"active_units": 1}, "active_share"),
        ({"kl_nats": 0.99}, "kl_nats"),
        ({"neg_iwae_nats": 784 * 2.29 + 6}, "iwae_gain_nats"),
        ({"samplers.flow.frechet_distance": 60.1 * 0.67}, "relative_frechet"),
        ({"samplers.flow.recall": 0.2}, "recall"),
        ({"memorisation.intervals.near_duplicate_rate.low": 0.051}, "near_copies"),
        ({"memorisation.intervals.exact_duplicate_rate.low": 0.001}, "exact_duplicate_rate"),
        ({"features.accuracy": 0.89}, "classifier_accuracy"),
    ],
)
def test_one_bad_number_fails_one_criterion(changes: dict[str, Any], criterion: str) -> None:
    assert _failed(_changed(changes)) == [criterion]


@pytest.mark.parametrize(
    "changes",
    [
        {"ssim": 0.6},
        {"active_units": 2},
        {"neg_iwae_nats": 784 * 2.29 + 4.9},  # of 3 and 4 nats of noise: 5
        {"samplers.flow.frechet_distance": 59.9 * 0.67},
        {"memorisation.intervals.near_duplicate_rate.low": 0.05},
    ],
)
def test_criteria_hold_on_their_thresholds(changes: dict[str, Any]) -> None:
    assert _failed(_changed(changes)) == []


def test_a_sampler_far_from_the_floor_must_beat_the_normal_one() -> None:
    far = {"samplers.flow.frechet_distance": 130.0, "samplers.normal.frechet_distance": 337.0}
    assert _failed(_changed(far)) == []
    beaten = {**far, "samplers.normal.frechet_distance": 129.0}
    assert _failed(_changed(beaten)) == ["relative_frechet"]
    itself = {**far, "best_sampler": "normal"}
    assert _failed(_changed(itself)) == ["relative_frechet"]
    own = image_verdict(_changed(itself), _series())["criteria"][5]
    assert (own["name"], own["sign"], own["threshold"]) == ("relative_frechet", "<=", 60)


def test_a_doublet_in_the_data_is_no_copy() -> None:
    doublets = {
        "memorisation.intervals.exact_duplicate_rate.low": 0.03,
        "memorisation.held_out_exact_duplicate_rate": 0.03,
    }
    assert _failed(_changed(doublets)) == []
    assert _found(doublets) == []


def test_skipped_updates_fail_from_one_percent_on_and_when_nobody_counted() -> None:
    assert _failed(_healthy(), _series(skipped_updates=[5.0, 0, 0, 0, 0, 0])) == []
    assert _failed(_healthy(), _series(skipped_updates=[6.0, 0, 0, 0, 0, 0])) == ["skipped_updates"]
    uncounted = _series()
    del uncounted["updates"]
    found = image_verdict(_healthy(), uncounted)
    last = found["criteria"][-1]
    assert (last["name"], last["value"], last["passed"]) == ("skipped_updates", None, False)
    assert "not measured" in last["why"]


def test_the_classifier_is_asked_only_where_its_accuracy_is_known() -> None:
    named = {c["name"] for c in image_verdict(_healthy(), _series())["criteria"]}
    assert "classifier_accuracy" not in named
    assert image_verdict(_changed({"features.accuracy": 0.5}), _series())["passed"]


@pytest.mark.parametrize("change", [{"kl_nats": 0.99}, {"active_units": 0}])
def test_a_code_that_says_nothing_is_a_posterior_collapse(change: dict[str, Any]) -> None:
    assert _found(change) == ["posterior_collapse"]


def test_a_collapse_under_a_large_beta_is_mended_by_a_smaller_one() -> None:
    found = _findings(_changed({"kl_nats": 0.1, "beta_max": 200.0}))
    assert found["posterior_collapse"]["fix"]["beta_max"] == 1.0


def test_a_kl_that_warm_up_took_away_with_the_pictures_has_vanished() -> None:
    # The healthy series loses the same share of its KL, and keeps its pictures.
    changes = {"mse": 0.0262, "kl_nats": 3.5, "active_units": 4, "beta_max": 50.0}
    series = _series(
        kl_divergence=[300.0, 20, 5, 4, 3.6, 3.5], beta_kl=[0.0, 200, 250, 200, 180, 175]
    )
    found = _findings(_changed(changes), series)
    assert list(found) == ["partial_collapse"]
    assert found["partial_collapse"]["evidence"]["kl_over_early_peak"] == pytest.approx(3.5 / 300)
    assert found["partial_collapse"]["fix"]["beta_max"] == 1.0
    kept = _series(kl_divergence=[30.0, 20, 5, 4, 3.6, 3.5], beta_kl=[0.0, 200, 250, 200, 180, 175])
    assert _found(changes, kept) == []


def test_a_code_of_dead_latents_has_vanished_but_is_no_total_collapse() -> None:
    assert _found({"active_units": 1}) == ["partial_collapse"]
    assert _found({"active_units": 2}) == []


def test_a_kl_over_what_any_source_needs_explodes_where_it_is_penalised() -> None:
    needed = 392 * math.log(0.0866 / 0.0093)
    latents = {"kl_per_latent": [1.0]}
    assert _found({"kl_nats": needed * 0.999, **latents}) == []
    assert _found({"kl_nats": needed * 1.001, **latents}) == ["kl_explosion"]
    free = _series(beta_kl=[0.0] * 6)
    assert _found({"kl_nats": needed * 100, **latents, "beta_max": 0.0}, free) == []


def test_the_bound_on_the_kl_grows_with_the_image() -> None:
    changes = {"kl_nats": 3000.0, "kl_per_latent": [1.0]}
    assert list(_findings(_changed(changes))) == ["kl_explosion"]
    assert _findings(_changed(changes, dims=64 * 64 * 3)) == {}


def test_exact_images_allow_a_kl_of_their_bits_and_no_infinite_one() -> None:
    changes = {"mse": 0.0, "kl_nats": 4200.0, "kl_per_latent": [1.0]}
    assert _found(changes) == []
    assert _found({**changes, "kl_nats": 4400.0}) == ["kl_explosion"]  # 8 bits: 4347


def test_few_nats_explode_nothing_even_where_the_pictures_are_worse_than_the_mean() -> None:
    assert "kl_explosion" not in _found({"mse": 0.09, "kl_nats": 9.9})
    assert "kl_explosion" in _found({"mse": 0.09, "kl_nats": 10.1})


def test_a_kl_that_grows_and_does_not_pay_for_itself_runs_away() -> None:
    growth = {
        "kl_divergence": [50.0, 60, 70, 100, 140, 200],
        "beta_kl": [50.0, 60, 70, 100, 140, 200],
    }
    paid = [1700.0, 1690, 1680, 1640, 1590, 1520]
    unpaid = [1700.0, 1690, 1680, 1660, 1640, 1620]
    assert _found({}, _series(**growth, reconstruction_loss=paid)) == []
    assert _found({}, _series(**growth, reconstruction_loss=unpaid)) == ["kl_explosion"]
    cyclical = {**growth, "beta_kl": [50.0, 60, 70, 90, 80, 50]}  # beta falls: the KL is let go
    assert _found({}, _series(**cyclical, reconstruction_loss=unpaid)) == []


@pytest.mark.parametrize("value", [NAN, math.inf, None])
def test_a_kl_that_is_not_finite_explodes_and_a_loss_is_nan(value: float | None) -> None:
    broken = [2100.0, 200.0, value, 72.0, 71.0, 70.0]
    assert _found({}, _series(kl_divergence=broken)) == ["kl_explosion", "nan"]
    assert _found({}, _series(loss=broken)) == ["nan"]


@pytest.mark.parametrize("of", ["reconstructions", "samples"])
def test_pictures_without_edges_are_over_smoothed(of: str) -> None:
    assert _found({f"sharpness.{of}": 0.61 * 0.136}) == []
    assert _found({f"sharpness.{of}": 0.59 * 0.136}) == ["over_smoothing"]


@pytest.mark.parametrize(
    ("changes", "fix"),
    [
        ({"beta_max": 4.0}, {"beta_max": 1.0}),
        ({"likelihood": "bernoulli"}, {"likelihood": "gaussian_analytic"}),
        ({"likelihood": "gaussian_analytic"}, {"latent_dim": 80, "epochs": 12}),
    ],
)
def test_the_cure_of_smoothing_depends_on_its_cause(
    changes: dict[str, Any], fix: dict[str, Any]
) -> None:
    found = _findings(_changed({"sharpness.samples": 0.05, **changes}))
    assert found["over_smoothing"]["fix"] == fix


def test_a_sigma_at_its_floor_or_far_below_the_error_has_collapsed() -> None:
    rmse = math.sqrt(0.0093)
    assert _found({"sigma": [rmse]}) == []
    assert _found({"sigma": [0.51 * rmse] * 3}) == []
    assert _found({"sigma": [0.49 * rmse] * 3}) == ["sigma_collapse"]
    # One channel at the floor, though the three together stand for their error.
    assert _found({"sigma": [1.4 * rmse, rmse, SIGMA_FLOOR]}) == ["sigma_collapse"]
    assert _found({"sigma": [NAN]}) == []


def test_a_likelihood_of_more_than_there_is_to_know_is_a_sigma_collapse() -> None:
    density = {"comparable": False, "likelihood": "gaussian"}
    claim = -784 * math.log(256)
    assert _found({**density, "reconstruction_nats": -784.0}) == []
    assert _found({**density, "reconstruction_nats": claim + 1}) == []
    assert _found({**density, "reconstruction_nats": claim - 1}) == ["sigma_collapse"]
    assert _found({"reconstruction_nats": -1.0}) == ["sigma_collapse"]


def test_densities_with_a_negative_bound_keep_their_size() -> None:
    below = {"comparable": False, "neg_elbo_nats": -1000.0, "reconstruction_nats": -1070.0}
    bits = {"bits_per_dim": -1000.0 / (784 * math.log(2))}
    found = diagnose("images", _changed({**below, **bits}), _series())
    evidence = {finding["name"]: finding["evidence"] for finding in found}
    bound = evidence["kl_explosion"]["rate_bound_nats"]
    assert bound == pytest.approx(392 * math.log(0.0866 / 0.0093))


def test_a_prior_far_worse_than_a_density_fitted_to_the_codes_has_a_hole() -> None:
    assert _found({"samplers.prior.frechet_distance": 28.0}) == []
    assert _found({"samplers.prior.frechet_distance": 28.1}) == ["prior_hole"]
    # Where p(z) is learned, N(0, I) is not the model's prior: its samples accuse nobody.
    assert _found({"samplers.normal.frechet_distance": 400.0}) == []


def test_without_a_sampler_of_its_own_a_model_is_judged_by_the_normal_one() -> None:
    metrics = _changed({"samplers.normal.frechet_distance": 416.0})
    for name in ("prior", "gmm", "gaussian"):
        del metrics["samplers"][name]
    assert list(_findings(metrics)) == ["prior_hole"]


def test_all_samplers_bad_behind_good_reconstructions_is_a_hole_too() -> None:
    bad = {
        f"samplers.{name}.frechet_distance": 50.0 for name in ("prior", "gaussian", "gmm", "flow")
    }
    assert _found({**bad, "reconstruction.frechet_distance": 4.9}) == ["prior_hole"]
    assert _found({**bad, "reconstruction.frechet_distance": 5.1}) == []
    near = dict.fromkeys(bad, 40.0)  # 59.7 times the floor
    assert _found({**near, "reconstruction.frechet_distance": 1.0}) == []


def test_codes_that_are_not_standard_normal_are_a_hole_under_that_prior_alone() -> None:
    nats = 0.09 * 784 / 40
    assert _found({"aggregate.aggregate_gaussian_kl": 0.14 * nats}) == []
    assert _found({"aggregate.aggregate_gaussian_kl": 0.16 * nats}) == ["prior_hole"]
    learned = {"kl_per_latent": [5.0] * 40}  # 200 nats from N(0, 1), 70.6 from the learned p(z)
    assert _found({"aggregate.aggregate_gaussian_kl": 4.0, **learned}) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"memorisation.intervals.near_duplicate_rate.low": 0.0501},
        {"memorisation.intervals.exact_duplicate_rate.low": 0.0002},
    ],
)
def test_near_or_exact_copies_are_memorisation(changes: dict[str, Any]) -> None:
    found = _findings(_changed(changes))
    assert list(found) == ["memorisation"]
    assert found["memorisation"]["fix"]["epochs"] == 3


def test_copies_among_real_measurements_are_found() -> None:
    rng = np.random.default_rng(0)
    held_out = Neighbours(np.arange(1000), rng.uniform(0.05, 0.1, 1000), np.zeros(1000, bool))

    def measured(copied: int) -> dict[str, Any]:
        distances = np.where(np.arange(1000) < copied, 0.0, rng.uniform(0.05, 0.1, 1000))
        samples = Neighbours(np.arange(1000), distances, distances == 0)
        return memorisation(samples, held_out, bootstrap=20)

    assert _found({"memorisation": measured(0)}) == []
    assert _found({"memorisation": measured(1)}) == ["memorisation"]
    assert _failed(_changed({"memorisation": measured(100)})) == [
        "near_copies",
        "exact_duplicate_rate",
    ]


def test_many_skipped_updates_are_a_nan() -> None:
    assert _found({}, _series(skipped_updates=[0.0, 6, 0, 0, 0, 0])) == []
    assert _found({}, _series(skipped_updates=[0.0, 7, 0, 0, 0, 0])) == ["nan"]


@pytest.mark.parametrize("value", [None, NAN])
def test_a_diverged_model_fails_and_is_diagnosed_without_an_error(
    value: float | None, tmp_path: Path
) -> None:
    names = ("neg_elbo_nats", "reconstruction_nats", "kl_nats", "neg_iwae_nats", "mse", "ssim")
    broken: dict[str, Any] = dict.fromkeys(names, value)
    broken |= {f"samplers.{n}.frechet_distance": value for n in _healthy()["samplers"]}
    broken |= {"bits_per_dim": value, "reconstruction.frechet_distance": value}
    broken |= {"sharpness.samples": value, "aggregate.aggregate_gaussian_kl": value}
    broken |= {"kl_per_latent": [value] * 40, "sigma": [value], "active_units": 0}
    metrics = _changed(broken)
    for interval in metrics["intervals"].values():
        interval |= {"low": value, "high": value}
    series = _series(**{name: [value] * 6 for name in ("loss", "kl_divergence", "beta_kl")})
    found = _findings(metrics, series)
    assert list(found) == ["posterior_collapse", "kl_explosion", "nan"]
    assert found["nan"]["evidence"]["epochs_not_finite"] == 6
    assert {"ssim", "kl_nats", "iwae_gain_nats", "relative_frechet"} <= set(_failed(metrics))
    write_json(tmp_path / "diagnosis.json", diagnose("images", metrics, series))


def test_a_metric_that_is_missing_is_an_error_and_not_health() -> None:
    metrics = _healthy()
    del metrics["mean_image_mse"]
    with pytest.raises(KeyError, match="mean_image_mse"):
        image_verdict(metrics, _series())
    with pytest.raises(KeyError, match="mean_image_mse"):
        diagnose("images", metrics, _series())


def test_sharpness_is_the_mean_slope() -> None:
    ramp = np.zeros((2, 6, 6, 3), np.uint8)
    ramp[:] = (51 * np.arange(6))[None, None, :, None]
    assert sharpness(ramp) == pytest.approx(0.2)
    assert sharpness(ramp.transpose(0, 2, 1, 3)) == pytest.approx(0.2)
    plane = np.add.outer(30 * np.arange(4), 40 * np.arange(4)).astype(np.uint8)
    assert sharpness(plane[None, :, :, None]) == pytest.approx(50 / 255)
    assert sharpness(np.full((1, 5, 5, 1), 200, np.uint8)) == 0
    with pytest.raises(ValueError, match="sides"):
        sharpness(np.zeros((3, 1, 5, 1), np.uint8))


def test_a_blur_of_a_pixel_is_diagnosed_and_rounding_is_not() -> None:
    rng = np.random.default_rng(0)
    texture = gaussian_filter(rng.normal(size=(1100, 28, 28, 1)), (0, 0.7, 0.7, 0))
    images = np.clip(128 + 100 * texture, 0, 255).astype(np.uint8)
    blurred = gaussian_filter(images.astype(float), (0, 1, 1, 0)).astype(np.uint8)
    test = sharpness(images)
    assert test == pytest.approx(np.mean([sharpness(images[:550]), sharpness(images[550:])]))
    changes = {"sharpness.test": test, "sharpness.samples": test}
    assert _found({**changes, "sharpness.reconstructions": sharpness(images // 2 * 2)}) == []
    found = _found({**changes, "sharpness.reconstructions": sharpness(blurred)})
    assert found == ["over_smoothing"]
