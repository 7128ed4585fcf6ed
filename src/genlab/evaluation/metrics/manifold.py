"""Precision, recall, density and coverage: are samples realistic, and do they show all the data?

Each set of features stands for a manifold: the union of balls around its points, whose radius is
the distance to the point's k-th nearest neighbour in its own set.
"""

from typing import Any

import numpy as np
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

from genlab.core.stats import Floats, mean_interval, share_interval

MEGABYTES = 128
"""Distances held at a time."""


def manifold(
    fake: Floats, real: Floats, *, k: int = 5, bootstrap: int = 1000, seed: int = 0
) -> dict[str, Any]:
    """Improved precision and recall, density and coverage, with 95 % intervals.

    fake: features (n, d); real: features (m, d). Returns

    - `precision`: share of fakes within a ball of the real manifold, `recall`: share of reals
      within a ball of the fake one (Kynkäänniemi et al. 2019, eq. 1 and 2);
    - `density`: real balls that a fake lies in, over k, its mean (above 1 where fakes crowd where
      the data are dense), `coverage`: share of real balls that hold a fake (Naeem et al. 2020,
      eq. 3 and 4);
    - `k`, `n` fakes, `n_reference` reals, `intervals`.

    Balls are closed, so a copy of an image that occurs more than k times still lies within. All
    four depend on k, n and m: they compare at the same three alone. The intervals keep both
    manifolds as they are and are about the points tested against them: fakes for precision and
    density, reals for recall and coverage. Shares have Wilson's, the density a bootstrap.
    """
    fake_radii, real_radii = radii(fake, k), radii(real, k)
    balls = np.empty(len(fake), dtype=np.int64)  # real balls around each fake
    recalled = np.zeros(len(real), dtype=np.bool_)
    covered = np.zeros(len(real), dtype=np.bool_)
    start = 0
    for distances in pairwise_distances_chunked(fake, real, working_memory=MEGABYTES):
        rows = slice(start, start + len(distances))
        within = distances <= real_radii
        balls[rows] = within.sum(axis=1)
        covered |= within.any(axis=0)
        recalled |= (distances <= fake_radii[rows, None]).any(axis=0)
        start = rows.stop
    hits = {"precision": balls > 0, "recall": recalled, "coverage": covered}
    intervals = {name: share_interval(int(hit.sum()), len(hit)) for name, hit in hits.items()}
    intervals["density"] = mean_interval(balls / k, bootstrap=bootstrap, seed=seed)
    return {
        **{name: float(hit.mean()) for name, hit in hits.items()},
        "density": float((balls / k).mean()),
        "k": k,
        "n": len(fake),
        "n_reference": len(real),
        "intervals": intervals,
    }


def radii(features: Floats, k: int) -> Floats:
    """Distance of each point to its k-th nearest neighbour, itself not counted. (n, d) to (n,)."""
    found, _ = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(features).kneighbors()
    radius: Floats = found[:, -1]
    return radius
