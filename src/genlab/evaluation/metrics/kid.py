"""The kernel distance between two sets of features (KID).

A second judge beside the Fréchet distance: it compares all moments up to the third without the
assumption that features are Gaussian, and it is unbiased, so its expectation does not depend on n.
"""

from typing import Any

import numpy as np

from genlab.core.stats import Floats, student_interval

BLOCK = 1000
"""Rows of each side that one estimate is of, as in Binkowski et al. (2018)."""


def kid(features: Floats, reference: Floats, *, seed: int = 0) -> dict[str, Any]:
    """Squared maximum mean discrepancy with the kernel (x . y / d + 1)^3 (Binkowski et al. 2018).

    features: (n, d); reference: (m, d); at least 4 rows each. The mean of the unbiased estimates of
    disjoint blocks of up to BLOCK rows, drawn without replacement, with Student's 95 % interval
    over the blocks. It may come out below 0. Returns `kid`, `n` rows of each side, `intervals`.
    """
    n = min(len(features), len(reference))
    blocks = max(2, n // BLOCK)
    rng, size = np.random.default_rng(seed), n // blocks
    one, other = (
        np.split(rows[rng.permutation(len(rows))[: blocks * size]], blocks)
        for rows in (features, reference)
    )
    values = [_squared_mmd(a, b) for a, b in zip(one, other, strict=True)]
    return {
        "kid": float(np.mean(values)),
        "n": blocks * size,
        "intervals": {"kid": student_interval(values)},
    }


def _squared_mmd(one: Floats, other: Floats) -> float:
    """The unbiased estimate of two sets of m rows (Gretton et al. 2012, eq. 4)."""
    m, d = one.shape
    within = sum(_kernel_sum(rows @ rows.T, d, diagonal=False) for rows in (one, other))
    across = _kernel_sum(one @ other.T, d, diagonal=True)
    return float(within / (m * (m - 1)) - 2 * across / m**2)


def _kernel_sum(products: Floats, d: int, *, diagonal: bool) -> float:
    kernel = (products / d + 1) ** 3
    return float(kernel.sum() - (0.0 if diagonal else np.trace(kernel)))
