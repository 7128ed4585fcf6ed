"""Error analysis: tests of hypotheses about which attributes of items make them fail."""

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
"""Minimum number of items with and without an attribute, in each stratum and in total."""
VERDICTS = ("supported", "undecided", "refuted", "untestable")


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """The claim that items with an attribute fail more.

    flags: whether each item has the attribute, (n,). within_stratum: whether items are compared
    within strata; false where the claim is about the stratum itself. compared: which items are
    compared, (n,), by default all; those whose error follows from the attribute by definition are
    left out.
    """

    name: str
    sentence: str
    flags: Flags
    within_stratum: bool = True
    compared: Flags | None = None

    @property
    def sides(self) -> tuple[Flags, Flags]:
        """The compared items with the attribute and those without it, (n,) each."""
        compared = np.ones_like(self.flags) if self.compared is None else self.compared
        return self.flags & compared, ~self.flags & compared


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
    """Compare the mean errors of items with and without each attribute.

    errors: (n,), finite and not negative. strata: (n,); items are compared with items of the same
    value. groups: (n,); items of a group are resampled together, by default each item alone.

    For each hypothesis: `n_with`, `n_without`, `error_with`, `error_without`; `ratio` of the errors
    after direct standardisation to the same strata, with its bootstrap interval `low`, `high`;
    `p_adjusted`, two-sided, of their difference over its bootstrap standard error; and a `verdict`:
    supported (p_adjusted is at most 1 - level, and the ratio above 1), refuted (the same, below 1),
    undecided, or untestable (fewer than MIN_ITEMS items on one side, or no error at all).

    p is adjusted so that at most a fraction of 1 - level of the decided hypotheses is expected to
    be decided by chance (Benjamini & Hochberg 1995). An undefined or infinite number is None.
    """
    values = np.asarray(errors, dtype=np.float64)
    members = [_find_strata(strata, hypothesis) for hypothesis in hypotheses]
    terms = [
        _make_terms(values, hypothesis, layers)
        for hypothesis, layers in zip(hypotheses, members, strict=True)
    ]
    sums = bootstrap_sums(np.hstack(terms), bootstrap=bootstrap, seed=seed, groups=groups)
    ends = np.cumsum([columns.shape[1] for columns in terms])[:-1]
    resampled = np.split(sums, ends, axis=1)
    tests: list[Test] = []
    for hypothesis, layers, columns, draws in zip(
        hypotheses, members, terms, resampled, strict=True
    ):
        test = _describe_sides(values, hypothesis)
        if values[layers.any(axis=0)].any():  # all errors may be in strata that are left out
            ratio, difference = _standardise(columns.sum(axis=0, keepdims=True), layers)
            ratios, differences = _standardise(draws, layers)
            z = abs(difference[0]) / max(float(np.nanstd(differences)), np.finfo(float).tiny)
            interval = percentile_interval(ratios, len(values), level=level)
            test["ratio"] = ratio[0]
            test["low"] = interval["low"]
            test["high"] = interval["high"]
            test["p_adjusted"] = 2 * norm.sf(z)
        tests.append(test)
    _decide(tests, level)
    return [{"verdict": "untestable", **{k: _finite(v) for k, v in t.items()}} for t in tests]


def explain(index: int, hypotheses: Sequence[Hypothesis], tests: Sequence[Test]) -> list[Test]:
    """Find the supported tests of attributes that item `index` has, the highest interval first.

    tests: of the `hypotheses`, in their order.
    """
    candidates = [
        test
        for hypothesis, test in zip(hypotheses, tests, strict=True)
        if hypothesis.sides[0][index]
    ]
    return [test for test in rank_tests(candidates) if test["verdict"] == "supported"]


def rank_tests(tests: Sequence[Test]) -> list[Test]:
    """Sort tests by verdict, supported ones first, then by the lower end of the interval."""

    def key(test: Test) -> tuple[int, float]:
        low = np.inf if test["low"] is None else test["low"]
        return VERDICTS.index(test["verdict"]), -low

    return sorted(tests, key=key)


def _describe_sides(errors: Floats, hypothesis: Hypothesis) -> Test:
    """Numbers of items and mean errors with and without an attribute; the rest is undefined."""
    errors_with, errors_without = (errors[side] for side in hypothesis.sides)
    return {
        "name": hypothesis.name,
        "sentence": hypothesis.sentence,
        "n_with": len(errors_with),
        "n_without": len(errors_without),
        "error_with": float(errors_with.mean()) if len(errors_with) else None,
        "error_without": float(errors_without.mean()) if len(errors_without) else None,
        "ratio": np.nan,
        "low": np.nan,
        "high": np.nan,
        "p_adjusted": np.nan,
    }


def _decide(tests: Sequence[Test], level: float) -> None:
    """Adjust the p-values of tests that have one, and add their verdicts."""
    tested = [test for test in tests if np.isfinite(test["p_adjusted"])]
    if not tested:
        return
    adjusted = false_discovery_control([test["p_adjusted"] for test in tested])
    for test, p in zip(tested, adjusted, strict=True):
        test["p_adjusted"] = p
        if p > 1 - level:
            test["verdict"] = "undecided"
        else:
            test["verdict"] = "supported" if test["ratio"] > 1 else "refuted"


def _find_strata(strata: Column, hypothesis: Hypothesis) -> Flags:
    """Members of each stratum with enough items with and without the attribute, (s, n)."""
    keys = strata if hypothesis.within_stratum else np.zeros_like(strata)
    with_it, without = hypothesis.sides
    members = np.stack([keys == key for key in np.unique(keys)]) & (with_it | without)
    counts = np.minimum((members & with_it).sum(axis=1), (members & without).sum(axis=1))
    comparable: Flags = members[counts >= MIN_ITEMS]
    return comparable


def _make_terms(errors: Floats, hypothesis: Hypothesis, strata: Flags) -> Floats:
    """Terms to resample, (n, 4 s): items and errors with the attribute, then without it."""
    with_it, without = (strata & side for side in hypothesis.sides)
    terms = [with_it, with_it * errors, without, without * errors]
    return np.concatenate(terms, axis=0).T.astype(np.float64)


def _standardise(sums: Floats, strata: Flags) -> tuple[Floats, Floats]:
    """Ratio and difference of the standardised errors with and without: (b, 4 s) to (b,) each.

    The ratio is inf where there is no error without the attribute.
    """
    n_with, total_with, n_without, total_without = np.split(sums, 4, axis=1)
    weights = strata.sum(axis=1) / strata.sum()
    with np.errstate(divide="ignore", invalid="ignore"):
        errors_with = (weights * total_with / n_with).sum(axis=1)
        errors_without = (weights * total_without / n_without).sum(axis=1)
        return errors_with / errors_without, errors_with - errors_without


def _finite(value: Any) -> Any:
    """Replace a float that is nan or infinite by None."""
    return None if isinstance(value, float) and not np.isfinite(value) else value
