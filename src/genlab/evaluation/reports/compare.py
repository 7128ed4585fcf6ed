"""Compare the metrics of two full runs: which differences exceed their intervals."""

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from genlab.core.errors import GenlabError
from genlab.core.io import read_json
from genlab.evaluation.reports.formats import format_interval, format_number, low_high

FILES = ("results/*/metrics.json", "results/agent.json", "results/benchmark.json")
BOUNDED = ("score", "difference")
"""Keys whose interval is given by `low` and `high` beside them."""
INTERVAL_KEYS = ("intervals", "interval", "low", "high")
"""Keys that hold intervals rather than metrics."""


class MetricValue(NamedTuple):
    """A metric of a run with its 95 % interval, if it has one."""

    value: float
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        bounds = f"({format_interval(self.interval)})" if self.interval else ""
        return f"{format_number(self.value)} {bounds}".strip()


def read_metrics(run: Path) -> dict[str, MetricValue]:
    """Read every number of the result files of a run, by file and dotted key.

    run: the folder of a project. From `metrics/`, which summarises the result files, only numbers
    that these lack are read. Raises GenlabError where there is no such file, or where one is
    malformed.
    """
    values: dict[str, float] = {}
    bounds: dict[str, Any] = {}
    files = sorted(path for pattern in FILES for path in run.glob(pattern))
    stems = {path.parent.name if path.name == "metrics.json" else path.stem for path in files}
    for path in files + sorted(run.glob("metrics/*.json")):
        content = read_json(path, producer_command="make repro")
        if path.parent.name == "metrics" and path.stem in stems:
            content = {"passed": content.get("passed")} if isinstance(content, dict) else {}
        _collect(content, path.relative_to(run).with_suffix("").as_posix(), values, bounds)
    if not values:
        raise GenlabError(f"{run} has no metrics in metrics/ or results/; name a full run's folder")
    try:
        return {key: MetricValue(value, _pair(bounds.get(key))) for key, value in values.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise GenlabError(
            f"{run}/results: malformed interval ({error}); run: make repro"
        ) from error


def compare_runs(first: Path, second: Path) -> pd.DataFrame:
    """Compare two runs: a row per metric with both values, their difference and the outcome.

    Outcomes: equal; within (the interval of the difference contains 0); exceeds (it does not); no
    interval; one run only.
    """
    first_metrics = read_metrics(first)
    second_metrics = read_metrics(second)
    rows = []
    for key in dict.fromkeys([*first_metrics, *second_metrics]):
        a = first_metrics.get(key)
        b = second_metrics.get(key)
        if a is None or b is None:
            rows.append((key, str(a or "–"), str(b or "–"), "–", "one run only"))
        else:
            difference = format_number(b.value - a.value)
            rows.append((key, str(a), str(b), difference, _compare(a, b)))
    return pd.DataFrame(rows, columns=["metric", "A", "B", "B − A", "outcome"])


def count_outcomes(table: pd.DataFrame) -> str:
    """Count the metrics by outcome, in one line."""
    counts = Counter(table["outcome"])
    outcomes = ", ".join(f"{outcome}: {n}" for outcome, n in counts.most_common())
    return f"{len(table)} metrics; {outcomes}"


def _compare(a: MetricValue, b: MetricValue) -> str:
    """Outcome of a comparison; the estimates count as independent (Zou and Donner, 2008)."""
    if a.value == b.value:
        return "equal"
    if not (a.interval and b.interval):
        return "no interval"
    difference = b.value - a.value
    below = math.hypot(b.value - b.interval[0], a.interval[1] - a.value)
    above = math.hypot(b.interval[1] - b.value, a.value - a.interval[0])
    return "within" if difference - below <= 0 <= difference + above else "exceeds"


def _collect(node: Any, path: str, values: dict[str, float], bounds: dict[str, Any]) -> None:
    """Add the numbers below `node` to `values`, and their intervals to `bounds`, by dotted key."""
    if isinstance(node, Mapping):
        intervals = node.get("intervals")
        if isinstance(intervals, Mapping):
            bounds.update({f"{path}.{key}": interval for key, interval in intervals.items()})
        for key, entry in node.items():
            if key in INTERVAL_KEYS or key.endswith("_interval"):
                continue
            entry_path = f"{path}.{key}"
            interval = _find_interval(node, key)
            if interval is not None:
                bounds.setdefault(entry_path, interval)
            _collect(entry, entry_path, values, bounds)
    elif isinstance(node, list):
        for index, entry in enumerate(node):
            _collect(entry, f"{path}.{index}", values, bounds)
    elif isinstance(node, bool | int | float):
        values[path] = float(node)


def _find_interval(node: Mapping[str, Any], key: str) -> Any:
    """Find the interval of an entry that stands beside it, by any of the names that files use."""
    if f"{key}_interval" in node:
        return node[f"{key}_interval"]
    if key in BOUNDED and "low" in node and "high" in node:
        return node
    # A count beside a value has no interval.
    return node.get("interval") if isinstance(node[key], float) else None


def _pair(interval: Any) -> tuple[float, float] | None:
    if interval is None:
        return None
    low, high = low_high(interval)
    return float(low), float(high)
