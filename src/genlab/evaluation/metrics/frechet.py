"""Fréchet distance between two sets of image features, with its interval and reference value.

Features come from a classifier (`metrics.features`). Distances in the features of different
classifiers, or at different n, are not comparable: the distance falls as n grows.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from genlab.core.stats import Floats, percentile_interval, student_interval

DRAWS = 5
"""Sets of training images that a reference distance is averaged over, at most."""


class FeatureGaussian(NamedTuple):
    """Gaussian fitted to features.

    mean: (d,). trace: of the covariance. root: square root of the covariance, (d, d).
    """

    mean: Floats
    trace: float
    root: Floats


def gaussian_distance(first: FeatureGaussian, second: FeatureGaussian) -> float:
    """Squared Fréchet distance of two Gaussians (Dowson and Landau 1982; FID: Heusel et al. 2017).

    |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^1/2), where covariances may be singular. The trace of
    (S1 S2)^1/2 is computed as the sum of the singular values of S1^1/2 S2^1/2, which is real and
    never negative. The matrix root of S1 S2 itself can be complex, or fail to converge.
    """
    overlap = linalg.svdvals(first.root @ second.root).sum()
    squared = ((first.mean - second.mean) ** 2).sum() + first.trace + second.trace - 2 * overlap
    return float(max(squared, 0.0))  # equal Gaussians may come out a rounding error below zero


def distance(features: Floats, reference: Floats) -> float:
    """Squared Fréchet distance of the Gaussians fitted to two sets of features, (n, d) and (m, d).

    Covariances are unbiased, as is usual for FID.
    """
    return gaussian_distance(_fit(features), _fit(reference))


def frechet(
    features: Floats,
    reference: Floats,
    *,
    bootstrap: int = 50,
    seed: int = 0,
    resampled: Sequence[FeatureGaussian] | None = None,
) -> dict[str, Any]:
    """Fréchet distance with a 95 % bootstrap interval over the images of both sets.

    features: (n, d); reference: (m, d). resampled: result of `resample_reference` for the same
    bootstrap and seed, to avoid computing it again. Returns `frechet_distance`, `n`, `n_reference`,
    `intervals`. Resampling adds to the upward bias of a finite n, so the resampled distances are
    centred on the measured one. The interval is that of the distance at this n, not of its limit
    for infinitely many images.
    """
    measured = distance(features, reference)
    gaussians = _resample(features, np.random.default_rng(seed).spawn(bootstrap))
    references = resampled or resample_reference(reference, bootstrap=bootstrap, seed=seed)
    distances = np.array(list(map(gaussian_distance, gaussians, references)))
    centred = np.maximum(distances - distances.mean() + measured, 0)
    return {
        "frechet_distance": measured,
        "n": len(features),
        "n_reference": len(reference),
        "intervals": {"frechet_distance": percentile_interval(centred, len(features))},
    }


def resample_reference(reference: Floats, *, bootstrap: int, seed: int) -> list[FeatureGaussian]:
    """Resample the reference of `frechet` once, to compare several sets of features with it."""
    return list(_resample(reference, np.random.default_rng(seed).spawn(2 * bootstrap)[bootstrap:]))


def train_reference(train: Floats, test: Floats, n: int, seed: int = 0) -> dict[str, Any]:
    """Fréchet distance of n training images to the test images: what a perfect sampler would reach.

    train: features (m, d), m >= n; test: features (k, d). The distance is the mean over up to DRAWS
    disjoint sets of n training images, since single sets differ by a tenth; the interval is
    Student's over the sets, with the test images fixed. Where the train split holds only one set,
    the result is that of `frechet`.
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


def _fit(rows: Floats) -> FeatureGaussian:
    """Fit a Gaussian to features (n, d)."""
    mean: Floats = rows.mean(axis=0)
    centred = rows - mean
    return _make_gaussian(mean, centred.T @ centred / (len(rows) - 1))


def _resample(rows: Floats, generators: Sequence[np.random.Generator]) -> Iterator[FeatureGaussian]:
    """Yield the Gaussian of a resample per generator; rows are weighted instead of copied."""
    n = len(rows)
    mean = rows.mean(axis=0)
    centred = rows - mean  # keeps the digits of the second moment below
    for generator in generators:
        weights = np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)
        shift = weights @ centred / n
        second = (centred * weights[:, None]).T @ centred
        yield _make_gaussian(mean + shift, (second - n * np.outer(shift, shift)) / (n - 1))


def _make_gaussian(mean: Floats, covariance: Floats) -> FeatureGaussian:
    """Build a Gaussian from its moments; negative eigenvalues, due to rounding, count as zero."""
    values, vectors = linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return FeatureGaussian(mean, float(np.trace(covariance)), root)
