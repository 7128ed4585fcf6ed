"""Why items fail: hypotheses about measured attributes, each tested over the whole test split."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.stats import Floats, percentile_interval, resampled_sums

Column = npt.NDArray[Any]
Flags = npt.NDArray[np.bool_]
Test = dict[str, Any]

MIN_ITEMS = 20
"""Items that must stand on each side of a comparison, in a stratum and in all."""
VERDICTS = ("supported", "undecided", "refuted", "untestable")


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A claim that the flagged items fail more. flags: (n,), of all items.

    Items are compared within strata, unless the claim is about the stratum.
    """

    name: str
    sentence: str
    flags: Flags
    within_stratum: bool = True


def compare(
    errors: npt.ArrayLike,
    strata: Column,
    hypotheses: Sequence[Hypothesis],
    *,
    bootstrap: int,
    seed: int,
    level: float = 0.95,
) -> list[Test]:
    """Compare the mean error with and without each attribute, over all items.

    errors: (n,), finite and not negative. strata: (n,), items are compared at equal values of it.
    For each hypothesis: `n_with`, `n_without`, `error_with`, `error_without`; `ratio` of the errors
    after direct standardisation to the same strata, with its bootstrap interval `low`, `high`; and
    the `verdict` of the interval: supported (all above 1), refuted (all below 1), undecided (it
    holds 1) or untestable (fewer than MIN_ITEMS items on one side, or no error at all).

    The intervals hold jointly at `level`: each is taken at 1 - (1 - level) / m for m hypotheses
    (Bonferroni), so that thirty looks at the same data do not make a finding. What is undefined or
    infinite is None.
    """
    values = np.asarray(errors, dtype=np.float64)
    members = [_find_strata(strata, each) for each in hypotheses]
    terms = [_terms(values, each.flags, s) for each, s in zip(hypotheses, members, strict=True)]
    sums = resampled_sums(np.hstack(terms), bootstrap=bootstrap, seed=seed)
    resampled = np.split(sums, np.cumsum([part.shape[1] for part in terms])[:-1], axis=1)
    tests = []
    for each, layers, part, draws in zip(hypotheses, members, terms, resampled, strict=True):
        sides = values[each.flags], values[~each.flags]
        means = [float(side.mean()) if len(side) else None for side in sides]
        ratio, interval, verdict = np.nan, {"low": np.nan, "high": np.nan}, "untestable"
        if len(layers) and values.any():
            ratio = _standardise(part.sum(axis=0, keepdims=True), layers)[0]
            each_level = 1 - (1 - level) / len(hypotheses)
            interval = percentile_interval(
                _standardise(draws, layers), len(values), level=each_level
            )
            low, high = interval["low"], interval["high"]
            verdict = "supported" if low > 1 else "refuted" if high < 1 else "undecided"
        numbers = {"ratio": ratio, "low": interval["low"], "high": interval["high"]}
        tests.append(
            {
                "name": each.name,
                "sentence": each.sentence,
                "n_with": len(sides[0]),
                "n_without": len(sides[1]),
                "error_with": means[0],
                "error_without": means[1],
                **{key: float(x) if np.isfinite(x) else None for key, x in numbers.items()},
                "verdict": verdict,
            }
        )
    return tests


def explain(index: int, hypotheses: Sequence[Hypothesis], tests: Sequence[Test]) -> list[Test]:
    """The tests that may explain the failure of item `index`, the best first; [] where none does.

    tests: of the `hypotheses`, in their order. Of those whose attribute the item has: the
    supported ones, the highest interval first; without one, the undecided one of the greatest
    ratio.
    """
    has = [test for each, test in zip(hypotheses, tests, strict=True) if each.flags[index]]
    supported = [test for test in ranked(has) if test["verdict"] == "supported"]
    undecided = [test for test in ranked(has) if test["verdict"] == "undecided"]
    return supported or sorted(undecided, key=lambda test: -(test["ratio"] or 0))[:1]


def ranked(tests: Sequence[Test]) -> list[Test]:
    """Tests by verdict, the supported first, then by how high the interval lies."""

    def key(test: Test) -> tuple[int, float]:
        low = np.inf if test["low"] is None else test["low"]
        return VERDICTS.index(test["verdict"]), -low

    return sorted(tests, key=key)


def _find_strata(strata: Column, hypothesis: Hypothesis) -> Flags:
    """Members of each stratum that has enough items on both sides, (s, n)."""
    keys = strata if hypothesis.within_stratum else np.zeros_like(strata)
    members, flags = np.stack([keys == key for key in np.unique(keys)]), hypothesis.flags
    sides = np.minimum((members & flags).sum(axis=1), (members & ~flags).sum(axis=1))
    filled: Flags = members[sides >= MIN_ITEMS]
    return filled


def _terms(errors: Floats, flags: Flags, strata: Flags) -> Floats:
    """Sums to resample, (n, 4 s): items and errors, with the attribute and without."""
    with_it, without = strata & flags, strata & ~flags
    parts = [with_it, with_it * errors, without, without * errors]
    return np.concatenate(parts, axis=0).T.astype(np.float64)


def _standardise(sums: Floats, strata: Flags) -> Floats:
    """Standardised error with over without, (b, 4 s) to (b,); inf where without is 0."""
    n_with, with_it, n_without, without = np.split(sums, 4, axis=1)
    weights = strata.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Floats = (weights * with_it / n_with).sum(axis=1) / (
            weights * without / n_without
        ).sum(axis=1)
    return ratio
