"""Metrics and training curves of healthy models, to which tests add one failure at a time."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from genlab.evaluation.diagnostics.evidence import collect_evidence
from genlab.evaluation.metrics.reconstruction import grid_metrics

UPDATES = 100
"""Optimizer updates that are attempted per epoch."""


def _sampler(relative: float) -> dict[str, Any]:
    values = {"relative_frechet": relative, "recall": 0.5, "discriminator_accuracy": 0.7}
    intervals = {name: {"low": 0.9 * v, "high": 1.1 * v, "n": 100} for name, v in values.items()}
    return {**values, "frechet_distance": 0.127 * relative, "intervals": intervals}


def image_metrics(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """Metrics of an image VAE; changes: entries to replace, as {"samplers.prior.recall": 0}."""
    distances = {"prior": 9.0, "posterior": 5.0, "gmm": 30.0, "rejection": 7.0}
    metrics: dict[str, Any] = {
        "likelihood": "discretized_logistic_mixture",
        "comparable": True,
        "kl_nats": 70.0,
        "bits_per_dim": 3.02,
        "active_units": 30,
        "latent_dim": 40,
        "beta_max": 1.0,
        "n": 10_000,
        "intervals": {"ssim": {"low": 0.83, "high": 0.85, "n": 10_000}},
        "ssim": 0.84,
        "pca_ssim": 0.70,
        "context_model_bits": 3.46,
        "causal_channels": 32,
        "prior": "autoregressive_mixture",
        "prior_width": 96,
        "residual_correlation": -0.06,
        "noise_mismatch": 1.2,
        "best_sampler": "rejection",
        "samplers": {name: _sampler(distance) for name, distance in distances.items()},
        "memorisation": {
            "near_duplicate_rate": 0.01,
            "intervals": {
                "near_duplicate_rate": {"low": 0.005, "high": 0.02, "n": 1000},
            },
        },
    }
    for path, value in (changes or {}).items():
        *sections, key = path.split(".")
        entry = metrics
        for section in sections:
            entry = entry[section]
        assert key in entry, path
        entry[key] = value
    return metrics


def image_series(**changes: Sequence[float | None]) -> dict[str, Any]:
    """Training curves of an image VAE: the warm-up of β reduces the KL to a thirtieth."""
    healthy = {
        "loss": [900.0, 1700.0, 1790.0, 1780.0, 1775.0, 1770.0],
        "reconstruction_loss": [900.0, 1600.0, 1715.0, 1708.0, 1704.0, 1700.0],
        "kl_divergence": [2100.0, 200.0, 75.0, 72.0, 71.0, 70.0],
        "beta_kl": [0.0, 100.0, 75.0, 72.0, 71.0, 70.0],
        "skipped_updates": [0.0] * 6,
        "beta": [0.0, 0.5, 1.0, 1.0, 1.0, 1.0],
        "learning_rate": [0.006] * 6,
        "train/loss": [950.0, 1750.0, 1800.0, 1790.0, 1785.0, 1780.0],
        "train/reconstruction_cost": [950.0, 1650.0, 1725.0, 1718.0, 1714.0, 1710.0],
        "val_objective": [3000.0, 1800.0, 1790.0, 1780.0, 1775.0, 1770.0],
    }
    return {**healthy, **changes}


def grids() -> np.ndarray:
    """Random grids of which nine cells in ten are black."""
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 10, (300, 16, 16), dtype=np.uint8)
    cells[rng.random(cells.shape) < 0.9] = 0
    return cells


def grid_run_metrics(predicted: np.ndarray, **changes: Any) -> dict[str, Any]:
    """Metrics of the reconstruction `predicted` of `grids()`, healthy except for `changes`."""
    latents = {"kl_nats": 45.0, "active_units": 100, "latent_dim": 128, "beta_max": 1.0}
    valid = {"valid_rate": 0.7, "intervals": {"valid_rate": {"low": 0.6, "high": 0.8, "n": 100}}}
    bounds = {"data_entropy_bound_nats": 37.0, "neg_elbo_over_entropy_bound": 1.05}
    samplers = {"best_sampler": "prior", "samplers": {"prior": valid}}
    reconstruction = grid_metrics(grids(), predicted, bootstrap=20)
    return {**reconstruction, **latents, **bounds, **samplers, **changes}


def grid_series(**changes: list[float]) -> dict[str, list[float]]:
    """Curves of a healthy model of grids."""
    healthy = {
        "reconstruction_loss": [190.0, 50.0, 15.0],
        "kl_divergence": [20.0, 40.0, 45.0],
        "beta_kl": [0.0, 20.0, 45.0],
        "loss": [200.0, 90.0, 60.0],
        "skipped_updates": [0.0, 0.0, 0.0],
        "beta": [0.0, 0.5, 1.0],
        "learning_rate": [0.006, 0.006, 0.006],
        "train/loss": [210.0, 95.0, 62.0],
        "train/reconstruction_cost": [210.0, 85.0, 40.0],
        "exact_grid_accuracy": [0.2, 0.8, 1.0],
    }
    return {**healthy, **changes}


def evidence(kind: str, metrics: dict[str, Any], curves: dict[str, Any]) -> SimpleNamespace:
    """Evidence about a training with UPDATES updates per epoch."""
    return collect_evidence(kind, metrics, curves, UPDATES)
