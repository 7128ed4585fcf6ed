"""Evidence for criteria and diagnosis rules, derived from metrics and training curves.

An undefined number is nan, for which every comparison is false.
"""

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd

from genlab.evaluation.diagnostics.stability import measure_stability

Metrics = Mapping[str, Any]
Curves = Mapping[str, Sequence[float | None]]

LOSSES = ["loss", "reconstruction_loss", "kl_divergence"]


def collect_evidence(
    family: str, metrics: Metrics, curves: Curves, updates: int
) -> SimpleNamespace:
    """Collect the evidence about a model of a family of datasets: grids, own_grids or images.

    curves: {name: one value per epoch}; `skipped_updates` counts from the start. updates: number of
    updates per epoch, skipped ones included. Raises KeyError where a metric or a curve is missing.
    """
    history = pd.DataFrame(curves, dtype=np.float64)
    last = history.iloc[-1]
    return SimpleNamespace(
        **{name: metrics[name] for name in ("kl_nats", "active_units", "latent_dim", "beta_max")},
        # beta_kl is beta times the KL, which does not determine beta where the KL is 0.
        beta=float(last["beta_kl"] / last["kl_divergence"]) if last["kl_divergence"] else 0.0,
        epochs=len(history),
        lr=float(history["learning_rate"].max()),
        epochs_not_finite=int((~np.isfinite(history[LOSSES])).any(axis=1).sum()),
        skipped_share=float(last["skipped_updates"] / (updates * len(history))),
        **measure_stability(family, history),
        **MEASURES[family](metrics),
    )


def _measure_grids(metrics: Metrics) -> dict[str, Any]:
    best = metrics["samplers"][metrics["best_sampler"]]
    names = ("data_entropy_bound_nats", "neg_elbo_over_entropy_bound")
    return {
        **_measure_colours(metrics),
        **{name: metrics[name] for name in names},
        "valid_rate": best["valid_rate"],
        "kl_over_entropy": metrics["kl_nats"] / metrics["data_entropy_bound_nats"],
        "intervals": {**metrics["intervals"], "valid_rate": best["intervals"]["valid_rate"]},
    }


def _measure_own_grids(metrics: Metrics) -> dict[str, Any]:
    best = metrics["samplers"][metrics["best_sampler"]]
    floor = metrics["floor"]
    return {
        **_measure_colours(metrics),
        **{name: metrics[name] for name in ("neg_elbo_per_cell", "context_nats_per_cell")},
        "context_nats": metrics["context_nats"],
        "component_excess": max(best[name] - floor[name] for name in floor),
        "novelty": best["novelty"],
        "intervals": {**metrics["intervals"], "novelty": best["intervals"]["novelty"]},
    }


def _measure_colours(metrics: Metrics) -> dict[str, Any]:
    accuracies = metrics["per_class_accuracy"]
    true = metrics["colour_histogram"]["true"]
    predicted = metrics["colour_histogram"]["predicted"]
    names = (
        "pixel_accuracy",
        "exact_grid_accuracy",
        "skill_score",
        "foreground_recall",
        "colour_histogram_tv",
        "all_black_baseline",
    )
    # A colour that does not occur has no accuracy: whether it was learnt is undefined.
    all_defined = len(accuracies) == len(true)
    return {
        **{name: metrics[name] for name in names},
        "predicted_black_share": predicted["0"],
        "no_dominant_colour": max(predicted[colour] - true[colour] for colour in true),
        "all_colours_learnt": min(accuracies.values()) if all_defined else math.nan,
        "accuracy_of_dead": {
            colour: accuracy
            for colour, accuracy in accuracies.items()
            if accuracy < 0.05 or predicted[colour] < 0.1 * true[colour]
        },
    }


def _measure_images(metrics: Metrics) -> dict[str, Any]:
    samplers = metrics["samplers"]
    best = samplers[metrics["best_sampler"]]
    names = (
        "ssim",
        "pca_ssim",
        "context_model_bits",
        "causal_channels",
        "residual_correlation",
        "noise_mismatch",
        "likelihood",
        "prior",
        "prior_width",
    )
    intervals = {**metrics["intervals"]}
    relative_frechet = {}
    compared = {"best": best, "prior": samplers["prior"], "posterior": samplers["posterior"]}
    for name, sampler in compared.items():
        key = f"relative_frechet_{name}"
        relative_frechet[key] = sampler["relative_frechet"]
        intervals[key] = sampler["intervals"]["relative_frechet"]
    intervals["discriminator_accuracy"] = best["intervals"]["discriminator_accuracy"]
    return {
        **{name: metrics[name] for name in names},
        **relative_frechet,
        # Nats of a density or of a Bernoulli are no code length.
        "bits_per_dim": metrics["bits_per_dim"] if metrics["comparable"] else math.nan,
        "items_nats": math.log(metrics["n"]),
        "prior_over_posterior": samplers["prior"]["frechet_distance"]
        / samplers["posterior"]["frechet_distance"],
        "discriminator_accuracy": best["discriminator_accuracy"],
        "intervals": intervals,
    }


MEASURES = {
    "grids": _measure_grids,
    "own_grids": _measure_own_grids,
    "images": _measure_images,
}
"""Evidence that only one family of datasets has."""
