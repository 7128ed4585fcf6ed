"""Bounds on the log-likelihood, and the latents that carry information.

All inputs are nats a grid; `bits_per_cell` = nats / (cells ln 2).
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from genlab.core.stats import (
    Floats,
    Interval,
    percentile_interval,
    percentile_intervals,
    resampled_sums,
)

CELLS = 256


def bound_summary(
    neg_elbo: npt.ArrayLike,
    reconstruction: npt.ArrayLike,
    kl: npt.ArrayLike,
    *,
    cells: int = CELLS,
    bootstrap: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Means of the negative ELBO and its two parts, with 95 % bootstrap intervals over grids.

    neg_elbo, reconstruction (-log p(x|z)), kl: (n,) nats a grid; neg_elbo is the sum of the two.
    Returns `neg_elbo_nats`, `reconstruction_nats`, `kl_nats`, `bits_per_cell`, `n`, `intervals`.
    Raises ValueError when the parts do not add up or a value is not finite.
    """
    parts = np.stack([_column(neg_elbo), _column(reconstruction), _column(kl)], axis=1)
    if not np.isfinite(parts).all():
        raise ValueError("a bound is not finite: the model diverged or its likelihood overflowed")
    if not np.allclose(parts[:, 0], parts[:, 1] + parts[:, 2], rtol=1e-3, atol=1e-2):
        raise ValueError("the negative ELBO is not reconstruction + KL: something was reweighted")
    n = len(parts)
    bits = 1 / (cells * math.log(2))
    point = _bound_statistics(parts.mean(axis=0, keepdims=True), bits)
    resampled = resampled_sums(parts, bootstrap=bootstrap, seed=seed) / n
    return {
        **{name: float(value[0]) for name, value in point.items()},
        "n": n,
        "intervals": percentile_intervals(_bound_statistics(resampled, bits), n),
    }


def iwae(log_weights: npt.ArrayLike) -> Floats:
    """The importance-weighted bound on log p(x), nats a grid (Burda et al. 2016, eq. 8).

    log_weights: (n, k) of log p(x, z_k) - log q(z_k | x). Returns (n,): log of their mean.
    """
    weights = np.asarray(log_weights, dtype=np.float64)
    if weights.ndim != 2 or not weights.shape[1]:
        raise ValueError(f"log_weights must be (n, k) with k >= 1, got {weights.shape}")
    bound: Floats = logsumexp(weights, axis=1) - math.log(weights.shape[1])
    return bound


def iwae_summary(
    log_weights: npt.ArrayLike, *, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """`neg_iwae_nats` (mean of -iwae), `iwae_samples` k, `n`, and the interval over grids."""
    bounds = -iwae(log_weights)
    resampled = resampled_sums(bounds[:, None], bootstrap=bootstrap, seed=seed)[:, 0] / len(bounds)
    return {
        "neg_iwae_nats": float(bounds.mean()),
        "iwae_samples": int(np.asarray(log_weights).shape[1]),
        "n": len(bounds),
        "intervals": percentile_intervals({"neg_iwae_nats": resampled}, len(bounds)),
    }


def active_units(means: npt.ArrayLike, *, threshold: float = 0.01) -> tuple[int, Floats]:
    """Latents whose posterior mean varies with the data (Burda et al. 2016, section 5.2).

    means: (n, d) posterior means. Returns the number of latents whose variance over the data is
    above `threshold`, and all d variances.
    """
    array = np.asarray(means, dtype=np.float64)
    if array.ndim != 2 or len(array) < 2:
        raise ValueError(f"means must be (n, d) with n >= 2, got {array.shape}")
    variances: Floats = array.var(axis=0, ddof=1)
    return int(np.count_nonzero(variances > threshold)), variances


def active_units_interval(
    means: npt.ArrayLike, *, bootstrap: int, seed: int, threshold: float = 0.01
) -> Interval:
    """The bootstrap interval over the data of `active_units`' count. means: (n, d)."""
    rows = np.asarray(means, dtype=np.float64)
    n, centred = len(rows), rows - rows.mean(axis=0)
    terms = np.concatenate([centred, np.square(centred)], axis=1)
    first, second = np.split(resampled_sums(terms, bootstrap=bootstrap, seed=seed), 2, axis=1)
    variances = (second - np.square(first) / n) / (n - 1)
    return percentile_interval((variances > threshold).sum(axis=1), n)


def _column(values: npt.ArrayLike) -> Floats:
    column = np.asarray(values, dtype=np.float64)
    if column.ndim != 1 or not len(column):
        raise ValueError(f"expected one value a grid, (n,), got {column.shape}")
    return column


def _bound_statistics(means: Floats, bits: float) -> dict[str, Floats]:
    return {
        "neg_elbo_nats": means[:, 0],
        "reconstruction_nats": means[:, 1],
        "kl_nats": means[:, 2],
        "bits_per_cell": means[:, 0] * bits,
    }
