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

LEVELS = 256
LOSSES = ["loss", "reconstruction_loss", "kl_divergence"]
FITTED = ("gaussian", "gmm", "flow")
"""Samplers that were fitted to the codes of the data: what the decoder can do where codes lie."""
MIN_BASELINE_GAIN = 0.5
"""Of the way from the all-black baseline's pixel accuracy to 1."""
MAX_RELATIVE_FRECHET = 60.0
"""60 normals on a small MLP VAE came to 44."""


def collect_evidence(kind: str, metrics: Metrics, curves: Curves, updates: int) -> SimpleNamespace:
    """Evidence about a model of `kind`, grids or images.

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
        **(_measure_grids if kind == "grids" else _measure_images)(metrics),
    )


def _measure_grids(metrics: Metrics) -> dict[str, Any]:
    accuracies, histogram = metrics["per_class_accuracy"], metrics["colour_histogram"]
    true, predicted = histogram["true"], histogram["predicted"]
    entropy, baseline = metrics["data_entropy_bound_nats"], metrics["all_black_baseline"]
    names = ("pixel_accuracy", "skill_score", "foreground_recall", "colour_histogram_tv")
    return {
        **{name: metrics[name] for name in names},
        "data_entropy_bound_nats": entropy,
        "all_black_baseline": baseline,
        "collapse_threshold": baseline + MIN_BASELINE_GAIN * (1 - baseline),
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
        "kl_over_entropy": metrics["kl_nats"] / entropy,
    }


def _measure_images(metrics: Metrics) -> dict[str, Any]:
    copies, best = metrics["memorisation"], metrics["best_sampler"]
    shares = ("near_duplicate_rate", "exact_duplicate_rate", "held_out_exact_duplicate_rate")
    distances = {name: each["frechet_distance"] for name, each in metrics["samplers"].items()}
    relative = {
        name: each / metrics["floor"]["frechet_distance"] for name, each in distances.items()
    }
    normal = relative.get("normal", math.nan)
    fitted = min(distances[name] for name in FITTED if name in distances)
    sharpness, test = metrics["sharpness"], metrics["sharpness"]["test"]
    # Numbers that an image has, h w c: what bits per dimension were divided by.
    dims = metrics["neg_elbo_nats"] / (metrics["bits_per_dim"] * math.log(2))
    # A density on [0, 1] may say ln 256 per dim more than the probability of a level; what is
    # below 0 after that claims more than all there is to know.
    offset = 0.0 if metrics["comparable"] else math.log(LEVELS)
    return {
        **{name: metrics[name] for name in ("ssim", "likelihood")},
        **{name: copies[name] for name in shares},
        "near_duplicate_rate_low": copies["intervals"]["near_duplicate_rate"]["low"],
        "exact_share_low": copies["intervals"]["exact_duplicate_rate"]["low"],
        "skill_over_mean_image": 1 - metrics["mse"] / metrics["mean_image_mse"],
        "recall": metrics["samplers"][best]["recall"],
        "best_relative_frechet": relative[best],
        # Far from the reference, the picked sampler must at least match N(0, I).
        "frechet_threshold": MAX_RELATIVE_FRECHET
        if best == "normal" or not normal > MAX_RELATIVE_FRECHET
        else normal,
        "frechet_over_fitted": distances["prior"] / fitted,
        "rate_bound_nats": _bound_rate(metrics["mean_image_mse"], metrics["mse"], dims),
        "reconstructions_over_test": sharpness["reconstructions"] / test,
        "samples_over_test": sharpness["samples"] / test,
        "least_sigma": math.nan if metrics["sigma"] is None else min(metrics["sigma"]),
        "level_nats_per_dim": metrics["reconstruction_nats"] / dims + offset,
    }


def _bound_rate(variance: float, mse: float, dims: float) -> float:
    """Nats that suffice to bring any source of this variance down to this squared error.

    The rate of a Gaussian, dims / 2 ln(variance / mse), which no source of equal variance exceeds
    (Cover & Thomas, Elements of Information Theory, 2006, theorem 10.3.2 and problem 10.8); pixels
    of unlike variance share the error in proportion to it. An error below that of rounding to 8
    bits counts as rounding's. At least 10: fewer nats explode nothing. It is loose (healthy VAEs
    of Fashion-MNIST spend a twelfth of it), but what is above it is waste beyond doubt.
    """
    rounding = 1 / (12 * (LEVELS - 1) ** 2)
    return max(10.0, dims / 2 * math.log(max(1.0, variance / max(mse, rounding))))
