"""Bounds on the log-likelihood, and the latents that carry information. All inputs are nats."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from genlab.core.stats import (
    Floats,
    Interval,
    mean_interval,
    percentile_interval,
    percentile_intervals,
    resampled_sums,
)

ACTIVE_VARIANCE = 0.01
"""Of a latent's posterior mean over the data, above which it is active."""


def bound_summary(
    reconstruction: Floats, kl: Floats, *, cells: int, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Means of the negative ELBO and its two terms, with 95 % bootstrap intervals over items.

    reconstruction (-log p(x|z)), kl: (n,) nats, whose sum is the negative ELBO. Returns
    `neg_elbo_nats`, `reconstruction_nats`, `kl_nats`, `bits_per_cell` (nats / (cells ln 2)), `n`,
    `intervals`.
    """
    terms = np.stack([reconstruction + kl, reconstruction, kl], axis=1).astype(np.float64)
    n = len(terms)

    def statistics(means: Floats) -> dict[str, Floats]:
        """(b, 3) to {name: (b,)}."""
        names = ("neg_elbo_nats", "reconstruction_nats", "kl_nats")
        bits = means[:, 0] * (1 / (cells * math.log(2)))
        return {**dict(zip(names, means.T, strict=True)), "bits_per_cell": bits}

    point = statistics(terms.mean(axis=0, keepdims=True))
    resampled = resampled_sums(terms, bootstrap=bootstrap, seed=seed) / n
    return {
        **{name: float(value[0]) for name, value in point.items()},
        "n": n,
        "intervals": percentile_intervals(statistics(resampled), n),
    }


def iwae(log_weights: npt.ArrayLike) -> Floats:
    """The importance-weighted bound on log p(x), nats per item (Burda et al. 2016, eq. 8).

    log_weights: (n, k) of log p(x, z_k) - log q(z_k | x). Returns (n,): log of their mean.
    """
    weights = np.asarray(log_weights, dtype=np.float64)
    bound: Floats = logsumexp(weights, axis=1) - math.log(weights.shape[1])
    return bound


def iwae_summary(
    log_weights: npt.NDArray[Any], *, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """`neg_iwae_nats` (mean of -iwae), `iwae_samples` k, `iwae_items` n, and its interval."""
    bounds = -iwae(log_weights)
    return {
        "neg_iwae_nats": float(bounds.mean()),
        "iwae_samples": log_weights.shape[1],
        "iwae_items": len(bounds),
        "intervals": {"neg_iwae_nats": mean_interval(bounds, bootstrap=bootstrap, seed=seed)},
    }


def active_units(means: npt.ArrayLike) -> int:
    """Latents whose posterior mean varies with the data (Burda et al. 2016, section 5.2).

    means: (n, d) posterior means, n >= 2.
    """
    variances = np.asarray(means, dtype=np.float64).var(axis=0, ddof=1)
    return int(np.count_nonzero(variances > ACTIVE_VARIANCE))


def active_units_interval(means: npt.ArrayLike, *, bootstrap: int, seed: int) -> Interval:
    """The bootstrap interval over the data of `active_units`. means: (n, d)."""
    rows = np.asarray(means, dtype=np.float64)
    n, centred = len(rows), rows - rows.mean(axis=0)
    terms = np.concatenate([centred, np.square(centred)], axis=1)
    first, second = np.split(resampled_sums(terms, bootstrap=bootstrap, seed=seed), 2, axis=1)
    variances = (second - np.square(first) / n) / (n - 1)
    return percentile_interval((variances > ACTIVE_VARIANCE).sum(axis=1), n)
