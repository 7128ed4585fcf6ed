"""Statistics of the comparison with baselines: means over seeds and ratios of them.

A run is a row of metrics by name; a contender's row summarises its runs with one setting.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import stats

from benchmarks.baseline_settings import LIBRARIES, OURS
from benchmarks.harness import Bounds, Result
from genlab.core.errors import GenlabError

Row = dict[str, Any]

REPORTED = (
    "relative_frechet", "frechet_distance", "bits_per_dim", "ssim", "validation_frechet",
    "validation_bits_per_dim", "cpu_seconds", "sampler_seconds", "images_seen",
)  # fmt: skip


def summarize(runs: Sequence[Row]) -> Row:
    """Mean and standard deviation over seeds of a contender's runs with one setting.

    None for what the contender lacks, and for the deviation of a single seed.
    """
    table = pd.DataFrame(runs)[list(REPORTED)].astype(float)
    mean = table.mean(skipna=False)
    sd = table.std(ddof=1, skipna=False)
    return {
        **{key: runs[0][key] for key in ("contender", "options")},
        "seeds": [run["seed"] for run in runs],
        "samplers": [run["best_sampler"] for run in runs],
        "mean": {key: _finite(mean[key]) for key in REPORTED},
        "sd": {key: _finite(sd[key]) for key in REPORTED},
        "runs": list(runs),
    }


def _finite(value: float) -> float | None:
    return None if math.isnan(value) else float(value)


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


def require_same_judge(rows: Sequence[Row]) -> None:
    """Raise a `GenlabError` where rows that are compared were judged by different classifiers."""
    for row in rows[1:]:
        if row["judge"] != rows[0]["judge"]:
            runs = [f"{run['contender']} (seed {run['seed']})" for run in (rows[0], row)]
            raise GenlabError(
                f"{runs[0]} and {runs[1]} were judged by classifiers of two machines; remove the"
                " rows of one from results/baselines and measure them again"
            )


def compare(rows: Sequence[Row]) -> Iterator[Result]:
    """Compare our relative Fréchet distance with that of the best library; empty without either.

    The best one has the lowest distance on validation.
    """
    by_name = {row["contender"]: row for row in rows}
    libraries = [by_name[name] for name in LIBRARIES if name in by_name]
    if OURS not in by_name or not libraries:
        return
    ours = by_name[OURS]
    best = min(libraries, key=lambda row: float(row["mean"]["validation_frechet"]))
    details = {"baseline": best["contender"], "options": best["options"]}
    seeds = ours["seeds"]
    estimate = _ratio_of_distances(ours, best)
    yield Result("images.frechet_over_baseline", *estimate, len(seeds), seeds, details=details)


def latent_gain(rows: Sequence[Row]) -> Iterator[Result]:
    """What z buys: relative Fréchet distance of the causal head without z over ours."""
    by_name = {row["contender"]: row for row in rows}
    if not by_name.keys() >= {OURS, "no-latents"}:
        return
    ours = by_name[OURS]
    seeds = ours["seeds"]
    details = {"trainings": len(seeds)}
    estimate = _ratio_of_distances(by_name["no-latents"], ours)
    yield Result("images.latent_gain", *estimate, len(seeds), seeds, details=details)


def _ratio_of_distances(numerator: Row, denominator: Row) -> tuple[float, Bounds | None]:
    """Ratio of the mean relative Fréchet distances of two contenders, with its interval."""
    distances = [
        [float(run["relative_frechet"]) for run in row["runs"]] for row in (numerator, denominator)
    ]
    return ratio(*distances)
