"""Bootstrap intervals that hold for a few dozen items."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import norm, t

from genlab.core.stats import Floats, resampled_sums

LEAST = 6
"""Fewest items for an interval: of 5, even all alike happens by chance in over 5 % of cases."""
LEVEL = 0.95


def resample_means(values: Floats, *, bootstrap: int, seed: int) -> Floats:
    """Means of the columns of `values` (n, m) in each resample: (bootstrap, m).

    nan is a missing value. All columns see the same resamples, so that differences of columns are
    paired; a resample in which a column has no value gives nan.
    """
    known = ~np.isnan(values)
    terms = np.hstack([np.where(known, values, 0.0), known])
    sums, counts = np.split(resampled_sums(terms, bootstrap=bootstrap, seed=seed), 2, axis=1)
    with np.errstate(invalid="ignore"):
        return sums / counts


def bounds(resampled: Floats, n: npt.NDArray[Any] | int) -> tuple[Floats, Floats]:
    """Lower and upper bound of each column of `resampled` (b, m), of n items each; nan below two.

    The percentile interval is too narrow for few items: its quantiles are moved out so that a mean
    of normal items gets about the width of Student's interval (Hesterberg 2015, "expanded
    percentile interval").
    """
    n = np.broadcast_to(n, resampled.shape[1:])
    low, high = np.full(resampled.shape[1], np.nan), np.full(resampled.shape[1], np.nan)
    for column in np.flatnonzero(n > 1):
        size, values = n[column], resampled[:, column]
        values = values[~np.isnan(values)]
        if len(values):
            tail = norm.cdf(np.sqrt(size / (size - 1)) * t.ppf((1 - LEVEL) / 2, size - 1))
            low[column], high[column] = np.quantile(values, [tail, 1 - tail])
    return low, high
