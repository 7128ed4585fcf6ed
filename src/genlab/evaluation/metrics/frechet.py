"""The Fréchet distance between two sets of features, its interval and its reference value.

Features are what an extractor says of images (`metrics.features`). Distances from different
extractors, or at different n, do not compare: the distance falls as n grows.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import linalg

from genlab.core.stats import Floats, percentile_interval, student_interval

Moments = tuple[Floats, Floats]
DRAWS = 5


def gaussian_distance(one: Moments, other: Moments) -> float:
    """Squared Fréchet distance of two Gaussians (Dowson and Landau 1982; FID: Heusel et al. 2017).

    |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^1/2). one, other: mean (d,) and covariance (d, d), which
    may be singular. The trace of the root is the sum of the singular values of S1^1/2 S2^1/2: real
    and never negative, where the root of the product S1 S2 itself comes out complex or not at all.
    """
    (mean, covariance), (other_mean, other_covariance) = one, other
    overlap = linalg.svdvals(_root(covariance) @ _root(other_covariance)).sum()
    traces = np.trace(covariance), np.trace(other_covariance)
    squared = ((mean - other_mean) ** 2).sum() + traces[0] + traces[1] - 2 * overlap
    return float(max(squared, 0.0))  # equal Gaussians may come out a rounding error below zero


def distance(features: Floats, reference: Floats) -> float:
    """Squared Fréchet distance of the Gaussians fitted to two sets of features, (n, d) and (m, d).

    The unbiased covariances are used, as is the custom for FID.
    """
    return gaussian_distance(_moments(features), _moments(reference))


def frechet(
    features: Floats, reference: Floats, *, bootstrap: int = 50, seed: int = 0
) -> dict[str, Any]:
    """The Fréchet distance with a 95 % bootstrap interval over the images of both sets.

    features: (n, d); reference: (m, d). Returns `frechet_distance`, `n`, `n_reference`,
    `intervals`. A resample is farther off than the sets themselves, since the upward bias of a
    finite n strikes twice; so the resamples' spread is centred on the distance that was measured.
    The interval is about the distance at this n, not about its limit for ever more images.
    """
    found = distance(features, reference)
    rng = np.random.default_rng(seed)
    draws, others = (_resampled_moments(rows, bootstrap, rng) for rows in (features, reference))
    resampled = np.array(list(map(gaussian_distance, draws, others)))
    centred = np.maximum(resampled - resampled.mean() + found, 0)
    return {
        "frechet_distance": found,
        "n": len(features),
        "n_reference": len(reference),
        "intervals": {"frechet_distance": percentile_interval(centred, len(features))},
    }


def train_reference(train: Floats, test: Floats, n: int, seed: int = 0) -> dict[str, Any]:
    """What n samples of a perfect sampler would get against the test images: n training images.

    The mean over up to DRAWS sets that have no image in common, since one set's distance is a tenth
    from the next one's; Student's interval is over the sets (the test images are the same for all,
    and for samples). Where the train split holds one set, `frechet` of that, with its interval.
    train, test: features, (m, d) with m >= n and (k, d).
    """
    draws = min(DRAWS, len(train) // n)
    order = np.random.default_rng(seed).permutation(len(train))
    sets = [train[order[n * draw : n * (draw + 1)]] for draw in range(draws)]
    if draws == 1:
        return {**frechet(sets[0], test, seed=seed), "draws": draws}
    distances = [distance(rows, test) for rows in sets]
    return {
        "frechet_distance": float(np.mean(distances)),
        "draws": draws,
        "n": n,
        "n_reference": len(test),
        "intervals": {"frechet_distance": student_interval(distances)},
    }


def _moments(rows: Floats) -> Moments:
    mean: Floats = rows.mean(axis=0)
    centred = rows - mean
    return mean, centred.T @ centred / (len(rows) - 1)


def _resampled_moments(rows: Floats, bootstrap: int, rng: np.random.Generator) -> Iterator[Moments]:
    """Mean and covariance of each resample, from the weights of the rows: no row is copied."""
    n, mean = len(rows), rows.mean(axis=0)
    centred = rows - mean  # so that the second moment below loses no digits to the mean
    for generator in rng.spawn(bootstrap):
        weights = np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)
        shift = weights @ centred / n
        second = (centred * weights[:, None]).T @ centred
        yield mean + shift, (second - n * np.outer(shift, shift)) / (n - 1)


def _root(covariance: Floats) -> Floats:
    """The symmetric square root; rounding errors below zero are taken as zero."""
    values, vectors = linalg.eigh(covariance)
    root: Floats = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return root
