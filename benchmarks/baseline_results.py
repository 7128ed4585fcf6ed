"""The comparison with baselines as numbers: means over seeds, ratios, and what judges agree on.

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
    mean, sd = table.mean(skipna=False), table.std(ddof=1, skipna=False)
    return {
        **{key: runs[0][key] for key in ("contender", *Settings.TUNED)},
        "chosen_for": list(chosen_for),
        "seeds": [run["seed"] for run in runs],
        "samplers": [run["best_sampler"] for run in runs],
        "mean": {key: float(mean[key]) for key in REPORTED},
        "sd": {key: None if math.isnan(sd[key]) else float(sd[key]) for key in REPORTED},
        "runs": list(runs),
    }


def ratio(one: Sequence[float], other: Sequence[float]) -> tuple[float, Bounds | None]:
    """Ratio of means with its 95 % interval: Welch's for the difference of the logarithms.

    The variances of the logarithms are those of the means over their squares (delta method).
    """
    value = float(np.mean(one) / np.mean(other))
    _, bounds = difference(np.asarray(one) / np.mean(one), np.asarray(other) / np.mean(other))
    return value, bounds and (value * math.exp(bounds[0]), value * math.exp(bounds[1]))


def difference(one: npt.ArrayLike, other: npt.ArrayLike) -> tuple[float, Bounds | None]:
    """Difference of means with its 95 % interval (Welch 1947); none for a single seed."""
    one, other = np.asarray(one), np.asarray(other)
    value = float(one.mean() - other.mean())
    if min(len(one), len(other)) < 2 or not one.std() + other.std():
        return value, None
    interval = stats.ttest_ind(one, other, equal_var=False).confidence_interval()
    return value, (float(interval.low), float(interval.high))


def best(rows: Sequence[Row], name: str) -> Row:
    """The row with the lowest mean of `name`."""
    return min(rows, key=lambda row: float(row["mean"][name]))


def best_of_each(rows: Sequence[Row]) -> list[Row]:
    """The setting of each contender with the lowest Fréchet distance on the validation split."""
    names = dict.fromkeys(row["contender"] for row in rows)
    return [best([r for r in rows if r["contender"] == n], "validation_frechet") for n in names]


def leads(row: Row, rows: Sequence[Row]) -> bool:
    """Whether a row is compared over all seeds: ours, and the best baselines by either number."""
    if row["contender"] == OURS:
        return True
    baselines = [each for each in rows if each["contender"] != OURS]
    numbers = ("validation_frechet", "validation_bits_per_dim")
    return any(row is best(baselines, name) for name in numbers)


def require_same_judges(rows: Sequence[Row]) -> None:
    """Raise a `GenlabError` where rows that are compared were judged by different classifiers."""
    for row in rows[1:]:
        if row["judges"] != rows[0]["judges"]:
            one, other = (f"{each['contender']} (seed {each['seed']})" for each in (rows[0], row))
            raise GenlabError(
                f"{one} and {other} were judged by classifiers of two machines; remove the rows of"
                " one from results/baselines and measure them again"
            )


def compare(rows: Sequence[Row]) -> Iterator[Result]:
    """Ours against the best baselines, of the rows with all seeds; nothing without one of the two.

    The others have the first seed alone: a mean of one is no match for a mean of several. The
    judges' orders are of the first seed.
    """
    seeds = max((len(row["seeds"]) for row in rows), default=0)
    every, rows = rows, [row for row in rows if len(row["seeds"]) == seeds]
    ours = [row for row in rows if row["contender"] == OURS]
    baselines = [row for row in rows if row["contender"] != OURS]
    if not ours or not baselines:
        return

    def values(row: Row, name: str) -> list[float]:
        return [float(run[name]) for run in row["runs"]]

    def result(key: str, baseline: Row, found: tuple[float, Bounds | None]) -> Result:
        named = {name: baseline[name] for name in ("contender", *Settings.TUNED)}
        seeds = baseline["seeds"]
        return Result(key, *found, len(seeds), seeds, details={"baseline": named})

    mine, near = ours[0], best(baselines, "validation_frechet")
    name = "frechet_distance"
    found = ratio(values(mine, name), values(near, name))
    yield result("images.frechet_over_baseline", near, found)
    short, name = best(baselines, "validation_bits_per_dim"), "bits_per_dim"
    found = difference(values(short, name), values(mine, name))
    yield result("images.bpd_below_baseline", short, found)
    name = "discriminator_accuracy"
    accuracy = Result.mean("images.discriminator_accuracy", values(mine, name), mine["seeds"])
    yield replace(accuracy, details={"baseline": near["mean"][name]})
    found = difference(values(near, name), values(mine, name))
    yield result("images.discriminator_below_baseline", near, found)
    yield agreement(best_of_each(every))


def agreement(rows: Sequence[Row]) -> Result:
    """Whether all judges name the same winner, with their orders and Kendall's tau to the first.

    Of each contender's first seed, which all have.
    """
    scores = {judge: [row["runs"][0][judge] for row in rows] for judge in JUDGES}
    orders = {
        judge: [str(rows[at]["contender"]) for at in np.argsort(found, kind="stable")]
        for judge, found in scores.items()
    }
    tau = {j: float(stats.kendalltau(scores[JUDGES[0]], scores[j]).statistic) for j in JUDGES[1:]}
    same = len({order[0] for order in orders.values()}) == 1
    seeds = rows[0]["seeds"][:1]
    details = {"orders": orders, "kendall_tau": tau}
    return Result("images.judges_agree", float(same), None, len(JUDGES), seeds, details=details)
