"""The Fréchet distance between two sets of features, its interval and its reference value.

Features are what an extractor says of images (`metrics.features`). Distances from different
extractors, or at different n, do not compare: the distance falls as n grows.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg

from genlab.core.stats import Floats, percentile_interval, student_interval

DRAWS = 5


class FeatureGaussian(NamedTuple):
    """A normal distribution: mean (d,), trace of its covariance, and that one's root (d, d)."""

    mean: Floats
    trace: float
    root: Floats


def gaussian_distance(first: FeatureGaussian, second: FeatureGaussian) -> float:
    """Squared Fréchet distance of two Gaussians (Dowson and Landau 1982; FID: Heusel et al. 2017).

    |m1 - m2|^2 + tr(S1 + S2 - 2 (S1 S2)^1/2), of covariances that may be singular. The trace of the
    root is the sum of the singular values of S1^1/2 S2^1/2: real and never negative, where the root
    of the product S1 S2 itself comes out complex or not at all.
    """
    overlap = linalg.svdvals(first.root @ second.root).sum()
    squared = ((first.mean - second.mean) ** 2).sum() + first.trace + second.trace - 2 * overlap
    return float(max(squared, 0.0))  # equal Gaussians may come out a rounding error below zero


def distance(features: Floats, reference: Floats) -> float:
    """Squared Fréchet distance of the Gaussians fitted to two sets of features, (n, d) and (m, d).

    The unbiased covariances are used, as is the custom for FID.
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
    """The Fréchet distance with a 95 % bootstrap interval over the images of both sets.

    features: (n, d); reference: (m, d). resampled: `resample_reference` of the same bootstrap and
    seed, where it is known. Returns `frechet_distance`, `n`, `n_reference`, `intervals`. A resample
    is farther off than the sets themselves, since the upward bias of a finite n strikes twice; so
    the resamples' spread is centred on the distance that was measured. The interval is about the
    distance at this n, not about its limit for ever more images.
    """
    found = distance(features, reference)
    draws = _resample(features, np.random.default_rng(seed).spawn(bootstrap))
    others = resampled or resample_reference(reference, bootstrap=bootstrap, seed=seed)
    distances = np.array(list(map(gaussian_distance, draws, others)))
    centred = np.maximum(distances - distances.mean() + found, 0)
    return {
        "frechet_distance": found,
        "n": len(features),
        "n_reference": len(reference),
        "intervals": {"frechet_distance": percentile_interval(centred, len(features))},
    }


def resample_reference(reference: Floats, *, bootstrap: int, seed: int) -> list[FeatureGaussian]:
    """The reference's side of the resamples of `frechet`, for several sets of features."""
    return list(_resample(reference, np.random.default_rng(seed).spawn(2 * bootstrap)[bootstrap:]))


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


def _fit(rows: Floats) -> FeatureGaussian:
    mean: Floats = rows.mean(axis=0)
    centred = rows - mean
    return _describe(mean, centred.T @ centred / (len(rows) - 1))


def _resample(rows: Floats, generators: Sequence[np.random.Generator]) -> Iterator[FeatureGaussian]:
    """The Gaussian of each resample, from the weights of the rows: no row is copied."""
    n, mean = len(rows), rows.mean(axis=0)
    centred = rows - mean  # so that the second moment below loses no digits to the mean
    for generator in generators:
        weights = np.bincount(generator.integers(n, size=n), minlength=n).astype(np.float64)
        shift = weights @ centred / n
        second = (centred * weights[:, None]).T @ centred
        yield _describe(mean + shift, (second - n * np.outer(shift, shift)) / (n - 1))


def _describe(mean: Floats, covariance: Floats) -> FeatureGaussian:
    """Take the root of a covariance; rounding errors below zero are taken as zero."""
    values, vectors = linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    return FeatureGaussian(mean, float(np.trace(covariance)), root)
