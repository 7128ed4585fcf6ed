"""Why items fail: hypotheses about measured attributes, each tested over the whole test split."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.stats import Floats, resampled_sums
from genlab.evaluation.diagnostics.attributes import Attributes
from genlab.grids.palette import COLOUR_NAMES
from genlab.grids.shapes import KINDS

Flags = npt.NDArray[np.bool_]
Test = dict[str, Any]

LEAST_ARM = 20
"""Items that must stand on each side of a comparison, in a stratum and in all."""


@dataclass(frozen=True)
class Stratum:
    """What items are compared at equal values of: an attribute, and what the ratio is called."""

    attribute: str
    ratio: str


SAME_COUNT = Stratum("object_count", "ratio_same_count")
"""More objects mean more of everything: grids are compared at an equal number of them."""
SAME_CLASS = Stratum("class", "ratio_same_class")
"""Classes differ in everything: images are compared within theirs."""


@dataclass(frozen=True)
class Hypothesis:
    """A claim that items with an attribute fail more.

    `holds` maps the attributes of all items to flags (n,). Items are compared within a stratum
    (grids at an equal number of objects, images of one class), unless the claim is about just that.
    """

    name: str
    sentence: str
    holds: Callable[[Attributes], Flags]
    within_stratum: bool = True


def kind_words(kind: str) -> str:
    """`line_diagonal` as people say it: a diagonal line."""
    first, _, second = kind.partition("_")
    if second == "shape":
        return f"an {first.upper()} shape" if first == "l" else f"a {first.upper()} shape"
    words = f"{second} {first}" if second else first
    return f"an {words}" if words[0] in "aeiou" else f"a {words}"


def _kind(kind: str) -> Hypothesis:
    return Hypothesis(f"kind_{kind}", f"{kind_words(kind)} is hard", lambda a: a[f"kind_{kind}"])


def _colour(colour: int) -> Hypothesis:
    name = COLOUR_NAMES[colour]
    return Hypothesis(f"colour_{name}", f"{name} is hard", lambda a: a[f"colour_{colour}"])


def _more_cells_than_most(attributes: Attributes) -> Flags:
    cells = attributes["foreground_cells"]
    flags: Flags = cells > np.quantile(cells, 0.75)
    return flags


HYPOTHESES: tuple[Hypothesis, ...] = (
    Hypothesis(
        "many_objects", "five or more objects are hard", lambda a: a["object_count"] >= 5, False
    ),
    Hypothesis(
        "many_cells",
        "more coloured cells than in three quarters of the grids are hard",
        _more_cells_than_most,
    ),
    Hypothesis(
        "small_object",
        "an object of four cells or fewer is hard",
        lambda a: a["smallest_cells"] < 5,
    ),
    Hypothesis("thin_object", "a straight one-cell line is hard", lambda a: a["thinnest"] == 1),
    Hypothesis(
        "sparse_object",
        "an object that fills less than half of its box is hard",
        lambda a: a["least_fill"] < 0.5,
    ),
    Hypothesis(
        "long_object", "an object of seven cells or longer is hard", lambda a: a["longest"] >= 7
    ),
    Hypothesis(
        "close_neighbours",
        "objects with a single free cell between them are hard",
        lambda a: a["nearest_gap"] <= 1,
    ),
    Hypothesis(
        "close_same_colour",
        "objects of one colour with a single free cell between them are hard",
        lambda a: (a["nearest_gap"] <= 1) & a["nearest_same_colour"],
    ),
    Hypothesis(
        "close_colour_pair",
        "objects of two colours with a single free cell between them are hard",
        lambda a: (a["nearest_gap"] <= 1) & ~a["nearest_same_colour"],
    ),
    Hypothesis(
        "repeated_colour", "two objects of one colour are hard", lambda a: a["repeated_colour"]
    ),
    Hypothesis(
        "many_colours", "four or more colours are hard", lambda a: a["distinct_colours"] >= 4
    ),
    Hypothesis("at_border", "a coloured cell on the rim is hard", lambda a: a["at_border"]),
    *(_kind(kind) for kind in KINDS),
    *(_colour(colour) for colour in range(1, 10)),
)


def compare(
    errors: npt.ArrayLike,
    attributes: Attributes,
    *,
    error_name: str,
    hypotheses: Sequence[Hypothesis] = HYPOTHESES,
    stratum: Stratum = SAME_COUNT,
    bootstrap: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> list[Test]:
    """Mean error with and without each attribute, over all items.

    errors: (n,), not negative: wrong cells, or nats where nearly every grid is exact. For each
    hypothesis: `n_with`, `n_without`, `error_with`, `error_without`, `ratio` of the two as they
    are; `ratio_same_count` (or as `stratum` calls it), the ratio after direct standardisation to
    the same numbers of objects (or shares of the classes), with its bootstrap interval `low`,
    `high`; and the `verdict`, which the interval gives: supported (all above 1), refuted (all
    below 1), undecided (it holds 1) or untestable (fewer than LEAST_ARM items on one side, or no
    error at all).

    The intervals hold jointly at `level`: each is taken at 1 - (1 - level) / m for m hypotheses
    (Bonferroni), so that thirty looks at the same data do not make a finding. Where a bound is
    infinite it is None.
    """
    values = np.asarray(errors, dtype=np.float64)
    if values.ndim != 1 or not len(values) or not np.isfinite(values).all() or (values < 0).any():
        raise ValueError("errors must be finite, not negative, one an item")
    keys = np.asarray(attributes[stratum.attribute])
    comparisons = [_Comparison.of(hypothesis, attributes, keys) for hypothesis in hypotheses]
    terms = [comparison.terms(values) for comparison in comparisons]
    resampled = resampled_sums(np.hstack(terms), bootstrap=bootstrap, seed=seed)
    ends = np.cumsum([part.shape[1] for part in terms])[:-1]
    each = 1 - (1 - level) / len(hypotheses)
    return [
        _result(comparison, values, error_name, part, sums, each, stratum.ratio)
        for comparison, part, sums in zip(
            comparisons, terms, np.split(resampled, ends, axis=1), strict=True
        )
    ]


@dataclass(frozen=True)
class _Comparison:
    """A hypothesis with its flags (n,) and the strata (s, n) in which both sides are filled."""

    hypothesis: Hypothesis
    flags: Flags
    strata: Flags

    @classmethod
    def of(
        cls, hypothesis: Hypothesis, attributes: Attributes, keys: npt.NDArray[Any]
    ) -> "_Comparison":
        flags = np.asarray(hypothesis.holds(attributes), dtype=np.bool_)
        if not hypothesis.within_stratum:
            keys = np.zeros_like(keys)
        strata = np.stack([keys == key for key in np.unique(keys)])
        arms = np.minimum((strata & flags).sum(axis=1), (strata & ~flags).sum(axis=1))
        return cls(hypothesis, flags, strata[arms >= LEAST_ARM])

    def terms(self, errors: Floats) -> Floats:
        """Sums to resample, (n, 4 s): items and errors, with the attribute and without."""
        with_it, without = self.strata & self.flags, self.strata & ~self.flags
        parts = [with_it, with_it * errors, without, without * errors]
        return np.concatenate(parts, axis=0).T.astype(np.float64)

    def ratio(self, sums: Floats) -> Floats:
        """Standardised error with over without, (b, 4 s) to (b,); inf where without is 0."""
        n_with, with_it, n_without, without = np.split(sums, 4, axis=1)
        weights = self.strata.sum(axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio: Floats = (weights * with_it / n_with).sum(axis=1) / (
                weights * without / n_without
            ).sum(axis=1)
        return ratio


def _result(
    comparison: _Comparison,
    errors: Floats,
    error_name: str,
    terms: Floats,
    resampled: Floats,
    level: float,
    ratio_name: str,
) -> Test:
    flags = comparison.flags
    test: Test = {
        "name": comparison.hypothesis.name,
        "sentence": comparison.hypothesis.sentence,
        "error": error_name,
        "n_with": int(flags.sum()),
        "n_without": int((~flags).sum()),
        "error_with": _mean(errors[flags]),
        "error_without": _mean(errors[~flags]),
    }
    test["ratio"] = _ratio(test["error_with"], test["error_without"])
    standard, low, high = None, None, None
    verdict = "untestable"
    if len(comparison.strata) and errors.any():
        standard = _finite(comparison.ratio(terms.sum(axis=0, keepdims=True))[0])
        ratios = comparison.ratio(resampled)
        ratios = ratios[~np.isnan(ratios)]
        tail = (1 - level) / 2
        ends = np.quantile(ratios, [tail, 1 - tail], method="inverted_cdf")
        verdict = "supported" if ends[0] > 1 else "refuted" if ends[1] < 1 else "undecided"
        low, high = _finite(ends[0]), _finite(ends[1])
    return test | {
        ratio_name: standard,
        "low": low,
        "high": high,
        "level": level,
        "verdict": verdict,
    }


def explanation(
    index: int,
    attributes: Attributes,
    tests: Sequence[Test],
    *,
    hypotheses: Sequence[Hypothesis] = HYPOTHESES,
    stratum: Stratum = SAME_COUNT,
) -> Test | None:
    """The test that best explains the failure of item `index`, None when none applies.

    Of the hypotheses whose attribute the item has: the supported one whose interval lies highest;
    without one, the undecided one of the greatest ratio. A refuted one explains nothing.
    """
    known = {hypothesis.name: hypothesis for hypothesis in hypotheses}
    has = [test for test in tests if known[test["name"]].holds(attributes)[index]]
    supported = [test for test in has if test["verdict"] == "supported"]
    if supported:
        return max(supported, key=lambda test: float(test["low"] or np.inf))
    undecided = [test for test in has if test["verdict"] == "undecided"]
    return max(undecided, key=lambda t: float(t[stratum.ratio] or 0), default=None)


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if len(values) else None


def _ratio(value: float | None, other: float | None) -> float | None:
    return value / other if value is not None and other else None


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
