"""Are samples copies of training images? Their nearest ones, beside those of held-out images.

A model that has learnt the data puts samples as far from the training images as new images of the
same source are. One that has memorised puts them nearer.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import pairwise_distances_argmin_min

from genlab.core.stats import Floats, wilson_interval

LEVELS = 255
NEAR_PERCENTILE = 1
"""A sample nearer to the training images than this percentile of held-out images is `near`."""
CHUNK = 2048


def find_nearest(
    queries: npt.NDArray[Any], train: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.int64], Floats]:
    """The row of `train` nearest to each query, (n,), of equally near ones the first; its distance.

    queries: (n, ...), train: (m, ...), both uint8 images of one shape or both float features of one
    length. Distances, (n,): root mean squared error in units of the range [0, 1] for images,
    Euclidean for features; those of images are exact, and 0 for a copy alone. `train` may be a
    memory-mapped file: it is read in chunks. The cost is n m d products: about 10^12 for 10,000 by
    60,000 images of 28 x 28; take fewer queries where images are larger.
    """
    own = _flat(queries)
    best = np.full(len(own), np.inf)
    indices = np.zeros(len(own), dtype=np.int64)
    for start in range(0, len(train), CHUNK):
        rows, distances = pairwise_distances_argmin_min(own, _flat(train[start : start + CHUNK]))
        nearer = distances < best
        best[nearer], indices[nearer] = distances[nearer], rows[nearer] + start
    # From differences: the search expands the square, which loses the digits of a small one.
    squared = np.square(own - _flat(train[indices])).sum(axis=1)
    if queries.dtype == np.uint8:
        return indices, np.sqrt(squared / own.shape[1]) / LEVELS
    return indices, np.sqrt(squared)


def measure_memorisation(samples: Floats, held_out: Floats) -> dict[str, Any]:
    """How many samples are copies of training images, beside held-out images.

    samples, held_out: distances, by `find_nearest`, of n samples and of m test images from the same
    training images. Returns

    - `near_duplicate_rate`: share of samples nearer than `near_threshold`, the distance that
      NEAR_PERCENTILE of the held-out images fall below, so about 0.01 where nothing is memorised;
    - `n`, `n_reference`, `intervals`: Wilson's, at a fixed threshold.
    """
    n, threshold = len(samples), np.percentile(held_out, NEAR_PERCENTILE)
    near = int((samples < threshold).sum())
    return {
        "near_duplicate_rate": near / n,
        "near_threshold": float(threshold),
        "n": n,
        "n_reference": len(held_out),
        "intervals": {"near_duplicate_rate": wilson_interval(near, n)},
    }


def _flat(rows: npt.NDArray[Any]) -> Floats:
    """(n, d) in float64, in which sums of squared levels are exact."""
    return np.asarray(rows).reshape(len(rows), -1).astype(np.float64)
