"""The numbers that criteria and diagnosis rules compare, derived from metrics and training curves.

A number that is undefined is nan, with which no comparison holds.
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


def collect_evidence(kind: str, metrics: Metrics, curves: Curves, updates: int) -> SimpleNamespace:
    """Evidence about a model of `kind`: grids, own_grids or images.

    curves: every epoch's numbers by name; `skipped_updates` are since the start. updates: that an
    epoch tries. Raises KeyError where a metric or a curve is missing.
    """
    history = pd.DataFrame(curves, dtype=np.float64)
    last = history.iloc[-1]
    return SimpleNamespace(
        **{name: metrics[name] for name in ("kl_nats", "active_units", "latent_dim", "beta_max")},
        active_share=metrics["active_units"] / metrics["latent_dim"],
        # beta_kl is beta times the KL; nothing is known of beta where the KL is 0.
        beta=float(last["beta_kl"] / last["kl_divergence"]) if last["kl_divergence"] else 0.0,
        epochs=len(history),
        lr=float(history["learning_rate"].max()),
        epochs_not_finite=int((~np.isfinite(history[LOSSES])).any(axis=1).sum()),
        skipped_share=float(last["skipped_updates"] / (updates * len(history))),
        **measure_stability(kind, history),
        **MEASURES[kind](metrics),
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
    accuracies, histogram = metrics["per_class_accuracy"], metrics["colour_histogram"]
    true, predicted = histogram["true"], histogram["predicted"]
    names: tuple[str, ...] = ("pixel_accuracy", "exact_grid_accuracy", "skill_score")
    names += ("foreground_recall", "colour_histogram_tv", "all_black_baseline")
    return {
        **{name: metrics[name] for name in names},
        "predicted_black_share": predicted["0"],
        "no_dominant_colour": max(predicted[colour] - true[colour] for colour in true),
        # A colour that the data lack was not learnt.
        "all_colours_learnt": min(accuracies.values())
        if len(accuracies) == len(true)
        else math.nan,
        "accuracy_of_dead": {
            colour: accuracy
            for colour, accuracy in accuracies.items()
            if accuracy < 0.05 or predicted[colour] < 0.1 * true[colour]
        },
    }


def _measure_images(metrics: Metrics) -> dict[str, Any]:
    samplers, best = metrics["samplers"], metrics["samplers"][metrics["best_sampler"]]
    copies = metrics["memorisation"]
    names: tuple[str, ...] = ("ssim", "pca_ssim", "context_model_bits", "causal_channels")
    names += ("error_correlation", "noise_mismatch", "likelihood", "prior", "prior_width")
    frechet = {"best": best, **{name: samplers[name] for name in ("prior", "posterior")}}
    intervals = {
        f"relative_frechet_{k}": v["intervals"]["relative_frechet"] for k, v in frechet.items()
    }
    accuracy = "discriminator_accuracy"
    return {
        **{name: metrics[name] for name in names},
        **{
            f"relative_frechet_{name}": found["relative_frechet"] for name, found in frechet.items()
        },
        # Nats of a density or of a Bernoulli are no code length.
        "bits_per_dim": metrics["bits_per_dim"] if metrics["comparable"] else math.nan,
        "items_nats": math.log(metrics["n"]),
        "prior_over_posterior": samplers["prior"]["frechet_distance"]
        / samplers["posterior"]["frechet_distance"],
        "recall": best["recall"],
        accuracy: best[accuracy],
        "near_duplicate_rate_low": copies["intervals"]["near_duplicate_rate"]["low"],
        "intervals": {
            **metrics["intervals"],
            **intervals,
            **{name: best["intervals"][name] for name in ("recall", accuracy)},
        },
    }


MEASURES = {
    "grids": _measure_grids,
    "own_grids": _measure_own_grids,
    "images": _measure_images,
}
"""What is measured of each kind, beside what all have."""
