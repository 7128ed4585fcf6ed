"""Precision, recall, density and coverage: are samples realistic, and do they show all the data?

Each set of features stands for a manifold: the union of balls around its points, whose radius is
the distance to the point's k-th nearest neighbour in its own set.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import pairwise_distances_chunked
from sklearn.neighbors import NearestNeighbors

from genlab.core.stats import Floats, mean_interval, share_interval

MEGABYTES = 128
"""Distances held at a time."""


def manifold(
    fake_features: npt.ArrayLike,
    real_features: npt.ArrayLike,
    *,
    k: int = 5,
    bootstrap: int = 1000,
    seed: int = 0,
) -> dict[str, Any]:
    """Improved precision and recall, density and coverage, with 95 % intervals.

    fake_features: (n, d); real_features: (m, d). Returns

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
    Raises ValueError where a set has no more than k points.
    """
    fake, real = _checked(fake_features, k), _checked(real_features, k)
    if fake.shape[1] != real.shape[1]:
        raise ValueError(f"features must be alike in d, got {fake.shape} and {real.shape}")
    balls, recalled, covered = _tests(fake, real, radii(fake, k), radii(real, k))
    density = balls / k
    hits = {"precision": balls > 0, "recall": recalled, "coverage": covered}
    intervals = {name: share_interval(int(hit.sum()), len(hit)) for name, hit in hits.items()}
    intervals["density"] = mean_interval(density, bootstrap=bootstrap, seed=seed)
    return {
        **{name: float(hit.mean()) for name, hit in hits.items()},
        "density": float(density.mean()),
        "k": k,
        "n": len(fake),
        "n_reference": len(real),
        "intervals": intervals,
    }


def radii(features: npt.ArrayLike, k: int) -> Floats:
    """Distance of each point to its k-th nearest neighbour, itself not counted. (n, d) to (n,)."""
    rows = _checked(features, k)
    found, _ = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(rows).kneighbors()
    radius: Floats = found[:, -1]
    return radius


def _tests(
    fake: Floats, real: Floats, fake_radii: Floats, real_radii: Floats
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Real balls around each fake (n,); reals in a fake ball (m,); real balls with a fake (m,)."""
    balls = np.empty(len(fake), dtype=np.int64)
    recalled = np.zeros(len(real), dtype=np.bool_)
    covered = np.zeros(len(real), dtype=np.bool_)
    chunks: Iterator[Floats] = pairwise_distances_chunked(fake, real, working_memory=MEGABYTES)
    start = 0
    for distances in chunks:
        rows = slice(start, start + len(distances))
        within = distances <= real_radii
        balls[rows] = within.sum(axis=1)
        covered |= within.any(axis=0)
        recalled |= (distances <= fake_radii[rows, None]).any(axis=0)
        start = rows.stop
    return balls, recalled, covered


def _checked(features: npt.ArrayLike, k: int) -> Floats:
    rows = np.asarray(features, dtype=np.float64)
    if rows.ndim != 2 or not 1 <= k < len(rows):
        raise ValueError(f"features must be (n, d) with n > k >= 1, got {rows.shape} and k = {k}")
    if not np.isfinite(rows).all():
        raise ValueError("a feature is not finite: the images or the extractor are broken")
    return rows
