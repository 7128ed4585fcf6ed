"""95 % intervals: Wilson for rates, percentile bootstrap over items or groups, Student over seeds.

Bootstrapped statistics are functions of sums over items (hits, cells, nats): a matrix product of
resampling weights with the items' terms gives the sums of many resamples at once.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import binomtest, t

Floats = npt.NDArray[np.float64]
Interval = dict[str, float | int]

LEVEL = 0.95
"""Confidence level of intervals."""
CHUNK = 64
"""Resamples per matrix product; bounds the memory at CHUNK x n weights."""


def bootstrap_sums(
    terms: npt.ArrayLike, *, bootstrap: int, seed: int, groups: npt.ArrayLike | None = None
) -> Floats:
    """Sum `terms` over `bootstrap` resamples of its rows (Efron 1979).

    terms: (n, m), one row per item. groups: (n,), the group of each item; if given, whole groups
    are resampled, since items of a group are not independent. Returns (bootstrap, m). Raises
    ValueError if there are no rows.
    """
    rows = np.asarray(terms, dtype=np.float64)
    if rows.ndim != 2 or not len(rows):
        raise ValueError(f"terms must be (n, m) with n >= 1, got {rows.shape}")
    if groups is not None:
        _, group_indices = np.unique(groups, return_inverse=True)
        group_sums = np.zeros((group_indices.max() + 1, rows.shape[1]))
        np.add.at(group_sums, group_indices, rows)
        rows = group_sums
    n = len(rows)
    rng = np.random.default_rng(seed)
    sums = np.empty((bootstrap, rows.shape[1]))
    for start in range(0, bootstrap, CHUNK):
        size = min(CHUNK, bootstrap - start)
        draws = rng.integers(n, size=(size, n)) + np.arange(size)[:, None] * n
        weights = np.bincount(draws.ravel(), minlength=size * n).reshape(size, n)
        sums[start : start + size] = weights.astype(np.float64) @ rows
    return sums


def percentile_interval(resampled: npt.ArrayLike, n: int, *, level: float = LEVEL) -> Interval:
    """Percentile interval of a statistic over resamples; `n` is the number of resampled items.

    Resamples in which the statistic is undefined (nan) are left out. Raises ValueError if it is
    undefined in all of them.
    """
    values = np.asarray(resampled, dtype=np.float64)
    values = values[~np.isnan(values)]
    if not len(values):
        raise ValueError("the statistic is undefined in every resample")
    tail = (1 - level) / 2
    low, high = np.quantile(values, [tail, 1 - tail], method="inverted_cdf")
    return {"low": float(low), "high": float(high), "n": int(n)}


def percentile_intervals(resampled: Mapping[str, Floats], n: int) -> dict[str, Interval]:
    """`percentile_interval` of each statistic that is defined in at least one resample."""
    return {
        name: percentile_interval(values, n)
        for name, values in resampled.items()
        if not np.isnan(values).all()
    }


def wilson_interval(successes: int, n: int) -> Interval:
    """Wilson's score interval (1927) of a rate over independent items.

    Unlike the bootstrap's, it does not shrink to a point at rates of 0 and 1.
    """
    interval = binomtest(int(successes), int(n)).proportion_ci(LEVEL, method="wilson")
    return {"low": float(interval.low), "high": float(interval.high), "n": int(n)}


def mean_metrics(columns: Mapping[str, Floats], *, bootstrap: int, seed: int) -> dict[str, Any]:
    """Mean of each column of shape (n,), with `n` and the bootstrap `intervals` by name."""
    rows = np.stack(list(columns.values()), axis=1).astype(np.float64)
    n = len(rows)
    means = rows.mean(axis=0).tolist()
    resampled = bootstrap_sums(rows, bootstrap=bootstrap, seed=seed).T / n
    intervals = percentile_intervals(dict(zip(columns, resampled, strict=True)), n)
    return {**dict(zip(columns, means, strict=True)), "n": n, "intervals": intervals}


def student_interval(values: npt.ArrayLike) -> Interval:
    """Student's t interval (1908) of a mean over seeds. values: (n,), n >= 2."""
    column = np.asarray(values, dtype=np.float64)
    mean = column.mean()
    quantile = t.ppf((1 + LEVEL) / 2, len(column) - 1)
    half_width = quantile * column.std(ddof=1) / np.sqrt(len(column))
    return {"low": float(mean - half_width), "high": float(mean + half_width), "n": len(column)}


def scale_interval(interval: Interval, factor: float) -> Interval:
    """Convert an interval to a unit in which values are `factor` > 0 times as large."""
    return {
        "low": interval["low"] * factor,
        "high": interval["high"] * factor,
        "n": int(interval["n"]),
    }


def ratio_interval(
    numerator: float,
    numerator_interval: Interval,
    denominator: float,
    denominator_interval: Interval,
) -> Interval:
    """Interval of a ratio of positive values that are assumed independent.

    Delta method on the logarithm, where the squares of relative errors add up. `n` is the
    numerator's.
    """
    relative_errors = (
        _relative_error(numerator, numerator_interval),
        _relative_error(denominator, denominator_interval),
    )
    ratio = numerator / denominator
    factor = math.exp(math.hypot(*relative_errors))
    return {"low": ratio / factor, "high": ratio * factor, "n": int(numerator_interval["n"])}


def _relative_error(value: float, interval: Interval) -> float:
    return (interval["high"] - interval["low"]) / 2 / value
