"""Precision and recall: are samples realistic, and do they show all the data?

Each set of features stands for a manifold: the union of balls around its points, whose radius is
the distance to the point's k-th nearest neighbour in its own set.
"""

from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

from genlab.core.stats import Floats, share_interval

MEGABYTES = 128
"""Distances held at a time."""


def manifold(fake: Floats, real: Floats, *, k: int = 5) -> dict[str, Any]:
    """Improved precision and recall (Kynkäänniemi et al. 2019, eq. 1 and 2), with 95 % intervals.

    fake: features (n, d); real: features (m, d). Returns `precision`, the share of fakes within a
    ball of the real manifold; `recall`, the share of reals within a ball of the fake one; `k`, `n`
    fakes, `n_reference` reals, `intervals` (Wilson's, at fixed manifolds).

    Balls are closed, so a copy of an image that occurs more than k times still lies within. Both
    depend on k, n and m: they compare at the same three alone.
    """
    fake_radii, real_radii = _radii(fake, k), _radii(real, k)
    precise, recalled = np.zeros(len(fake), dtype=np.bool_), np.zeros(len(real), dtype=np.bool_)
    start = 0
    for distances in pairwise_distances_chunked(fake, real, working_memory=MEGABYTES):
        rows = slice(start, start + len(distances))
        precise[rows] = (distances <= real_radii).any(axis=1)
        recalled |= (distances <= fake_radii[rows, None]).any(axis=0)
        start = rows.stop
    hits = {"precision": precise, "recall": recalled}
    return {
        **{name: float(hit.mean()) for name, hit in hits.items()},
        "k": k,
        "n": len(fake),
        "n_reference": len(real),
        "intervals": {name: share_interval(int(hit.sum()), len(hit)) for name, hit in hits.items()},
    }


def _radii(features: Floats, k: int) -> Floats:
    """Distance of each point to its k-th nearest neighbour, itself not counted. (n, d) to (n,)."""
    found, _ = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(features).kneighbors()
    radius: Floats = found[:, -1]
    return radius
