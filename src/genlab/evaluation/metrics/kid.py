"""The kernel distance between two sets of features (KID).

A second judge beside the Fréchet distance: it compares all moments up to the third without the
assumption that features are Gaussian, and it is unbiased, so its expectation does not depend on n.
"""

from typing import Any

import numpy as np
import torch
from torchmetrics.image.kid import poly_mmd

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
        torch.split(torch.from_numpy(rows[rng.permutation(len(rows))[: blocks * size]]), size)
        for rows in (features, reference)
    )
    values = [float(poly_mmd(a, b)) for a, b in zip(one, other, strict=True)]
    return {
        "kid": float(np.mean(values)),
        "n": blocks * size,
        "intervals": {"kid": student_interval(values)},
    }
