"""Estimates of the leaderboard and their 95 % intervals, bootstrapped over items."""

from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel
from scipy.stats import norm, t

from genlab.core.stats import Floats, bootstrap_sums

LEAST = 6
"""Fewest items for an interval: 5 items agree by chance in over 5 % of cases."""
LEVEL = 0.95


class Estimate(BaseModel):
    """A statistic with its 95 % interval and sample size, or `why` there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int
    why: str = ""


def resample_means(values: Floats, *, bootstrap: int, seed: int) -> Floats:
    """Return the means of the columns of `values` (n, m) in each resample: (bootstrap, m).

    nan is a missing value. All columns share the resamples, so that differences of columns are
    paired; the mean is nan in a resample in which a column has no value.
    """
    present = ~np.isnan(values)
    terms = np.hstack([np.where(present, values, 0.0), present])
    sums, counts = np.split(bootstrap_sums(terms, bootstrap=bootstrap, seed=seed), 2, axis=1)
    with np.errstate(invalid="ignore"):
        return sums / counts


def confidence_bounds(resampled: Floats, n: npt.NDArray[Any] | int) -> tuple[Floats, Floats]:
    """Return the expanded percentile interval of each column: two arrays (m,), nan where n < 2.

    resampled: (b, m), a statistic in each resample; n: number of items. The percentile interval is
    too narrow for few items: its quantiles are moved outwards so that the interval of a mean of
    normal items is about as wide as Student's (Hesterberg 2015, "expanded percentile interval").
    """
    n = np.broadcast_to(n, resampled.shape[1:])
    low, high = np.full((2, resampled.shape[1]), np.nan)
    for column in np.flatnonzero(n > 1):
        size = n[column]
        values = resampled[:, column]
        values = values[~np.isnan(values)]
        if len(values):
            tail = norm.cdf(np.sqrt(size / (size - 1)) * t.ppf((1 - LEVEL) / 2, size - 1))
            low[column], high[column] = np.quantile(values, [tail, 1 - tail])
    return low, high
