"""Bounds on the log-likelihood, in nats, and counts of the latents that carry information."""

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
"""A latent is active if its posterior mean varies over the data by more than this variance."""
INACTIVE_NATS = 0.01
"""A token is inactive if its mean KL is below this."""


def bound_summary(
    reconstruction: Floats, kl: Floats, *, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Means of the negative ELBO and its two terms, with 95 % bootstrap intervals over items.

    reconstruction: -log p(x|z), (n,) nats; kl: (n,) nats; their sum is the negative ELBO. Returns
    `neg_elbo_nats`, `reconstruction_nats`, `kl_nats`, `n`, `intervals`.
    """
    neg_elbo = reconstruction + kl
    terms = {"neg_elbo_nats": neg_elbo, "reconstruction_nats": reconstruction, "kl_nats": kl}
    return mean_metrics(terms, bootstrap=bootstrap, seed=seed)


def bound_over_entropy(
    neg_elbo: Floats, entropy: Floats, *, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Ratio of the mean negative ELBO to the mean of the bound on the data's entropy.

    neg_elbo, entropy: (n,) nats of the same items, which are resampled together. Returns
    `neg_elbo_over_entropy_bound`, `data_entropy_bound_nats` and `intervals` of both.
    """
    rows = np.stack([neg_elbo, entropy], axis=1)
    n = len(entropy)

    def compute(sums: Floats) -> dict[str, Floats]:
        """Both metrics, (b,) each, from sums over items, (b, 2)."""
        ratio = sums[:, 0] / sums[:, 1]
        return {"neg_elbo_over_entropy_bound": ratio, "data_entropy_bound_nats": sums[:, 1] / n}

    point = compute(rows.sum(axis=0, keepdims=True))
    resampled = compute(bootstrap_sums(rows, bootstrap=bootstrap, seed=seed))
    means = {name: float(value[0]) for name, value in point.items()}
    return {**means, "intervals": percentile_intervals(resampled, n)}


def iwae(log_weights: npt.ArrayLike) -> Floats:
    """Importance-weighted bound on log p(x), in nats per item (Burda et al. 2016, eq. 8).

    log_weights: log p(x, z_k) - log q(z_k | x), (n, k), which
    `vae.sampling.importance.log_importance_weights` computes. Returns the logarithm of the mean
    weight of each item, (n,).
    """
    weights = np.asarray(log_weights, dtype=np.float64)
    bound: Floats = logsumexp(weights, axis=1) - math.log(weights.shape[1])
    return bound


def iwae_summary(
    log_weights: npt.NDArray[Any], *, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """IWAE bound and ELBO of the same items, with 95 % bootstrap intervals over items.

    log_weights: (n, k), see `iwae`; their mean over k is the ELBO of an item. Returns
    `neg_iwae_nats`, `iwae_neg_elbo_nats`, `iwae_gain_nats` (the mean of paired differences, with a
    paired interval), `iwae_samples` k, `iwae_items` n and `intervals`.
    """
    bound = iwae(log_weights)
    elbo = log_weights.mean(axis=1)
    columns = {"neg_iwae_nats": -bound, "iwae_neg_elbo_nats": -elbo, "iwae_gain_nats": bound - elbo}
    means = mean_metrics(columns, bootstrap=bootstrap, seed=seed)
    return {"iwae_samples": log_weights.shape[1], "iwae_items": means.pop("n"), **means}


def token_summary(token_kl: Floats) -> dict[str, Any]:
    """Mean KL of each token, a group of latents, and the number of inactive tokens.

    token_kl: (n, tokens) nats, which sum to the KL of an item. Returns `kl_per_token` and
    `inactive_tokens`, those with a mean below INACTIVE_NATS.
    """
    means = token_kl.mean(axis=0)
    return {
        "kl_per_token": means.tolist(),
        "inactive_tokens": int(np.count_nonzero(means < INACTIVE_NATS)),
    }


def active_units(means: npt.ArrayLike) -> int:
    """Number of latents whose posterior mean varies with the data (Burda et al. 2016, section 5.2).

    means: (n, d) posterior means, n >= 2.
    """
    return int(np.count_nonzero(_are_active(np.asarray(means, dtype=np.float64))))


def quantize(means: Floats, reference: Floats, bits: int) -> Floats:
    """Round each latent to the nearest of 2^bits values, the centres of equal parts of its range.

    means: (n, d). reference: (m, d), codes of training items, which define the range of each latent
    from smallest to largest. An inactive latent is replaced by the mean of its codes, which costs
    no bit.
    """
    levels = 2**bits
    low = reference.min(axis=0)
    step = np.maximum((reference.max(axis=0) - low) / levels, np.finfo(np.float64).tiny)
    centres = np.clip(np.floor((means - low) / step), 0, levels - 1) + 0.5
    active = _are_active(reference)
    quantized: Floats = np.where(active, low + step * centres, reference.mean(axis=0))
    return quantized


def _are_active(means: Floats) -> npt.NDArray[np.bool_]:
    """Which latents are active, (d,)."""
    return np.asarray(means.var(axis=0, ddof=1) > ACTIVE_VARIANCE)
