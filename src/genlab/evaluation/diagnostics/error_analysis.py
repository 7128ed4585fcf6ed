"""Why items fail: hypotheses about measured attributes, each tested over the whole test split."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.stats import Floats, resampled_sums

Column = npt.NDArray[Any]
Attributes = Mapping[str, Column]
Flags = npt.NDArray[np.bool_]
Test = dict[str, Any]

MIN_ITEMS = 20
"""Items that must stand on each side of a comparison, in a stratum and in all."""
VERDICTS = ("supported", "undecided", "refuted", "untestable")


@dataclass(frozen=True)
class Hypothesis:
    """A claim that items with an attribute fail more.

    holds: from the attributes of all items to flags (n,). Items are compared within strata, unless
    the claim is about the stratum.
    """

    name: str
    sentence: str
    holds: Callable[[Attributes], Flags]
    within_stratum: bool = True


@dataclass(frozen=True)
class Stratum:
    """What items are compared at equal values of: an attribute, and the name of the ratio."""

    attribute: str
    ratio: str


SAME_COUNT = Stratum("object_count", "ratio_same_count")
"""More objects mean more of everything: grids are compared at an equal number of them."""
SAME_CLASS = Stratum("class", "ratio_same_class")
"""Classes differ in everything: images are compared within theirs."""


def compare(
    errors: npt.ArrayLike,
    attributes: Attributes,
    hypotheses: Sequence[Hypothesis],
    stratum: Stratum,
    *,
    error_name: str,
    bootstrap: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Test]:
    """Compare the mean error with and without each attribute, over all items.

    errors: (n,), finite and not negative. For each hypothesis: `n_with`, `n_without`, `error_with`,
    `error_without`, `ratio` of the two as they are; `stratum.ratio`, the ratio after direct
    standardisation to the same strata, with its bootstrap interval `low`, `high`; and the `verdict`
    of the interval: supported (all above 1), refuted (all below 1), undecided (it holds 1) or
    untestable (fewer than MIN_ITEMS items on one side, or no error at all).

    The intervals hold jointly at `level`: each is taken at 1 - (1 - level) / m for m hypotheses
    (Bonferroni), so that thirty looks at the same data do not make a finding. Where a bound is
    infinite it is None.
    """
    values = np.asarray(errors, dtype=np.float64)
    keys = np.asarray(attributes[stratum.attribute])
    flags = [np.asarray(each.holds(attributes), dtype=np.bool_) for each in hypotheses]
    strata = [
        _strata(keys if each.within_stratum else np.zeros_like(keys), held)
        for each, held in zip(hypotheses, flags, strict=True)
    ]
    terms = [_terms(values, *pair) for pair in zip(flags, strata, strict=True)]
    sums = resampled_sums(np.hstack(terms), bootstrap=bootstrap, seed=seed)
    resampled = np.split(sums, np.cumsum([part.shape[1] for part in terms])[:-1], axis=1)
    each_level = 1 - (1 - level) / len(hypotheses)
    tail = (1 - each_level) / 2
    tests = []
    for each, held, layers, part, draws in zip(
        hypotheses, flags, strata, terms, resampled, strict=True
    ):
        test: Test = {"name": each.name, "sentence": each.sentence, "error": error_name}
        test |= _means(values, held) | {"level": each_level, "verdict": "untestable"}
        test |= dict.fromkeys((stratum.ratio, "low", "high"))
        if len(layers) and values.any():
            ratios = _standardised(draws, layers)
            ratios = ratios[~np.isnan(ratios)]
            low, high = np.quantile(ratios, [tail, 1 - tail], method="inverted_cdf")
            found = (_standardised(part.sum(axis=0, keepdims=True), layers)[0], low, high)
            for key, value in zip((stratum.ratio, "low", "high"), found, strict=True):
                test[key] = float(value) if np.isfinite(value) else None
            test["verdict"] = "supported" if low > 1 else "refuted" if high < 1 else "undecided"
        tests.append(test)
    return tests


def _means(errors: Floats, flags: Flags) -> Test:
    """Mean errors with and without an attribute, and their ratio; None where undefined."""
    sides = errors[flags], errors[~flags]
    with_it, without = (float(side.mean()) if len(side) else None for side in sides)
    return {
        "n_with": len(sides[0]),
        "n_without": len(sides[1]),
        "error_with": with_it,
        "error_without": without,
        "ratio": with_it / without if with_it is not None and without else None,
    }


def explain(
    index: int, attributes: Attributes, tests: Sequence[Test], hypotheses: Sequence[Hypothesis]
) -> list[Test]:
    """The tests that may explain the failure of item `index`, the best first; [] where none does.

    Of the hypotheses whose attribute the item has, those that are supported, the highest interval
    first; without one, the undecided one of the greatest standardised ratio.
    """
    holds = {each.name: each.holds for each in hypotheses}
    has = [test for test in ranked(tests) if holds[test["name"]](attributes)[index]]
    supported = [test for test in has if test["verdict"] == "supported"]
    undecided = [test for test in has if test["verdict"] == "undecided"]
    return supported or sorted(undecided, key=lambda test: -standardised_ratio(test))[:1]


def ranked(tests: Sequence[Test]) -> list[Test]:
    """Tests by verdict, the supported first, then by how high the interval lies."""

    def key(test: Test) -> tuple[int, float]:
        low = np.inf if test["low"] is None else test["low"]
        return VERDICTS.index(test["verdict"]), -low

    return sorted(tests, key=key)


def standardised_ratio(test: Mapping[str, Any]) -> float:
    """The ratio within strata, whatever they are; 0 where it is unknown."""
    keys = (SAME_COUNT.ratio, SAME_CLASS.ratio)
    return next((float(test[key]) for key in keys if test.get(key) is not None), 0.0)


def _strata(keys: Column, flags: Flags) -> Flags:
    """Members of each stratum that has enough items on both sides, (s, n)."""
    strata = np.stack([keys == key for key in np.unique(keys)])
    sides = np.minimum((strata & flags).sum(axis=1), (strata & ~flags).sum(axis=1))
    filled: Flags = strata[sides >= MIN_ITEMS]
    return filled


def _terms(errors: Floats, flags: Flags, strata: Flags) -> Floats:
    """Sums to resample, (n, 4 s): items and errors, with the attribute and without."""
    with_it, without = strata & flags, strata & ~flags
    parts = [with_it, with_it * errors, without, without * errors]
    return np.concatenate(parts, axis=0).T.astype(np.float64)


def _standardised(sums: Floats, strata: Flags) -> Floats:
    """Standardised error with over without, (b, 4 s) to (b,); inf where without is 0."""
    n_with, with_it, n_without, without = np.split(sums, 4, axis=1)
    weights = strata.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio: Floats = (weights * with_it / n_with).sum(axis=1) / (
            weights * without / n_without
        ).sum(axis=1)
    return ratio
