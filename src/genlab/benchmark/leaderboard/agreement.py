"""Agreement of raters with each other, and of their stars with the score."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.benchmark.leaderboard.intervals import LEAST, Estimate, confidence_bounds
from genlab.core.stats import Floats

STARS = range(1, 6)


def krippendorff_alpha(
    counts: npt.NDArray[Any], *, bootstrap: int = 1000, seed: int = 0
) -> Estimate:
    """Krippendorff's ordinal α of stars: 1 full agreement, 0 chance, below 0 disagreement.

    counts: (images, 5), how many people gave 1 to 5 stars. Images that fewer than two people rated
    are left out. The interval is bootstrapped over images. Source: Krippendorff 2004, chapter 11.
    """
    rated = counts[counts.sum(axis=1) > 1]
    return _bootstrap(
        _alphas,
        rated,
        "images that two people rated",
        "every rating is the same: α is undefined",
        bootstrap=bootstrap,
        seed=seed,
    )


def _alphas(counts: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
    """Return α of each resample: (b,). counts: (n, 5); weights: (b, n).

    The coincidences of a resample are sums over its images. Equals `krippendorff.alpha`, which
    takes one table at a time.
    """
    pairs = counts[:, :, None] * (counts[:, None, :] - np.eye(counts.shape[1]))
    pairs = pairs / (counts.sum(axis=1) - 1)[:, None, None]
    coincidences = np.tensordot(weights.astype(np.float64), pairs, axes=1)
    totals = coincidences.sum(axis=2)
    ranks = np.cumsum(totals, axis=1) - totals / 2
    distances = (ranks[:, :, None] - ranks[:, None, :]) ** 2
    observed = (coincidences * distances).sum(axis=(1, 2))
    chance = totals[:, :, None] * totals[:, None, :] / (totals.sum(axis=1) - 1)[:, None, None]
    expected = (chance * distances).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(expected > 0, 1 - observed / expected, np.nan)


def spearman(pairs: npt.NDArray[Any], *, bootstrap: int = 1000, seed: int = 0) -> Estimate:
    """Spearman's rank correlation of the score and people's mean stars.

    pairs: (images, 2), score and mean stars. The interval is bootstrapped over images.
    """

    def statistic(pairs: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
        x, y = (_centred_ranks(column, weights) for column in pairs.T)
        spread = np.sqrt((weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1))
        with np.errstate(invalid="ignore"):
            return np.asarray((weights * x * y).sum(axis=1) / spread)

    return _bootstrap(
        statistic,
        pairs,
        "images with a score and stars",
        "all scores or all stars are the same",
        bootstrap=bootstrap,
        seed=seed,
    )


def _centred_ranks(values: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
    """Return the mean ranks of `values` (n,), minus their mean, in each resample: (b, n).

    weights: (b, n), how often a resample has each value; copies of a value are ties.
    """
    levels, level_of = np.unique(values, return_inverse=True)
    order = np.argsort(level_of, kind="stable")
    starts = np.searchsorted(level_of[order], np.arange(len(levels)))
    ties = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks = np.cumsum(ties, axis=1) - (ties - 1) / 2
    return np.asarray(ranks[:, level_of] - (len(values) + 1) / 2)


def _bootstrap(
    statistic: Callable[[npt.NDArray[Any], npt.NDArray[Any]], Floats],
    items: npt.NDArray[Any],
    items_in_words: str,
    undefined: str,
    *,
    bootstrap: int,
    seed: int,
) -> Estimate:
    """Return a statistic of items (n, m) with its bootstrap interval.

    statistic: called with the items and weights (b, n), the number of times that a resample has
    each item; undefined: why the statistic can be nan.
    """
    n = len(items)
    if n < LEAST:
        return Estimate(n=n, why=f"too few {items_in_words}: {n}, at least {LEAST}")
    [value] = statistic(items, np.ones((1, n), dtype=np.int64))
    if np.isnan(value):
        return Estimate(n=n, why=undefined)
    draws = np.random.default_rng(seed).integers(n, size=(bootstrap, n))
    weights = np.stack([np.bincount(rows, minlength=n) for rows in draws])
    [low], [high] = confidence_bounds(statistic(items, weights)[:, None], n)
    return Estimate(value=value, low=low, high=high, n=n)
