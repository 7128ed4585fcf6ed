"""Intervals of a few dozen items: the bootstrap, widened by what few items hide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm, t

Floats = npt.NDArray[np.float64]

LEAST = 6
"""Items below which nothing is claimed: of 5, even all alike is a coin's chance of over 5 %."""
LEVEL = 0.95
CHUNK = 1 << 20
"""Draws held at a time: bounds the memory, whatever the number of items."""


def resamples(n: int, *, bootstrap: int, seed: int) -> Iterator[Floats]:
    """How often each of `n` items is drawn: blocks (b, n) whose b sum to `bootstrap` (Efron 1979).

    A statistic of sums over items needs only the product of such a block with the items' terms.
    """
    rng = np.random.default_rng(seed)
    block = max(1, CHUNK // n)
    for start in range(0, bootstrap, block):
        size = min(block, bootstrap - start)
        draws = rng.integers(n, size=(size, n), dtype=np.int32).astype(np.int64)
        draws += np.arange(size)[:, None] * n
        counts = np.bincount(draws.ravel(), minlength=size * n)
        yield counts.reshape(size, n).astype(np.float64)


def resampled_means(values: Floats, *, bootstrap: int, seed: int) -> Floats:
    """Means of the columns of `values` (n, m), nan where an item says nothing: (bootstrap, m).

    All columns see the same resamples, so that differences of columns are paired. A resample in
    which a column has no item gives nan.
    """
    said = ~np.isnan(values)
    terms = np.hstack([np.where(said, values, 0.0), said.astype(np.float64)])
    sums = np.vstack([w @ terms for w in resamples(len(values), bootstrap=bootstrap, seed=seed)])
    total, count = np.hsplit(sums, 2)
    with np.errstate(invalid="ignore"):
        means: Floats = total / count
    return means


def bounds(resampled: Floats, n: npt.NDArray[Any] | int) -> tuple[Floats, Floats]:
    """Lower and upper bound of each column of `resampled` (b, m), of n items each; nan below two.

    The percentile interval is too narrow for few items: its quantiles are moved out so that a mean
    of normal items gets about the width of Student's interval (Hesterberg 2015, "expanded
    percentile interval").
    """
    n = np.broadcast_to(n, resampled.shape[1:])
    low, high = np.full(resampled.shape[1], np.nan), np.full(resampled.shape[1], np.nan)
    # Columns of the same n have the same quantiles: one sort for all of them.
    for size in np.unique(n[n > 1]):
        tail = float(norm.cdf(np.sqrt(size / (size - 1)) * t.ppf((1 - LEVEL) / 2, size - 1)))
        chosen = np.flatnonzero(n == size)
        known = chosen[~np.isnan(resampled[:, chosen]).any(axis=0)]
        low[known], high[known] = np.quantile(resampled[:, known], [tail, 1 - tail], axis=0)
        for column in np.setdiff1d(chosen, known):
            values = resampled[:, column]
            values = values[~np.isnan(values)]
            if len(values):
                low[column], high[column] = np.quantile(values, [tail, 1 - tail])
    return low, high


def interval(resampled: Floats, n: int) -> tuple[float | None, float | None]:
    """`bounds` of one statistic, (b,); None where there is none."""
    low, high = bounds(np.asarray(resampled, dtype=np.float64).reshape(-1, 1), n)
    return (None, None) if np.isnan(low[0]) else (float(low[0]), float(high[0]))
