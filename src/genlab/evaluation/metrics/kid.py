"""Kernel distance between two sets of features (KID).

It complements the Fréchet distance: it compares all moments up to the third without assuming that
features are Gaussian, and it is unbiased, so its expectation does not depend on n.
"""

from typing import Any

import numpy as np

from genlab.core.stats import Floats, student_interval

BLOCK = 1000
"""Rows of each set per estimate, as in Binkowski et al. (2018)."""


def kid(features: Floats, reference: Floats, *, seed: int = 0) -> dict[str, Any]:
    """Squared maximum mean discrepancy with the kernel (x . y / d + 1)^3 (Binkowski et al. 2018).

    features: (n, d); reference: (m, d); at least 4 rows each. Returns `kid`, the mean of unbiased
    estimates over disjoint blocks of up to BLOCK rows, drawn without replacement, which may be
    below 0; `n`, the rows of each set that were used; and `intervals`, Student's 95 % over blocks.
    """
    n = min(len(features), len(reference))
    blocks = max(2, n // BLOCK)
    size = n // blocks
    rng = np.random.default_rng(seed)

    def draw_blocks(rows: Floats) -> list[Floats]:
        chosen = rng.permutation(len(rows))[: blocks * size]
        return np.split(rows[chosen], blocks)

    feature_blocks = draw_blocks(features)
    reference_blocks = draw_blocks(reference)
    values = list(map(_squared_mmd, feature_blocks, reference_blocks))
    return {
        "kid": float(np.mean(values)),
        "n": blocks * size,
        "intervals": {"kid": student_interval(values)},
    }


def _squared_mmd(first: Floats, second: Floats) -> float:
    """Unbiased estimate for two sets of m rows (Gretton et al. 2012, eq. 4)."""
    m, d = first.shape
    within = sum(_kernel_sum(rows @ rows.T, d, diagonal=False) for rows in (first, second))
    across = _kernel_sum(first @ second.T, d, diagonal=True)
    return float(within / (m * (m - 1)) - 2 * across / m**2)


def _kernel_sum(products: Floats, d: int, *, diagonal: bool) -> float:
    """Sum the kernel over pairs of rows, given their inner products (m, m)."""
    kernel = (products / d + 1) ** 3
    return float(kernel.sum() - (0.0 if diagonal else np.trace(kernel)))
