"""How many raters and cases it takes to tell two tools apart by people's stars.

Two tools are compared on the same cases by the same raters, so what counts is the *difference* of
their stars, d(rater, case) = δ + rater + case + rest: a hard case and a strict rater fall on both
tools alike and cancel. What is left are three variances: some raters like one tool's manner more
(rater), some cases suit one tool more (case), and the rest is noise and the star's coarseness.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import nct, t

from genlab.benchmark.bootstrap import LEAST, LEVEL, Floats

DELTA = 0.5
"""Difference in stars that is to be found."""
POWER = 0.8
"""Share of such studies that find it."""
MOST_CASES = 10_000
RATERS = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50)


@dataclass(frozen=True)
class Components:
    """Variances, in stars², of the difference between two tools; `n` differences they rest on."""

    rater: float
    case: float
    rest: float
    n: int = 0

    def error(self, raters: int, cases: int) -> float:
        """Standard error of the mean difference: every rater rates every case once for each."""
        return float(
            np.sqrt(self.rater / raters + self.case / cases + self.rest / (raters * cases))
        )

    def freedom(self, raters: int, cases: int) -> float:
        """Degrees of freedom of that error (Satterthwaite 1946, over its three mean squares)."""
        rater = (cases * self.rater + self.rest) / (raters * cases)
        case = (raters * self.case + self.rest) / (raters * cases)
        rest = self.rest / (raters * cases)
        total = rater + case - rest
        parts = (
            rater**2 / (raters - 1) + case**2 / (cases - 1) + rest**2 / (raters - 1) / (cases - 1)
        )
        return max(1.0, total**2 / parts) if parts else float(raters * cases - 1)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


ASSUMED = Components(rater=0.09, case=0.36, rest=0.90)
"""What is taken while nobody has rated: standard deviations of 0.3, 0.6 and 0.95 stars.

An assumption, not a measurement, and named so wherever it is used: rounding to whole stars alone
gives the rest 2/12, and people who disagree by a star about a picture give it about 0.9.
"""


def components(stars: Mapping[str, Mapping[tuple[str, str], float]]) -> Components | None:
    """Variances from ratings; None while too few differences were seen.

    stars: by tool, then by (rater, case). For each pair of tools the differences of all raters and
    cases that saw both are compared with each other: two of one rater differ by case and rest, two
    of one case by rater and rest, others by all three (half the mean square of each; a method of
    moments that any pattern of missing ratings leaves unbiased). Pooled over pairs of tools.
    """
    squares, counts = np.zeros(3), np.zeros(3)
    seen = 0
    for differences in _differences(stars):
        sums, pairs = _half_squares(differences)
        squares, counts = squares + sums, counts + pairs
        seen += int((~np.isnan(differences)).sum())
    if seen < LEAST or not counts.all():
        return None
    same_rater, same_case, neither = squares / counts
    return Components(
        rater=max(0.0, float(neither - same_rater)),
        case=max(0.0, float(neither - same_case)),
        rest=max(0.0, float(same_rater + same_case - neither)),
        n=seen,
    )


def _differences(stars: Mapping[str, Mapping[tuple[str, str], float]]) -> Iterator[Floats]:
    """The differences of every pair of tools, (raters, cases), nan where one was not rated."""
    tools = sorted(stars)
    for index, first in enumerate(tools):
        for second in tools[index + 1 :]:
            shared = sorted(stars[first].keys() & stars[second].keys())
            if not shared:
                continue
            raters = sorted({rater for rater, _ in shared})
            cases = sorted({case for _, case in shared})
            table = np.full((len(raters), len(cases)), np.nan)
            for rater, case in shared:
                place = raters.index(rater), cases.index(case)
                table[place] = stars[first][rater, case] - stars[second][rater, case]
            yield table


def _half_squares(table: Floats) -> tuple[Floats, Floats]:
    """Sums of (d - d')² / 2 over pairs of one rater, of one case and of neither; their numbers.

    table: (raters, cases), nan where missing. Sums over pairs come from sums and sums of squares:
    the sum of (d - d')² over all pairs of m numbers is m Σd² - (Σd)².
    """
    said = ~np.isnan(table)
    values = np.where(said, table, 0.0)

    def of(axis: int | None) -> tuple[float, float]:
        count, total = said.sum(axis=axis), values.sum(axis=axis)
        square = (values**2).sum(axis=axis)
        half = np.sum(count * square - total**2) / 2
        return float(half), float(np.sum(count * (count - 1)) / 2)

    rater, case, both = of(1), of(0), of(None)
    rest = tuple(both[i] - rater[i] - case[i] for i in (0, 1))
    parts = np.array([rater, case, rest])
    return parts[:, 0], parts[:, 1]


def power(delta: float, found: Components, raters: int, cases: int) -> float:
    """Probability that a two-sided t-test at 5 % finds a true difference of `delta` stars."""
    error = found.error(raters, cases)
    if not error:
        return 1.0
    freedom = found.freedom(raters, cases)
    edge = t.ppf((1 + LEVEL) / 2, freedom)
    shift = delta / error
    return float(nct.sf(edge, freedom, shift) + nct.cdf(-edge, freedom, shift))


def cases_needed(
    found: Components, raters: int, *, delta: float = DELTA, goal: float = POWER
) -> int | None:
    """Fewest cases at which `raters` raters find `delta`; None where no number of cases does."""
    low, high = 1, 2
    while power(delta, found, raters, high) < goal:
        low, high = high, high * 2
        if low > MOST_CASES:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        if power(delta, found, raters, middle) < goal:
            low = middle
        else:
            high = middle
    return high


def plan(
    found: Components, *, delta: float = DELTA, goal: float = POWER
) -> list[dict[str, int | None]]:
    """By number of raters: cases needed, and ratings in all of two tools; None: not by cases."""
    rows: list[dict[str, int | None]] = []
    for raters in RATERS:
        cases = cases_needed(found, raters, delta=delta, goal=goal)
        rows.append({"raters": raters, "cases": cases, "ratings": cases and 2 * cases * raters})
    return rows


def lines(
    found: Components,
    rows: Sequence[Mapping[str, int | None]],
    *,
    assumed: bool,
    delta: float,
    goal: float,
) -> list[str]:
    """The plan in words, a table in Markdown."""
    origin = (
        "assumed, since too few ratings are there" if assumed else f"{found.n} differences seen"
    )
    deviations = [f"{np.sqrt(part):.2f}" for part in (found.rater, found.case, found.rest)]
    told = [
        f"To find a difference of {delta:g} star{'s' * (delta != 1)} between two tools in"
        f" {goal:.0%} of studies",
        "(two-sided test at 5 %, every rater rates every case of both tools).",
        f"Standard deviations of the difference, {origin}:",
        f"rater {deviations[0]}, case {deviations[1]}, rest {deviations[2]} stars.",
        "",
        "| raters | cases | ratings in all |",
        "| ---: | ---: | ---: |",
    ]
    for row in rows:
        cases = f"{row['cases']:,}" if row["cases"] else "no number is enough"
        ratings = f"{row['ratings']:,}" if row["ratings"] else "–"
        told.append(f"| {row['raters']} | {cases} | {ratings} |")
    return told
