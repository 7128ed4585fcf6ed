"""Compare two full runs: every metric with its interval, and the differences that exceed it."""

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
"""What `low` and `high` beside it are the interval of."""


class MetricEstimate(NamedTuple):
    """A number of a run, and its 95 % interval where the run has one."""

    value: float
    interval: tuple[float, float] | None = None

    def __str__(self) -> str:
        bounds = f"({format_interval(self.interval)})" if self.interval else ""
        return f"{format_number(self.value)} {bounds}".strip()


def read_metrics(run: Path) -> dict[str, MetricEstimate]:
    """Every number in the result files of the folder `run`, by file and dotted key.

    Of `metrics/`, which sums those files up, what they lack. Raises a GenlabError where there is no
    such file, or where one of them is malformed.
    """
    values: dict[str, float] = {}
    bounds: dict[str, Any] = {}
    files = sorted(path for pattern in FILES for path in run.glob(pattern))
    stems = {path.parent.name if path.name == "metrics.json" else path.stem for path in files}
    for path in files + sorted(run.glob("metrics/*.json")):
        found = read_json(path, producer_command="make repro")
        if path.parent.name == "metrics" and path.stem in stems:
            found = {"passed": found.get("passed")} if isinstance(found, dict) else {}
        _collect(found, path.relative_to(run).with_suffix("").as_posix(), values, bounds)
    if not values:
        raise GenlabError(f"{run} has no metrics in metrics/ or results/; name a full run's folder")
    try:
        return {key: MetricEstimate(value, _pair(bounds.get(key))) for key, value in values.items()}
    except (KeyError, TypeError, ValueError) as error:
        raise GenlabError(
            f"{run}/results: malformed interval ({error}); run: make repro"
        ) from error


def compare_runs(first: Path, second: Path) -> pd.DataFrame:
    """One row per metric: both runs' values and intervals, their difference, and the outcome.

    The interval of a difference is that of independent estimates (Zou and Donner, 2008). Outcomes:
    equal, within (the interval holds 0), exceeds (it does not), no interval, one run only.
    """
    runs = read_metrics(first), read_metrics(second)
    rows = []
    for key in dict.fromkeys([*runs[0], *runs[1]]):
        a, b = (run.get(key) for run in runs)
        if a is None or b is None:
            rows.append((key, str(a or "–"), str(b or "–"), "–", "one run only"))
            continue
        difference, outcome = b.value - a.value, "equal" if a.value == b.value else "no interval"
        if a.interval and b.interval and a.value != b.value:
            down = math.hypot(b.value - b.interval[0], a.interval[1] - a.value)
            up = math.hypot(b.interval[1] - b.value, a.value - a.interval[0])
            outcome = "within" if difference - down <= 0 <= difference + up else "exceeds"
        rows.append((key, str(a), str(b), format_number(difference), outcome))
    return pd.DataFrame(rows, columns=["metric", "A", "B", "B − A", "outcome"])


def count_outcomes(table: pd.DataFrame) -> str:
    """The number of metrics by outcome, in one line."""
    counts = Counter(table["outcome"])
    parts = ", ".join(f"{outcome}: {n}" for outcome, n in counts.most_common())
    return f"{len(table)} metrics; {parts}"


def _collect(node: Any, path: str, values: dict[str, float], bounds: dict[str, Any]) -> None:
    """Add the numbers below `node` to `values`, and their intervals to `bounds`, by dotted key."""
    if isinstance(node, Mapping):
        own = node.get("intervals")
        bounds |= {f"{path}.{k}": v for k, v in own.items()} if isinstance(own, Mapping) else {}
        for key, entry in node.items():
            place = f"{path}.{key}"
            # A count beside a value has no interval.
            shared = node.get("interval") if isinstance(entry, float) else None
            if key in BOUNDED and "low" in node and "high" in node:
                shared = node
            if key in ("intervals", "interval", "low", "high") or key.endswith("_interval"):
                continue
            if (interval := node.get(f"{key}_interval", shared)) is not None:
                bounds.setdefault(place, interval)
            _collect(entry, place, values, bounds)
    elif isinstance(node, list):
        for index, entry in enumerate(node):
            _collect(entry, f"{path}.{index}", values, bounds)
    elif isinstance(node, bool | int | float):
        values[path] = float(node)


def _pair(interval: Any) -> tuple[float, float] | None:
    if interval is None:
        return None
    low, high = low_high(interval)
    return float(low), float(high)
