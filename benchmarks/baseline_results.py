"""Statistics of the comparison with baselines: means over seeds, ratios, and agreement of judges.

A run is a row of metrics by name; a contender's row summarises its runs with one setting.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from benchmarks.baseline_runs import OURS, Settings
from benchmarks.harness import Bounds, Result
from genlab.core.errors import GenlabError

Row = dict[str, Any]

JUDGES = ("frechet_distance", "frechet_1", "frechet_2", "kid", "discriminator_accuracy")
REPORTED = (
    *JUDGES, "relative_frechet", "bits_per_dim", "ssim", "psnr", "validation_frechet",
    "validation_bits_per_dim", "cpu_seconds", "sampler_seconds", "images_seen",
)  # fmt: skip


def summarize(runs: Sequence[Row], chosen_for: Sequence[str]) -> Row:
    """Mean and standard deviation over seeds of a contender's runs with one setting.

    None for the deviation of a single seed.
    """
    table = pd.DataFrame(runs)[list(REPORTED)].astype(float)
    mean = table.mean(skipna=False)
    sd = table.std(ddof=1, skipna=False)
    return {
        **{key: runs[0][key] for key in ("contender", *Settings.TUNED)},
        "chosen_for": list(chosen_for),
        "seeds": [run["seed"] for run in runs],
        "samplers": [run["best_sampler"] for run in runs],
        "mean": {key: float(mean[key]) for key in REPORTED},
        "sd": {key: None if math.isnan(sd[key]) else float(sd[key]) for key in REPORTED},
        "runs": list(runs),
    }


def ratio(
    numerators: Sequence[float], denominators: Sequence[float]
) -> tuple[float, Bounds | None]:
    """Ratio of means with its 95 % interval: Welch's for the difference of the logarithms.

    The variances of the logarithms are those of the means over their squares (delta method).
    """
    value = float(np.mean(numerators) / np.mean(denominators))
    _, bounds = difference(
        np.asarray(numerators) / np.mean(numerators),
        np.asarray(denominators) / np.mean(denominators),
    )
    return value, bounds and (value * math.exp(bounds[0]), value * math.exp(bounds[1]))


def difference(first: npt.ArrayLike, second: npt.ArrayLike) -> tuple[float, Bounds | None]:
    """Difference of means with its 95 % interval (Welch 1947); none for a single seed."""
    a = np.asarray(first)
    b = np.asarray(second)
    value = float(a.mean() - b.mean())
    if min(len(a), len(b)) < 2 or not a.std() + b.std():
        return value, None
    interval = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    return value, (float(interval.low), float(interval.high))


def best(rows: Sequence[Row], name: str) -> Row:
    """Return the row with the lowest mean of `name`."""
    return min(rows, key=lambda row: float(row["mean"][name]))


def best_of_each(rows: Sequence[Row]) -> list[Row]:
    """Return each contender's row with the lowest Fréchet distance on the validation split."""
    by_contender: dict[str, list[Row]] = {}
    for row in rows:
        by_contender.setdefault(row["contender"], []).append(row)
    return [best(group, "validation_frechet") for group in by_contender.values()]


def leads(row: Row, rows: Sequence[Row]) -> bool:
    """Whether a row is compared over all seeds: ours, and the best baselines by either number."""
    if row["contender"] == OURS:
        return True
    baselines = [candidate for candidate in rows if candidate["contender"] != OURS]
    numbers = ("validation_frechet", "validation_bits_per_dim")
    return any(row is best(baselines, name) for name in numbers)


def require_same_judges(rows: Sequence[Row]) -> None:
    """Raise a `GenlabError` where rows that are compared were judged by different classifiers."""
    for row in rows[1:]:
        if row["judges"] != rows[0]["judges"]:
            runs = [f"{run['contender']} (seed {run['seed']})" for run in (rows[0], row)]
            raise GenlabError(
                f"{runs[0]} and {runs[1]} were judged by classifiers of two machines; remove the"
                " rows of one from results/baselines and measure them again"
            )


def compare(rows: Sequence[Row]) -> Iterator[Result]:
    """Compare our model with the best baselines, among rows with all seeds; empty without either.

    Rows with the first seed alone are left out, since their means cannot be compared with means of
    several. The judges' orders are those of the first seed.
    """
    seeds = max((len(row["seeds"]) for row in rows), default=0)
    complete = [row for row in rows if len(row["seeds"]) == seeds]
    ours = [row for row in complete if row["contender"] == OURS]
    baselines = [row for row in complete if row["contender"] != OURS]
    if not ours or not baselines:
        return

    def values(row: Row, name: str) -> list[float]:
        return [float(run[name]) for run in row["runs"]]

    def result(key: str, baseline: Row, estimate: tuple[float, Bounds | None]) -> Result:
        settings = {name: baseline[name] for name in ("contender", *Settings.TUNED)}
        seeds = baseline["seeds"]
        return Result(key, *estimate, len(seeds), seeds, details={"baseline": settings})

    model = ours[0]
    by_frechet = best(baselines, "validation_frechet")
    by_bits = best(baselines, "validation_bits_per_dim")
    name = "frechet_distance"
    estimate = ratio(values(model, name), values(by_frechet, name))
    yield result("images.frechet_over_baseline", by_frechet, estimate)
    name = "bits_per_dim"
    estimate = difference(values(by_bits, name), values(model, name))
    yield result("images.bpd_below_baseline", by_bits, estimate)
    name = "discriminator_accuracy"
    accuracy = Result.mean("images.discriminator_accuracy", values(model, name), model["seeds"])
    yield replace(accuracy, details={"baseline": by_frechet["mean"][name]})
    estimate = difference(values(by_frechet, name), values(model, name))
    yield result("images.discriminator_below_baseline", by_frechet, estimate)
    yield agreement(best_of_each(rows))


def agreement(rows: Sequence[Row]) -> Result:
    """Whether all judges name the same winner, with their orders and Kendall's tau to the first.

    Of each contender's first seed, which all have.
    """
    scores = {judge: [row["runs"][0][judge] for row in rows] for judge in JUDGES}
    orders = {}
    for judge, values in scores.items():
        order = np.argsort(values, kind="stable")
        orders[judge] = [str(rows[index]["contender"]) for index in order]
    tau = {j: float(stats.kendalltau(scores[JUDGES[0]], scores[j]).statistic) for j in JUDGES[1:]}
    same = len({order[0] for order in orders.values()}) == 1
    seeds = rows[0]["seeds"][:1]
    details = {"orders": orders, "kendall_tau": tau}
    return Result("images.judges_agree", float(same), None, len(JUDGES), seeds, details=details)
