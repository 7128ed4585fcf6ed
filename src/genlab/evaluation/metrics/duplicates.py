"""Memorisation: distances of samples to their nearest training images, against held-out images.

Samples of a model that generalises lie as far from the training images as new images of the same
source do. Samples of a model that memorises lie nearer.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import pairwise_distances_argmin_min

from genlab.core.stats import Floats, wilson_interval

LEVELS = 255
NEAR_PERCENTILE = 1
"""A sample nearer to the training images than this percentile of held-out images is `near`."""
CHUNK = 2048  # training images compared at a time


def find_nearest(
    queries: npt.NDArray[Any], train: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Find the training item nearest to each query; return its index and its distance, (n,) each.

    Of equally near items, the first one is returned.

    queries: (n, ...), train: (m, ...), both uint8 images of one shape or both float features of one
    length. Distances are the root mean squared error in units of the range [0, 1] for images, and
    Euclidean for features. Those of images are exact: only a copy has distance 0. `train` may be a
    memory-mapped file, which is read in chunks. The cost is n m d products, about 10^12 for 10,000
    by 60,000 images of 28 x 28; take fewer queries where images are larger.
    """
    points = _flatten(queries)
    smallest = np.full(len(points), np.inf)
    indices = np.zeros(len(points), dtype=np.int64)
    for start in range(0, len(train), CHUNK):
        chunk = _flatten(train[start : start + CHUNK])
        rows, distances = pairwise_distances_argmin_min(points, chunk)
        nearer = distances < smallest
        smallest[nearer] = distances[nearer]
        indices[nearer] = rows[nearer] + start
    # Recomputed from differences: the search expands the square, which loses digits where it is
    # small.
    squared = np.square(points - _flatten(train[indices])).sum(axis=1)
    if queries.dtype == np.uint8:
        return indices, np.sqrt(squared / points.shape[1]) / LEVELS
    return indices, np.sqrt(squared)


def measure_memorisation(samples: Floats, held_out: Floats) -> dict[str, Any]:
    """Rate of samples that are nearly copies of training images.

    samples, held_out: distances of n samples and of m test images to their nearest training images,
    by `find_nearest`. Returns

    - `near_duplicate_rate`: fraction of samples nearer than `near_threshold`, the NEAR_PERCENTILE
      of the held-out distances; about 0.01 where nothing is memorised;
    - `n`, `n_reference`, `intervals`: Wilson's, at a fixed threshold.
    """
    n = len(samples)
    threshold = np.percentile(held_out, NEAR_PERCENTILE)
    near = int((samples < threshold).sum())
    return {
        "near_duplicate_rate": near / n,
        "near_threshold": float(threshold),
        "n": n,
        "n_reference": len(held_out),
        "intervals": {"near_duplicate_rate": wilson_interval(near, n)},
    }


def _flatten(rows: npt.NDArray[Any]) -> Floats:
    """Reshape to (n, d) float64, in which sums of squared levels are exact."""
    return np.asarray(rows).reshape(len(rows), -1).astype(np.float64)
