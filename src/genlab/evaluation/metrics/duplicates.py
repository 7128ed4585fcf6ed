"""Are samples copies of training images? Their nearest ones, beside those of held-out images.

A model that has learnt the data puts samples as far from the training images as new images of the
same source are. One that has memorised puts them nearer.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.metrics import pairwise_distances_argmin_min

from genlab.core.stats import Floats, share_interval

LEVELS = 255
NEAR_PERCENTILE = 1
"""A sample nearer to the training images than this percentile of held-out images is `near`."""
CHUNK = 2048


@dataclass(frozen=True)
class Neighbours:
    """The nearest training image of each of n queries.

    indices: (n,) rows of the training images. distances: (n,), root mean squared error in units of
    the range [0, 1] for images, Euclidean for features. copies: (n,) distance exactly 0.
    """

    indices: npt.NDArray[np.int64]
    distances: Floats
    copies: npt.NDArray[np.bool_]


def nearest(queries: npt.NDArray[Any], train: npt.NDArray[Any]) -> Neighbours:
    """The nearest row of `train` for each query; of equally near ones, the first.

    queries: (n, ...), train: (m, ...), both uint8 images of one shape or both float features of one
    length. `train` may be a memory-mapped file: it is read in chunks. Image distances are exact.
    The cost is n m d products: about 10^12 for 10,000 by 60,000 images of 28 x 28; take fewer
    queries where images are larger.
    """
    images = queries.dtype == np.uint8
    own = _flat(queries)
    best = np.full(len(own), np.inf)
    indices = np.zeros(len(own), dtype=np.int64)
    for start in range(0, len(train), CHUNK):
        rows, distances = pairwise_distances_argmin_min(own, _flat(train[start : start + CHUNK]))
        nearer = distances < best
        best[nearer], indices[nearer] = distances[nearer], rows[nearer] + start
    # From differences: the search expands the square, which loses the digits of a small one. Rows
    # are read once and in the file's order.
    different, places = np.unique(indices, return_inverse=True)
    found = _flat(train[different])
    squared = np.array(
        [np.square(one - found[row]).sum() for one, row in zip(own, places, strict=True)]
    )
    distances = np.sqrt(squared / own.shape[1]) / LEVELS if images else np.sqrt(squared)
    return Neighbours(indices, distances, squared == 0)


def memorisation(samples: Neighbours, held_out: Neighbours) -> dict[str, Any]:
    """How many samples are copies of training images, beside held-out images.

    samples, held_out: `nearest` of n samples and of m test images among the same training images.
    Returns

    - `near_duplicate_rate`: share of samples nearer than `near_threshold`, the distance that
      NEAR_PERCENTILE of the held-out images fall below, so about 0.01 where nothing is memorised;
    - `exact_duplicate_rate`: share of samples equal to a training image in every number, and
      `held_out_exact_duplicate_rate`, the same of test images (data sets hold duplicates);
    - `n`, `n_reference`, `intervals`: Wilson's, at a fixed threshold.
    """
    n, threshold = len(samples.distances), np.percentile(held_out.distances, NEAR_PERCENTILE)
    hits = {
        "near_duplicate_rate": samples.distances < threshold,
        "exact_duplicate_rate": samples.copies,
    }
    return {
        **{name: float(hit.mean()) for name, hit in hits.items()},
        "near_threshold": float(threshold),
        "held_out_exact_duplicate_rate": float(held_out.copies.mean()),
        "n": n,
        "n_reference": len(held_out.distances),
        "intervals": {name: share_interval(int(hit.sum()), n) for name, hit in hits.items()},
    }


def _flat(rows: npt.NDArray[Any]) -> Floats:
    """(n, d) in float64, in which sums of squared levels are exact."""
    return np.asarray(rows).reshape(len(rows), -1).astype(np.float64)
