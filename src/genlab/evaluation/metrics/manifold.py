"""Precision and recall: are samples realistic, and do they show all the data?

Each set of features stands for a manifold: the union of balls around its points, whose radius is
the distance to the point's k-th nearest neighbour in its own set.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from genlab.core.stats import Floats, wilson_interval

K = 5
ROWS = 256
"""Points whose distances to all others are held at a time: 20 MB of 10,000."""


def manifold(
    fake: Floats, real: Floats, *, k: int = K, real_radii: Floats | None = None
) -> dict[str, Any]:
    """Improved precision and recall (Kynkäänniemi et al. 2019, eq. 1 and 2), with 95 % intervals.

    fake: features (n, d); real: features (m, d). real_radii: `squared_radii` of real, where they
    are known. Returns `precision`, the share of fakes within a ball of the real manifold; `recall`,
    the share of reals within a ball of the fake one; `k`, `n` fakes, `n_reference` reals,
    `intervals` (Wilson's, at fixed manifolds).

    Balls are closed, so a copy of an image that occurs more than k times still lies within. Both
    depend on k, n and m: they compare at the same three alone.
    """
    fake_radii = squared_radii(fake, k)
    real_radii = squared_radii(real, k) if real_radii is None else real_radii
    precise, recalled = np.zeros(len(fake), dtype=np.bool_), np.zeros(len(real), dtype=np.bool_)
    for rows, distances in _squared_distances(fake, real):
        precise[rows] = (distances <= real_radii).any(axis=1)
        recalled |= (distances <= fake_radii[rows, None]).any(axis=0)
    hits = {"precision": precise, "recall": recalled}
    return {
        **{name: float(hit.mean()) for name, hit in hits.items()},
        "k": k,
        "n": len(fake),
        "n_reference": len(real),
        "intervals": {
            name: wilson_interval(int(hit.sum()), len(hit)) for name, hit in hits.items()
        },
    }


def squared_radii(features: Floats, k: int = K) -> Floats:
    """Squared distance of each point to its k-th nearest, itself not counted. (n, d) to (n,)."""
    radii = np.empty(len(features))
    for rows, distances in _squared_distances(features, features):
        distances[np.arange(len(distances)), np.arange(rows.start, rows.stop)] = np.inf
        radii[rows] = np.partition(distances, k - 1, axis=1)[:, k - 1]
    return radii


def _squared_distances(one: Floats, other: Floats) -> Iterator[tuple[slice, Floats]]:
    """Rows of `one` and their squared distances to all of `other`: (rows, m), in one buffer."""
    norms, other_norms = (np.einsum("ij,ij->i", rows, rows) for rows in (one, other))
    buffer = np.empty((ROWS, len(other)))
    for start in range(0, len(one), ROWS):
        rows = slice(start, min(start + ROWS, len(one)))
        distances = np.matmul(one[rows], other.T, out=buffer[: rows.stop - start])
        distances *= -2
        distances += norms[rows, None]
        distances += other_norms
        yield rows, distances
