"""Estimate a metric over trainings and items from the results of several seeds."""

import math
import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

from scipy.special import stdtrit

LEVEL = 0.95


class MetricEstimate(NamedTuple):
    """Mean of a metric over trainings and items, with its uncertainty.

    error: standard error of the mean, over seeds and over items. freedom: its degrees of freedom.
    trainings: number of seeds.
    """

    mean: float
    error: float
    freedom: float
    trainings: int

    def margin(self, probability: float) -> float:
        """Distance from the mean to the quantile of Student's t at a probability."""
        return float(stdtrit(self.freedom, probability)) * self.error

    @property
    def interval(self) -> list[float]:
        """The two-sided 95 % interval of the mean: low, high."""
        margin = self.margin((1 + LEVEL) / 2)
        return [self.mean - margin, self.mean + margin]


def estimate(results: Sequence[dict[str, Any]], metric: str) -> MetricEstimate | None:
    """Estimate the expected metric of a new training on new items; None without a value.

    results: `metrics` and `errors` of each seed, as a SeedResult has them. All seeds are measured
    on the same items, so that the error over items does not shrink with the number of seeds. The
    degrees of freedom of the sum of both variances follow Satterthwaite (1946). A single seed has
    the error over items alone; results of older versions have no `errors`.
    """
    usable = [result for result in results if _is_number(result["metrics"].get(metric))]
    if not usable:
        return None
    values = [result["metrics"][metric] for result in usable]
    count = len(values)
    errors = [result.get("errors", {}).get(metric, 0.0) for result in usable]
    over_seeds = statistics.variance(values) / count if count > 1 else 0.0
    over_items = statistics.fmean(error**2 for error in errors)
    variance = over_seeds + over_items
    freedom = 1.0
    if variance > 0:
        items = max(2, int(usable[0]["metrics"].get("n", 2)))
        denominator = over_items**2 / (items - 1)
        if count > 1:
            denominator += over_seeds**2 / (count - 1)
        freedom = variance**2 / denominator
    return MetricEstimate(statistics.fmean(values), math.sqrt(variance), freedom, count)


def summarise(results: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Summarise every metric over seeds: NAME, NAME_error and NAME_interval; and `trainings`."""
    summary: dict[str, Any] = {"trainings": len(results)}
    for name in results[0]["metrics"]:
        if name == "n":
            summary[name] = results[0]["metrics"][name]
            continue
        over_seeds = estimate(results, name)
        if over_seeds is not None:
            summary[name] = over_seeds.mean
            summary[f"{name}_error"] = over_seeds.error
            summary[f"{name}_interval"] = over_seeds.interval
    return summary


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)
