"""A number and its 95 % interval: of a share, of a mean, of a median."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genlab.core.stats import Interval, share_interval, student_interval

Bounds = tuple[float, float]

RESAMPLES = 2000


def share(hits: int, n: int) -> tuple[float, Bounds]:
    """A share and Wilson's interval of it."""
    return hits / n, _bounds(share_interval(hits, n))


def mean(values: Sequence[float]) -> tuple[float, Bounds | None]:
    """The mean and Student's interval of it; None of fewer than two, or without any spread."""
    middle = float(np.mean(values))
    if len(values) < 2 or not np.std(values):
        return middle, None
    return middle, _bounds(student_interval(values))


def median(values: Sequence[float], seed: int = 0) -> tuple[float, Bounds | None]:
    """The median and its bootstrap interval; None of fewer than three."""
    middle = float(np.median(values))
    if len(values) < 3:
        return middle, None
    resampled = np.random.default_rng(seed).choice(values, (RESAMPLES, len(values)))
    low, high = np.quantile(np.median(resampled, axis=1), (0.025, 0.975))
    return middle, (float(low), float(high))


def shown(bounds: Bounds | None, style: str = ".3g") -> str:
    """An interval in words."""
    return f"{bounds[0]:{style}} to {bounds[1]:{style}}" if bounds else "no interval"


def _bounds(interval: Interval) -> Bounds:
    return float(interval["low"]), float(interval["high"])
