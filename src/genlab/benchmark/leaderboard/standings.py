"""Standings of contenders: mean scores with intervals, shared ranks, failures, cost, stars.

The unit that is resampled is the case: draws and runs of a contender on a case are averaged first.
The ranking mean counts what a contender failed at (a refusal, a time-out, a missing face) as 0 and
leaves out what it cannot be blamed for (`EXCUSED`). Two contenders are compared on the cases that
both have a ranking value for, resampled together; a rank is one more than the number of contenders
whose mean is surely higher, so those that the cases cannot separate share a rank (95 % per pair).

Scores of two versions of the scorer's constants do not compare: those of the newest count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from genlab.benchmark.leaderboard.agreement import (
    LEAST,
    STARS,
    Estimate,
    Pair,
    confidence_bounds,
    fit_bradley_terry,
    krippendorff_alpha,
    resample_means,
    spearman,
)
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Contender, Run

SUBJECT = "run_item"
EXCUSED = frozenset(
    {
        *("no_template_face", "no_avatar_face", "case_fault", "scorer_failed"),  # case or scorer
        *("over_budget", "rate_limited", "quota", "no_key"),  # quota
        *("unavailable", "retired", "cancelled"),  # outages
    }
)
STARS_LEAD = 10  # blind ratings from which the leaderboard leads with them

_ITEMS = """
    SELECT run_id, contender, case_id, status, score, score_reference, components, failure_kind,
        cost, seconds, image_sha256, score_version AS version
    FROM run_items WHERE :run IS NULL OR run_id = :run
"""
_RATINGS = """
    SELECT DISTINCT i.contender, i.image_sha256, h.rater, h.stars, h.context
    FROM human_scores h JOIN run_items i ON i.image_sha256 = h.subject_hash
    WHERE h.subject_kind = 'run_item' AND i.image_sha256 <> ''
        AND (:run IS NULL OR i.run_id = :run)
"""
# Both bad says as much of which is better as a tie does; arena-rank reads it so, too.
_PREFERENCES = """
    SELECT i.contender AS preferred, j.contender AS other,
        p.outcome IN ('tie', 'both_bad') AS tie
    FROM preferences p
    JOIN run_items i ON i.item_id = iif(p.outcome = 'second', p.second_item, p.first_item)
    JOIN run_items j ON j.item_id = iif(p.outcome = 'second', p.first_item, p.second_item)
    WHERE i.contender <> j.contender AND (:run IS NULL OR i.run_id = :run)
"""


class Stars(BaseModel):
    """Mean stars over images, each image with the same weight, and how many gave them."""

    mean: float
    raters: int
    ratings: int


class Standing(BaseModel):
    """A row of the leaderboard.

    score, low, high: ranking mean over cases and its 95 % interval; scored_mean: mean over scored
    items alone; reference: mean `score_reference` over ground-truth cases; spread: mean standard
    deviation of draws within a case; scored, cases: cases with a score, and all; rank: None below
    LEAST cases; failures: finished items without a score, by kind, of which `excused` do not count;
    cost: dollars; seconds: mean per image; stars: by context; older: scores of older constants.
    """

    contender: str
    tool_id: str
    label: str
    title: str
    rank: int | None
    score: float | None
    low: float | None
    high: float | None
    scored_mean: float | None
    reference: float | None
    spread: float | None
    scored: int
    cases: int
    failures: dict[str, int]
    excused: int
    components: dict[str, float]
    cost: float
    seconds: float | None
    stars: dict[str, Stars]
    older: int


class RaterStatistics(BaseModel):
    """How blind raters agree among themselves and with the machine, and whom they prefer."""

    alpha: Estimate
    spearman: Estimate
    strengths: dict[str, Estimate]


@dataclass(frozen=True)
class Tables:
    """What the store says of a run, or of all runs.

    items: a row per item, with `value`: the score, 0 for a failure that counts, nan where nothing
    is known; ratings, preferences: a row per answer.
    """

    contenders: Mapping[str, Contender]
    items: pd.DataFrame
    ratings: pd.DataFrame
    preferences: pd.DataFrame


def read_tables(store: Store, run_id: str | None = None) -> Tables:
    """Read what standings and people's findings are computed from; run_id: None for all runs."""
    runs = store.runs() if run_id is None else [store.run(run_id)]
    return Tables(
        contenders={name: each for run in runs for name, each in run.contenders.items()},
        items=_evaluate_items(store.table(_ITEMS, run=run_id), runs),
        ratings=store.table(_RATINGS, run=run_id),
        preferences=store.table(_PREFERENCES, run=run_id),
    )


def rank_contenders(tables: Tables, *, bootstrap: int = 1000, seed: int = 0) -> list[Standing]:
    """The standings; ranked rows first, the best first.

    The order is that of blind stars where every ranked row has at least STARS_LEAD of them.
    """
    items = tables.items
    if items.empty:
        return []
    ranking = _ranking(items, bootstrap=bootstrap, seed=seed)
    stars = _stars(tables.ratings)
    standings = [
        _standing(tables.contenders[name], rows, ranking.get(name, {}), stars.get(name, {}))
        for name, rows in items.groupby("contender")
    ]
    blind = [s.stars["blind"].ratings if "blind" in s.stars else 0 for s in standings if s.rank]
    by_stars = min(blind, default=0) >= STARS_LEAD

    def order(standing: Standing) -> tuple[bool, float, str]:
        key = standing.stars["blind"].mean if by_stars and standing.rank else standing.score
        return standing.rank is None, -(key or 0.0), standing.label

    return sorted(standings, key=order)


def summarize_raters(tables: Tables, *, bootstrap: int = 1000, seed: int = 0) -> RaterStatistics:
    """Agreement of blind ratings and strengths from preferences, or why there is none."""
    ratings = tables.ratings.query("context == 'blind'")
    items = tables.items.query("image_sha256 != ''")
    columns = (items.groupby("image_sha256").score, ratings.groupby("image_sha256").stars)
    both = pd.concat([column.mean() for column in columns], axis=1).dropna()
    once = ratings.drop_duplicates(["image_sha256", "rater"])
    counts = pd.crosstab(once.image_sha256, once.stars).reindex(columns=[*STARS], fill_value=0)
    found = fit_bradley_terry(*split_votes(tables.preferences))
    labels = [tables.contenders[name].label for name in found]
    names = [x if labels.count(x) == 1 else f"{x}, {n}" for x, n in zip(labels, found, strict=True)]
    return RaterStatistics(
        alpha=krippendorff_alpha(counts.to_numpy(), bootstrap=bootstrap, seed=seed),
        spearman=spearman(both.to_numpy(dtype=np.float64), bootstrap=bootstrap, seed=seed),
        strengths=dict(zip(names, found.values(), strict=True)),
    )


def split_votes(votes: pd.DataFrame) -> tuple[list[Pair], list[Pair]]:
    """Pairs of contenders of which one was preferred, which comes first; and pairs without one."""
    split: tuple[list[Pair], list[Pair]] = ([], [])
    for preferred, other, tie in votes.itertuples(index=False, name=None):
        split[tie].append((preferred, other))
    return split


def _evaluate_items(items: pd.DataFrame, runs: Sequence[Run]) -> pd.DataFrame:
    """Items with `value`; see `Tables`.

    `case_id` ends in the case's digest: another photograph of that name is another case. An image
    that a later run reused counts once.
    """
    digests = {
        (r.run_id, case["case_id"]): case.get("digest", "") for r in runs for case in r.cases
    }
    items["case_id"] += [digests[key] for key in zip(items.run_id, items.case_id, strict=True)]
    scored = items.score.notna()
    newest = max(items.version[scored], key=_age, default="")
    items["older"] = scored & (items.version != newest)
    # Of objects, as a column without numbers is read, pandas takes means ten times as slowly.
    items = items.astype({"score": float, "score_reference": float})
    items.loc[items.older, ["score", "score_reference"]] = np.nan
    items["failed"] = items.status.isin(["failed", "skipped"])
    items["excused"] = items.failed & items.failure_kind.isin(EXCUSED)
    items["value"] = items.score.where(~(items.failed & ~items.excused), 0.0)
    known = items[items.value.notna() & (items.image_sha256 != "")]
    copies = known.index[known.duplicated(["contender", "case_id", "image_sha256"])]
    items.loc[copies, ["score", "score_reference", "value"]] = np.nan
    items.loc[copies, ["failed", "excused"]] = False
    return items


def _age(version: str) -> tuple[int, str]:
    """Sort key of versions, which are numbers; a scorer without one comes first."""
    return (int(version) if version.isdecimal() else -1, version)


def _stars(ratings: pd.DataFrame) -> dict[str, dict[str, Stars]]:
    """Stars by contender and context."""
    found: dict[str, dict[str, Stars]] = {}
    for (name, context), own in ratings.groupby(["contender", "context"]):
        mean = own.groupby("image_sha256").stars.mean().mean()
        stars = Stars(mean=mean, raters=own.rater.nunique(), ratings=len(own))
        found.setdefault(name, {})[context] = stars
    return found


def _ranking(items: pd.DataFrame, *, bootstrap: int, seed: int) -> dict[str, dict[str, Any]]:
    """Mean, interval and rank of each contender with a known value.

    rank: 1 + the number of surely better contenders. Surely better: the interval of the mean
    difference over at least LEAST shared cases lies above 0. None below LEAST known cases.
    """
    table = items.pivot_table("value", "case_id", "contender", dropna=False)
    table = table.dropna(axis=1, how="all")
    if table.empty:
        return {}
    values = table.to_numpy(dtype=np.float64)
    one, other = np.triu_indices(values.shape[1], 1)
    both = np.hstack([values, values[:, one] - values[:, other]])
    counts = np.isfinite(both).sum(axis=0)
    known, shared = np.split(counts, [values.shape[1]])
    lows, highs = confidence_bounds(resample_means(both, bootstrap=bootstrap, seed=seed), counts)
    low, least = np.split(lows, [values.shape[1]])
    high, most = np.split(highs, [values.shape[1]])
    ranks = np.ones(len(known), dtype=int)
    np.add.at(ranks, other[(shared >= LEAST) & (least > 0)], 1)
    np.add.at(ranks, one[(shared >= LEAST) & (most < 0)], 1)
    return {
        name: {
            "score": float(np.nanmean(values[:, i])),
            "low": _known(low[i]),
            "high": _known(high[i]),
            "rank": int(ranks[i]) if known[i] >= LEAST else None,
        }
        for i, name in enumerate(table.columns)
    }


def _standing(
    contender: Contender, own: pd.DataFrame, ranking: Mapping[str, Any], stars: dict[str, Stars]
) -> Standing:
    scored = own[own.score.notna()]
    kinds = own[own.failed].failure_kind.replace("", "unknown").value_counts()
    draws = scored.groupby("case_id").score
    seconds = own[own.seconds > 0].seconds
    return Standing(
        contender=contender.contender_id,
        tool_id=contender.tool_id,
        label=contender.label,
        title=contender.title,
        **{"rank": None, "score": None, "low": None, "high": None, **ranking},
        scored_mean=_known(draws.mean().mean()),
        reference=_known(scored.groupby("case_id").score_reference.mean().mean()),
        spread=_known(draws.std().mean()),
        scored=scored.case_id.nunique(),
        cases=own.case_id.nunique(),
        failures={str(kind): int(n) for kind, n in kinds.items()},
        excused=int(own.excused.sum()),
        components=_mean_components(scored.components),
        cost=float(own.cost.sum()),
        seconds=_known(seconds.mean()),
        stars=stars,
        older=int(own.older.sum()),
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _mean_components(texts: pd.Series[Any]) -> dict[str, float]:
    table = pd.DataFrame(json.loads(f"[{','.join(texts)}]"), dtype=float)  # in one go: it is faster
    return {str(name): float(mean) for name, mean in table.mean().dropna().items()}
