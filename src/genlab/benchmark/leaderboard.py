"""The leaderboard: each tool's score with its interval, failures, cost, and what people say.

A case is the unit that is resampled: where a tool met a case more than once, its scores there are
averaged first. A failure is no score, and is never counted as 0: it stands beside, by its kind.
Two tools are compared on the cases that both have scores on, resampled together; a tool's rank is
one more than the number of tools whose score is surely higher, so tools that the cases cannot tell
apart share a rank. Pairs are judged one by one, at 95 % each.

Scores of two versions of the scorer's constants don't compare: those of the newest count, and how
many others were left out is said.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from genlab.benchmark.agreement import Finding, alpha, spearman, strengths
from genlab.benchmark.bootstrap import LEAST, Floats, bounds, resampled_means
from genlab.benchmark.store.repository import Store
from genlab.benchmark.tallies import (
    Counted,
    components_of,
    failures_of,
    judged_of,
    preferences_of,
    ratings_of,
    scores_of,
    stars_of,
    totals_of,
)

PAIRS = 512
"""Pairs of tools that are resampled at a time: bounds the memory."""


@dataclass(frozen=True)
class Judged:
    """A vision model's column, beside the score: its mean stars (1 to 5) over `pictures`.

    by: models with the versions of their prompts; failures: by kind; cost: dollars.
    """

    stars: float | None
    pictures: int
    by: list[str]
    failures: dict[str, int]
    cost: float

    @property
    def words(self) -> str:
        """Stars, of how many pictures, and what failed."""
        failed = "".join(f", {kind} {count}" for kind, count in self.failures.items())
        return f"{'–' if self.stars is None else f'{self.stars:.1f} ★'} ({self.pictures}){failed}"


@dataclass(frozen=True)
class Standing:
    """A tool's line of the leaderboard.

    score, low, high: mean over cases and its 95 % interval; scored, cases: on how many cases it has
    a score, out of how many it met; rank: None below LEAST scored cases; components: means;
    failures: items without a score, by kind; cost: dollars in all; seconds: mean an image; stars:
    people's mean over images, by `raters` people in `ratings` ratings; judge: where there is one;
    older: items whose score is of older constants and left out.
    """

    tool: str
    rank: int | None
    score: float | None
    low: float | None
    high: float | None
    scored: int
    cases: int
    cost: float
    seconds: float | None
    stars: float | None
    raters: int
    ratings: int
    failures: dict[str, int] = field(default_factory=dict)
    components: dict[str, float] = field(default_factory=dict)
    judge: Judged | None = None
    older: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {k: v for k, v in asdict(self).items() if k != "judge" or v is not None}


@dataclass(frozen=True)
class People:
    """How people agree among themselves and with the machine, and which tools they prefer."""

    alpha: Finding
    spearman: Finding
    strengths: dict[str, Finding]

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def leaderboard(
    store: Store, *, run_id: str | None = None, bootstrap: int = 1000, seed: int = 0
) -> list[Standing]:
    """The standings of a run, or of all runs in the store; the best first, those unscored last."""
    counted = Counted.of(store, run_id)
    scores, tools = scores_of(store, run_id, counted)
    low, high = np.empty(0), np.empty(0)
    ranks: list[int | None] = [None] * len(tools)
    if len(scores):
        means = resampled_means(scores, bootstrap=bootstrap, seed=seed)
        low, high = bounds(means, (~np.isnan(scores)).sum(axis=0))
        ranks = ranked(scores, bootstrap=bootstrap, seed=seed)
    place = {tool: index for index, tool in enumerate(tools)}
    components, failures, stars, said = (
        components_of(store, run_id, counted),
        failures_of(store, run_id),
        stars_of(store, run_id),
        judged_of(store, run_id),
    )
    standings = []
    for tool, cases, cost, seconds in totals_of(store, run_id):
        index = place.get(tool)
        own = np.empty(0) if index is None else scores[:, index][~np.isnan(scores[:, index])]
        told = index is not None and not np.isnan(low[index])
        people = stars.get(tool, (None, 0, 0))
        standings.append(
            Standing(
                tool=tool,
                rank=None if index is None else ranks[index],
                score=float(own.mean()) if len(own) else None,
                low=float(low[index]) if told else None,
                high=float(high[index]) if told else None,
                scored=len(own),
                cases=cases,
                cost=cost,
                seconds=seconds,
                stars=people[0],
                raters=people[1],
                ratings=people[2],
                failures=failures.get(tool, {}),
                components=components.get(tool, {}),
                judge=judged(said[tool]) if tool in said else None,
                older=counted.older.get(tool, 0),
            )
        )
    return sorted(standings, key=_order)


def judged(said: Sequence[Mapping[str, Any]]) -> Judged:
    """The column of one tool, of what a judge said of its pictures."""
    given = [one["stars"] for one in said if one["status"] == "given"]
    return Judged(
        stars=float(np.mean(given)) if given else None,
        pictures=len(given),
        by=sorted({f"{one['model']}, prompt {one['prompt']}" for one in said}),
        failures=dict(Counter(one["failure_kind"] for one in said if one["failure_kind"])),
        cost=float(sum(one["cost"] for one in said)),
    )


def _order(standing: Standing) -> tuple[bool, float, str]:
    return standing.score is None, -(standing.score or 0.0), standing.tool


def ranked(scores: Floats, *, bootstrap: int = 1000, seed: int = 0) -> list[int | None]:
    """The rank of each tool: 1 + the number of tools that are surely better.

    scores: (cases, tools), nan where there is none. Surely better: the interval of the mean
    difference over at least LEAST shared cases lies above 0. None: under LEAST cases of its own.
    """
    known = ~np.isnan(scores)
    tools = scores.shape[1]
    better = np.zeros(tools, dtype=np.int64)
    first, second = np.triu_indices(tools, 1)
    shared = (known.T.astype(np.int64) @ known)[first, second]
    first, second, shared = (part[shared >= LEAST] for part in (first, second, shared))
    for start in range(0, len(first), PAIRS):
        one, other = first[start : start + PAIRS], second[start : start + PAIRS]
        gaps = resampled_means(scores[:, one] - scores[:, other], bootstrap=bootstrap, seed=seed)
        low, high = bounds(gaps, shared[start : start + PAIRS])
        np.add.at(better, other, low > 0)
        np.add.at(better, one, high < 0)
    enough = known.sum(axis=0) >= LEAST
    return [1 + int(better[tool]) if enough[tool] else None for tool in range(tools)]


def people(
    store: Store, *, run_id: str | None = None, bootstrap: int = 1000, seed: int = 0
) -> People:
    """What people's ratings and preferences say, each with its interval or why there is none."""
    by_image, machine = ratings_of(store, run_id)
    both = [image for image in by_image if machine[image] is not None]
    return People(
        alpha=alpha(by_image, bootstrap=bootstrap, seed=seed),
        spearman=spearman(
            [float(machine[image] or 0.0) for image in both],
            [float(np.mean(list(by_image[image].values()))) for image in both],
            bootstrap=bootstrap,
            seed=seed,
        ),
        strengths=strengths(preferences_of(store, run_id)),
    )


def as_csv(standings: Iterable[Standing], found: People | None = None) -> str:
    """The leaderboard as CSV, a tool a line; failures and components as `kind:number` lists.

    found: becomes a table of its own, after an empty line.
    """
    standings = list(standings)
    columns = list(Standing.__dataclass_fields__)
    if all(standing.judge is None for standing in standings):
        columns.remove("judge")
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for standing in standings:
        row = standing.as_dict()
        writer.writerow([_cell(row.get(name)) for name in columns])
    if found is not None:
        of_tools = [("strength", tool, finding) for tool, finding in found.strengths.items()]
        fields = list(Finding.__dataclass_fields__)
        writer.writerow([])
        writer.writerow(["people", "tool", *fields])
        for name, tool, finding in [
            ("alpha", "", found.alpha),
            ("spearman", "", found.spearman),
            *of_tools,
        ]:
            values = asdict(finding)
            writer.writerow([_cell(cell) for cell in (name, tool, *map(values.get, fields))])
    return out.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, Mapping):
        return ";".join(f"{key}:{_cell(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return " and ".join(str(_cell(entry)) for entry in value)
    if isinstance(value, float):
        return f"{value:.6g}"
    # A spreadsheet takes a leading sign for a formula: names come from plugins, which are foreign.
    if isinstance(value, str) and value.startswith(tuple("=+-@\t\r")):
        return "'" + value
    return "" if value is None else value
