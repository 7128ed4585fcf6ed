"""Bounds on the log-likelihood, and the latents that carry information. All inputs are nats."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import logsumexp

from genlab.core.stats import (
    Floats,
    bootstrap_sums,
    mean_metrics,
    percentile_intervals,
)

ACTIVE_VARIANCE = 0.01
"""Of a latent's posterior mean over the data, above which it is active."""
INACTIVE_NATS = 0.01
"""Of a token's mean KL, below which it is inactive."""


def bound_summary(
    reconstruction: Floats, kl: Floats, *, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Means of the negative ELBO and its two terms, with 95 % bootstrap intervals over items.

    reconstruction (-log p(x|z)), kl: (n,) nats, whose sum is the negative ELBO. Returns
    `neg_elbo_nats`, `reconstruction_nats`, `kl_nats`, `n`, `intervals`.
    """
    bound = reconstruction + kl
    terms = {"neg_elbo_nats": bound, "reconstruction_nats": reconstruction, "kl_nats": kl}
    return mean_metrics(terms, bootstrap=bootstrap, seed=seed)


def bound_over_entropy(
    neg_elbo: Floats, entropy: Floats, *, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """The negative ELBO over the bound on the data's entropy, both means over the same items.

    neg_elbo, entropy: (n,) nats of each item, which are resampled together. Returns
    `neg_elbo_over_entropy_bound`, `data_entropy_bound_nats` and `intervals` of both.
    """
    rows, n = np.stack([neg_elbo, entropy], axis=1), len(entropy)

    def statistics(sums: Floats) -> dict[str, Floats]:
        """(b, 2) to {name: (b,)}."""
        ratio = sums[:, 0] / sums[:, 1]
        return {"neg_elbo_over_entropy_bound": ratio, "data_entropy_bound_nats": sums[:, 1] / n}

    point = statistics(rows.sum(axis=0, keepdims=True))
    resampled = statistics(bootstrap_sums(rows, bootstrap=bootstrap, seed=seed))
    means = {name: float(value[0]) for name, value in point.items()}
    return {**means, "intervals": percentile_intervals(resampled, n)}


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
    """The IWAE bound beside the ELBO of the same items, with 95 % bootstrap intervals over items.

    log_weights: see `iwae`; their mean over k is the ELBO of an item. Returns `neg_iwae_nats`,
    `iwae_neg_elbo_nats`, `iwae_gain_nats` (the mean of the items' differences, so its interval is
    that of pairs), `iwae_samples` k, `iwae_items` n and `intervals`.
    """
    bound, elbo = iwae(log_weights), log_weights.mean(axis=1)
    columns = {"neg_iwae_nats": -bound, "iwae_neg_elbo_nats": -elbo, "iwae_gain_nats": bound - elbo}
    found = mean_metrics(columns, bootstrap=bootstrap, seed=seed)
    return {"iwae_samples": log_weights.shape[1], "iwae_items": found.pop("n"), **found}


def token_summary(token_kl: Floats) -> dict[str, Any]:
    """`kl_per_token`: mean nats of each group of latents, which sum to the KL; `inactive_tokens`.

    token_kl: (n, tokens) nats. A token is inactive below INACTIVE_NATS on average.
    """
    means = token_kl.mean(axis=0)
    return {
        "kl_per_token": means.tolist(),
        "inactive_tokens": int(np.count_nonzero(means < INACTIVE_NATS)),
    }


def active_units(means: npt.ArrayLike) -> int:
    """Latents whose posterior mean varies with the data (Burda et al. 2016, section 5.2).

    means: (n, d) posterior means, n >= 2.
    """
    return int(np.count_nonzero(_are_active(np.asarray(means, dtype=np.float64))))


def quantize(means: Floats, reference: Floats, bits: int) -> Floats:
    """Round each latent to the nearest of 2^bits values, the centres of equal parts of its range.

    means: (n, d). reference: (m, d), codes of training items: they give the range, from least to
    greatest, and the mean that an inactive latent is replaced by, which costs no bit.
    """
    low, levels = reference.min(axis=0), 2**bits
    step = np.maximum((reference.max(axis=0) - low) / levels, np.finfo(np.float64).tiny)
    places = np.clip(np.floor((means - low) / step), 0, levels - 1) + 0.5
    found: Floats = np.where(_are_active(reference), low + step * places, reference.mean(axis=0))
    return found


def _are_active(means: Floats) -> npt.NDArray[np.bool_]:
    """Which latents are active, (d,)."""
    return np.asarray(means.var(axis=0, ddof=1) > ACTIVE_VARIANCE)
