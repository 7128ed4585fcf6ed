"""Why items fail: hypotheses about measured attributes, each tested over the whole test split."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.stats import false_discovery_control, norm

from genlab.core.stats import Floats, bootstrap_sums, percentile_interval

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
    groups: Column | None = None,
    level: float = 0.95,
) -> list[Test]:
    """Compare the mean error with and without each attribute, over all items.

    errors: (n,), finite and not negative. strata: (n,), items are compared at equal values of it.
    groups: (n,), what is resampled as a whole; by default each item.

    For each hypothesis: `n_with`, `n_without`, `error_with`, `error_without`; `ratio` of the errors
    after direct standardisation to the same strata, with its bootstrap interval `low`, `high`;
    `p_adjusted`, two-sided, of their difference over its bootstrap standard error; and a `verdict`:
    supported (p_adjusted is at most 1 - level, and the ratio above 1), refuted (the same, below 1),
    undecided, or untestable (fewer than MIN_ITEMS items on one side, or no error at all).

    p is adjusted so that at most a share of 1 - level of the decided hypotheses is expected to be
    decided by chance (Benjamini & Hochberg 1995). What is undefined or infinite is None.
    """
    values = np.asarray(errors, dtype=np.float64)
    members = [_find_strata(strata, each) for each in hypotheses]
    terms = [_terms(values, each.flags, s) for each, s in zip(hypotheses, members, strict=True)]
    sums = bootstrap_sums(np.hstack(terms), bootstrap=bootstrap, seed=seed, groups=groups)
    resampled = np.split(sums, np.cumsum([part.shape[1] for part in terms])[:-1], axis=1)
    tests: list[Test] = []
    for each, layers, part, draws in zip(hypotheses, members, terms, resampled, strict=True):
        sides = values[each.flags], values[~each.flags]
        means = [float(side.mean()) if len(side) else None for side in sides]
        numbers = dict.fromkeys(("ratio", "low", "high", "p_adjusted"), np.nan)
        if values[layers.any(axis=0)].any():  # an error may be in a stratum that is left out
            ratio, difference = _standardise(part.sum(axis=0, keepdims=True), layers)
            ratios, differences = _standardise(draws, layers)
            z = abs(difference[0]) / max(float(np.nanstd(differences)), np.finfo(float).tiny)
            found = percentile_interval(ratios, len(values), level=level)
            values_found = ratio[0], found["low"], found["high"], 2 * norm.sf(z)
            numbers = dict(zip(numbers, values_found, strict=True))
        tests.append(
            {
                "name": each.name,
                "sentence": each.sentence,
                "n_with": len(sides[0]),
                "n_without": len(sides[1]),
                "error_with": means[0],
                "error_without": means[1],
                **numbers,
            }
        )
    known = [test for test in tests if np.isfinite(test["p_adjusted"])]
    p_values = [test["p_adjusted"] for test in known]
    for test, p in zip(known, false_discovery_control(p_values) if known else (), strict=True):
        decided = "supported" if test["ratio"] > 1 else "refuted"
        test |= {"p_adjusted": p, "verdict": decided if p <= 1 - level else "undecided"}
    return [{"verdict": "untestable", **{k: _finite(v) for k, v in t.items()}} for t in tests]


def explain(index: int, hypotheses: Sequence[Hypothesis], tests: Sequence[Test]) -> list[Test]:
    """The tests that may explain the failure of item `index`, the best first; [] where none does.

    tests: of the `hypotheses`, in their order. Of the supported ones those whose attribute the item
    has, the highest interval first.
    """
    has = [test for each, test in zip(hypotheses, tests, strict=True) if each.flags[index]]
    return [test for test in rank_tests(has) if test["verdict"] == "supported"]


def rank_tests(tests: Sequence[Test]) -> list[Test]:
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


def _standardise(sums: Floats, strata: Flags) -> tuple[Floats, Floats]:
    """Standardised error with over without, and with minus without: (b, 4 s) to (b,) each.

    The ratio is inf where `without` is 0.
    """
    n_with, with_it, n_without, without = np.split(sums, 4, axis=1)
    weights = strata.sum(axis=1) / strata.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        errors_with = (weights * with_it / n_with).sum(axis=1)
        errors_without = (weights * without / n_without).sum(axis=1)
        return errors_with / errors_without, errors_with - errors_without


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not np.isfinite(value) else value
