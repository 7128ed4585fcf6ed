"""Standings of contenders: mean scores with intervals, shared ranks, failures, cost, stars.

Cases are resampled: draws and runs of a contender on a case are averaged first. The ranking mean
counts a contender's failures (a refusal, a time-out, a missing face) as 0 and leaves out those that
it cannot be blamed for (`EXCUSED`). Two contenders are compared on the cases for which both have a
ranking value, resampled together. A rank is one more than the number of contenders with a
significantly higher mean (95 % per pair): contenders that the cases cannot separate share a rank.

Scores of two versions of the scorer's constants do not compare: only the newest version counts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pydantic import BaseModel

from genlab.benchmark.leaderboard.agreement import STARS, krippendorff_alpha, spearman
from genlab.benchmark.leaderboard.intervals import (
    LEAST,
    Estimate,
    confidence_bounds,
    resample_means,
)
from genlab.benchmark.leaderboard.preferences import Pair, fit_bradley_terry
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
STARS_LEAD = 10  # blind ratings from which on the leaderboard is ordered by them

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
# `both_bad` counts as a tie, as in arena-rank: it does not say which one is better.
_PREFERENCES = """
    SELECT i.contender AS preferred, j.contender AS other,
        p.outcome IN ('tie', 'both_bad') AS tie
    FROM preferences p
    JOIN run_items i ON i.item_id = iif(p.outcome = 'second', p.second_item, p.first_item)
    JOIN run_items j ON j.item_id = iif(p.outcome = 'second', p.first_item, p.second_item)
    WHERE i.contender <> j.contender AND (:run IS NULL OR i.run_id = :run)
"""


class Stars(BaseModel):
    """Mean stars over images, equally weighted, and the number of raters and ratings."""

    mean: float
    raters: int
    ratings: int


class Standing(BaseModel):
    """A row of the leaderboard.

    score, low, high: ranking mean over cases and its 95 % interval; scored_mean: mean over scored
    items only; reference: mean `score_reference` over ground-truth cases; spread: mean standard
    deviation of draws within a case; scored: number of cases with a score; cases: number of all;
    rank: None below LEAST cases; failures: number of finished items without a score, by kind, of
    which `excused` do not count; cost: dollars; seconds: mean per image; stars: by context; older:
    number of scores of older constants, which are left out.
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
    """Agreement of blind raters with each other and with the score, and their preferences."""

    alpha: Estimate
    spearman: Estimate
    strengths: dict[str, Estimate]


@dataclass(frozen=True)
class Tables:
    """Items and people's answers of a run, or of all runs, as tables.

    items: a row per item, with `value`: the score, 0 for a failure that counts, nan for an item
    that does not count; ratings, preferences: a row per answer.
    """

    contenders: Mapping[str, Contender]
    items: pd.DataFrame
    ratings: pd.DataFrame
    preferences: pd.DataFrame


def read_tables(store: Store, run_id: str | None = None) -> Tables:
    """Read the tables from which statistics are computed; run_id: None for all runs."""
    runs = store.runs() if run_id is None else [store.run(run_id)]
    contenders: dict[str, Contender] = {}
    for run in runs:
        contenders |= run.contenders
    return Tables(
        contenders=contenders,
        items=_evaluate_items(store.table(_ITEMS, run=run_id), runs),
        ratings=store.table(_RATINGS, run=run_id),
        preferences=store.table(_PREFERENCES, run=run_id),
    )


def rank_contenders(tables: Tables, *, bootstrap: int = 1000, seed: int = 0) -> list[Standing]:
    """Compute the standings; ranked rows come first, the best one first.

    They are ordered by blind stars if every ranked row has at least STARS_LEAD of them, otherwise
    by score.
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
    blind_ratings = [
        standing.stars["blind"].ratings if "blind" in standing.stars else 0
        for standing in standings
        if standing.rank
    ]
    by_stars = min(blind_ratings, default=0) >= STARS_LEAD

    def order(standing: Standing) -> tuple[bool, float, str]:
        key = standing.stars["blind"].mean if by_stars and standing.rank else standing.score
        return standing.rank is None, -(key or 0.0), standing.label

    return sorted(standings, key=order)


def summarize_raters(tables: Tables, *, bootstrap: int = 1000, seed: int = 0) -> RaterStatistics:
    """Compute the agreement of blind raters, and strengths from preferences.

    An estimate without a value says why there is none.
    """
    ratings = tables.ratings.query("context == 'blind'")
    items = tables.items.query("image_sha256 != ''")
    columns = (items.groupby("image_sha256").score, ratings.groupby("image_sha256").stars)
    both = pd.concat([column.mean() for column in columns], axis=1).dropna()
    unique = ratings.drop_duplicates(["image_sha256", "rater"])
    counts = pd.crosstab(unique.image_sha256, unique.stars).reindex(columns=[*STARS], fill_value=0)
    strengths = fit_bradley_terry(*split_votes(tables.preferences))
    labels = [tables.contenders[name].label for name in strengths]
    names = [
        label if labels.count(label) == 1 else f"{label}, {name}"
        for label, name in zip(labels, strengths, strict=True)
    ]
    return RaterStatistics(
        alpha=krippendorff_alpha(counts.to_numpy(), bootstrap=bootstrap, seed=seed),
        spearman=spearman(both.to_numpy(dtype=np.float64), bootstrap=bootstrap, seed=seed),
        strengths=dict(zip(names, strengths.values(), strict=True)),
    )


def split_votes(votes: pd.DataFrame) -> tuple[list[Pair], list[Pair]]:
    """Split votes into preferences, as pairs (preferred, other), and ties."""
    preferences: list[Pair] = []
    ties: list[Pair] = []
    for first, second, tie in votes.itertuples(index=False, name=None):
        (ties if tie else preferences).append((first, second))
    return preferences, ties


def _evaluate_items(items: pd.DataFrame, runs: Sequence[Run]) -> pd.DataFrame:
    """Add the columns `value`, `older`, `failed` and `excused` to items; see `Tables`.

    The case's digest is appended to `case_id`: another photograph of that name is another case. An
    image that a later run reused counts once.
    """
    digests = {
        (run.run_id, case["case_id"]): case.get("digest", "") for run in runs for case in run.cases
    }
    items["case_id"] += [digests[key] for key in zip(items.run_id, items.case_id, strict=True)]
    scored = items.score.notna()
    newest = max(items.version[scored], key=_age, default="")
    items["older"] = scored & (items.version != newest)
    # A column without numbers is read as objects, whose means take pandas ten times as long.
    items = items.astype({"score": float, "score_reference": float})
    items.loc[items.older, ["score", "score_reference"]] = np.nan
    items["failed"] = items.status.isin(["failed", "skipped"])
    items["excused"] = items.failed & items.failure_kind.isin(EXCUSED)
    items["value"] = items.score.where(~(items.failed & ~items.excused), 0.0)
    counted = items[items.value.notna() & (items.image_sha256 != "")]
    copies = counted.index[counted.duplicated(["contender", "case_id", "image_sha256"])]
    items.loc[copies, ["score", "score_reference", "value"]] = np.nan
    items.loc[copies, ["failed", "excused"]] = False
    return items


def _age(version: str) -> tuple[int, str]:
    """Return a sort key of versions, which are numbers; a scorer without a version comes first."""
    return (int(version) if version.isdecimal() else -1, version)


def _stars(ratings: pd.DataFrame) -> dict[str, dict[str, Stars]]:
    """Average stars by contender and context."""
    stars: dict[str, dict[str, Stars]] = {}
    for (contender, context), rows in ratings.groupby(["contender", "context"]):
        mean = rows.groupby("image_sha256").stars.mean().mean()
        stars.setdefault(contender, {})[context] = Stars(
            mean=mean, raters=rows.rater.nunique(), ratings=len(rows)
        )
    return stars


def _ranking(items: pd.DataFrame, *, bootstrap: int, seed: int) -> dict[str, dict[str, Any]]:
    """Compute mean, interval and rank of each contender that has a value.

    rank: 1 + the number of significantly better contenders, whose interval of the mean difference
    over at least LEAST shared cases lies above 0; None below LEAST cases with a value.
    """
    table = items.pivot_table("value", "case_id", "contender", dropna=False)
    table = table.dropna(axis=1, how="all")
    if table.empty:
        return {}
    values = table.to_numpy(dtype=np.float64)
    contenders = values.shape[1]
    first, second = np.triu_indices(contenders, 1)
    # Contenders and, in the same resamples, the differences of all pairs of contenders.
    columns = np.hstack([values, values[:, first] - values[:, second]])
    counts = np.isfinite(columns).sum(axis=0)
    resampled = resample_means(columns, bootstrap=bootstrap, seed=seed)
    lows, highs = confidence_bounds(resampled, counts)
    low, difference_low = np.split(lows, [contenders])
    high, difference_high = np.split(highs, [contenders])
    cases, shared_cases = np.split(counts, [contenders])
    comparable = shared_cases >= LEAST
    ranks = np.ones(contenders, dtype=int)
    np.add.at(ranks, second[comparable & (difference_low > 0)], 1)
    np.add.at(ranks, first[comparable & (difference_high < 0)], 1)
    return {
        name: {
            "score": float(np.nanmean(values[:, i])),
            "low": _nan_to_none(low[i]),
            "high": _nan_to_none(high[i]),
            "rank": int(ranks[i]) if cases[i] >= LEAST else None,
        }
        for i, name in enumerate(table.columns)
    }


def _standing(
    contender: Contender, items: pd.DataFrame, ranking: Mapping[str, Any], stars: dict[str, Stars]
) -> Standing:
    scored = items[items.score.notna()]
    kinds = items[items.failed].failure_kind.replace("", "unknown").value_counts()
    draws = scored.groupby("case_id").score
    seconds = items[items.seconds > 0].seconds
    return Standing(
        contender=contender.contender_id,
        tool_id=contender.tool_id,
        label=contender.label,
        title=contender.title,
        **{"rank": None, "score": None, "low": None, "high": None, **ranking},
        scored_mean=_nan_to_none(draws.mean().mean()),
        reference=_nan_to_none(scored.groupby("case_id").score_reference.mean().mean()),
        spread=_nan_to_none(draws.std().mean()),
        scored=scored.case_id.nunique(),
        cases=items.case_id.nunique(),
        failures={str(kind): int(n) for kind, n in kinds.items()},
        excused=int(items.excused.sum()),
        components=_mean_components(scored.components),
        cost=float(items.cost.sum()),
        seconds=_nan_to_none(seconds.mean()),
        stars=stars,
        older=int(items.older.sum()),
    )


def _nan_to_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _mean_components(texts: pd.Series[Any]) -> dict[str, float]:
    table = pd.DataFrame(json.loads(f"[{','.join(texts)}]"), dtype=float)  # parsed at once: faster
    return {str(name): float(mean) for name, mean in table.mean().dropna().items()}
