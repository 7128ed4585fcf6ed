"""What the leaderboard counts, summed by SQLite: an object for each of 10,000 items costs seconds.

Each of them tells of one run, or of all runs in the store where none is named. A rating belongs to
the image that was shown, by its content: it finds its item again after an import, too. Scores of
two versions of the constants don't compare: `Counted` says which ones count.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from genlab.benchmark.bootstrap import Floats
from genlab.benchmark.store.repository import Store

SUBJECT = "run_item"
"""What a person rates here, in the store's words."""

_VERSION = "coalesce(json_extract(i.details, '$.versions.constants'), '')"
_RATINGS = """
    SELECT DISTINCT i.image_sha256, h.rater, h.stars, {score}
    FROM human_scores h JOIN run_items i ON i.image_sha256 = h.subject_hash
    WHERE h.subject_kind = 'run_item' AND i.image_sha256 <> ''
"""
_PREFERENCES = """
    SELECT i.tool_id, j.tool_id
    FROM preferences p
    JOIN run_items i ON i.item_id = p.winner
    JOIN run_items j ON j.item_id = CASE p.winner
        WHEN p.first_item THEN p.second_item ELSE p.first_item END
    WHERE i.tool_id <> j.tool_id
"""


def _of(run_id: str | None, word: str) -> str:
    return "" if run_id is None else f" {word} i.run_id = :run"


@dataclass(frozen=True)
class Counted:
    """Which scores count: those of the newest version of the constants.

    older: by tool, the items left out for an older one's. SQLite reads each item's details for
    that, which takes time: only where there are several versions is it done again.
    """

    version: str
    older: Mapping[str, int]

    @property
    def words(self) -> str:
        """The condition, as SQL of `run_items i` with the value `:version`."""
        return f"{_VERSION} = :version" if self.older else "1"

    @classmethod
    def of(cls, store: Store, run_id: str | None) -> Counted:
        """What counts in a run, or among all."""
        rows = store.rows(
            f"SELECT {_VERSION}, i.tool_id, count(*) FROM run_items i WHERE i.score IS NOT NULL"
            + _of(run_id, "AND")
            + " GROUP BY 1, 2",
            run=run_id,
        )
        newest = max((str(version) for version, _, _ in rows), key=_age, default="")
        older: Counter[str] = Counter()
        for version, tool, count in rows:
            if version != newest:
                older[tool] += count
        return cls(newest, older)


def _age(version: str) -> tuple[int, str]:
    """Sorts versions, which are numbers; a scorer that names none comes first."""
    return (int(version) if version.isdecimal() else -1, version)


def scores_of(store: Store, run_id: str | None, counted: Counted) -> tuple[Floats, list[str]]:
    """Mean scores (cases, tools), nan where there is none, and the tools' names."""
    rows = store.rows(
        "SELECT i.tool_id, i.case_id, avg(i.score) FROM run_items i WHERE i.score IS NOT NULL AND "
        + counted.words
        + _of(run_id, "AND")
        + " GROUP BY i.tool_id, i.case_id",
        run=run_id,
        version=counted.version,
    )
    tools = sorted({tool for tool, _, _ in rows})
    cases = sorted({case for _, case, _ in rows})
    column = {tool: index for index, tool in enumerate(tools)}
    line = {case: index for index, case in enumerate(cases)}
    scores = np.full((len(cases), len(tools)), np.nan)
    for tool, case, score in rows:
        scores[line[case], column[tool]] = score
    return scores, tools


def totals_of(store: Store, run_id: str | None) -> list[tuple[str, int, float, float | None]]:
    return [
        (str(tool), int(cases), float(cost), None if seconds is None else float(seconds))
        for tool, cases, cost, seconds in store.rows(
            "SELECT i.tool_id, count(DISTINCT i.case_id), sum(i.cost),"
            " avg(CASE WHEN i.seconds > 0 THEN i.seconds END) FROM run_items i"
            + _of(run_id, "WHERE")
            + " GROUP BY i.tool_id",
            run=run_id,
        )
    ]


def failures_of(store: Store, run_id: str | None) -> dict[str, dict[str, int]]:
    """Finished items without a score, by tool and kind."""
    table: dict[str, dict[str, int]] = defaultdict(dict)
    for tool, kind, count in store.rows(
        "SELECT i.tool_id, coalesce(nullif(i.failure_kind, ''), i.status), count(*)"
        " FROM run_items i WHERE i.score IS NULL AND i.status IN ('scored', 'failed', 'skipped')"
        + _of(run_id, "AND")
        + " GROUP BY 1, 2 ORDER BY 1, 3 DESC, 2",
        run=run_id,
    ):
        table[tool][kind] = count
    return dict(table)


def components_of(
    store: Store, run_id: str | None, counted: Counted
) -> dict[str, dict[str, float]]:
    """Mean components of the items that have a score, by tool."""
    table: dict[str, dict[str, float]] = {}
    # One text a tool: SQLite's json_each takes four times as long as one call of json.loads.
    for tool, texts in store.rows(
        "SELECT i.tool_id, '[' || group_concat(i.components) || ']' FROM run_items i"
        " WHERE i.score IS NOT NULL AND "
        + counted.words
        + _of(run_id, "AND")
        + " GROUP BY i.tool_id",
        run=run_id,
        version=counted.version,
    ):
        given: dict[str, list[float]] = defaultdict(list)
        for components in json.loads(texts):
            for name, value in components.items():
                if value is not None:
                    given[name].append(value)
        table[tool] = {name: float(np.mean(values)) for name, values in given.items()}
    return table


def judged_of(store: Store, run_id: str | None) -> dict[str, list[dict[str, Any]]]:
    """What a judge said of pictures (`judging`), by tool; nothing where none was asked."""
    table: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for tool, said in store.rows(
        "SELECT i.tool_id, json_extract(i.details, '$.judge') FROM run_items i"
        # It comes first there (`judging.with_verdict`): most have none, and are not read through.
        " WHERE i.details GLOB '{\"judge\"*'" + _of(run_id, "AND"),
        run=run_id,
    ):
        table[tool].append(json.loads(said))
    return dict(table)


def stars_of(store: Store, run_id: str | None) -> dict[str, tuple[float, int, int]]:
    """By tool: people's mean over images, raters, ratings. Each image weighs the same."""
    given: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    raters: dict[str, set[str]] = defaultdict(set)
    for tool, image, rater, stars in store.rows(
        "SELECT DISTINCT i.tool_id, i.image_sha256, h.rater, h.stars"
        " FROM human_scores h JOIN run_items i ON i.image_sha256 = h.subject_hash"
        " WHERE h.subject_kind = 'run_item' AND i.image_sha256 <> ''" + _of(run_id, "AND"),
        run=run_id,
    ):
        given[tool][image].append(stars)
        raters[tool].add(rater)
    return {
        tool: (
            float(np.mean([np.mean(stars) for stars in images.values()])),
            len(raters[tool]),
            sum(len(stars) for stars in images.values()),
        )
        for tool, images in given.items()
    }


def ratings_of(
    store: Store, run_id: str | None
) -> tuple[dict[str, dict[str, int]], dict[str, float | None]]:
    """Stars by image and rater, and the machine's score of each of these images, if it counts."""
    counted = Counted.of(store, run_id)
    score = f"CASE WHEN {counted.words} THEN i.score END"
    by_image: dict[str, dict[str, int]] = defaultdict(dict)
    machine: dict[str, float | None] = {}
    for image, rater, stars, mark in store.rows(
        _RATINGS.format(score=score) + _of(run_id, "AND"), run=run_id, version=counted.version
    ):
        by_image[image][rater] = stars
        if machine.get(image) is None:  # the same image may be in another run, scored by older ones
            machine[image] = mark
    return dict(by_image), machine


def preferences_of(store: Store, run_id: str | None) -> list[tuple[str, str]]:
    """Tools as (preferred, other), an entry for each paired preference."""
    return [(a, b) for a, b in store.rows(_PREFERENCES + _of(run_id, "AND"), run=run_id)]
