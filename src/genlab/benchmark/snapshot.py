"""What stage benchmark does: continue its run in `runs/`, and write what it found.

The run with the same cases, contenders and repeats is resumed; otherwise a new one begins, which
reuses the images of earlier runs. Another version of the score scores the same images again.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genlab.benchmark.cases import Case, load_cases, split_by_consent
from genlab.benchmark.chart import draw_scores
from genlab.benchmark.judging import make_judge
from genlab.benchmark.leaderboard.standings import Standing, leaderboard
from genlab.benchmark.plugins.contender import make_contenders
from genlab.benchmark.plugins.registry import choose_tools, load_tools
from genlab.benchmark.report import list_versions, write_report
from genlab.benchmark.requests import Limits
from genlab.benchmark.reuse import total_cost, unscored
from genlab.benchmark.runner import Runner
from genlab.benchmark.scoring.scorer import versions
from genlab.benchmark.store.repository import STORE, Store
from genlab.benchmark.store.schema import Contender, Item
from genlab.benchmark.terminal import Watch
from genlab.core.io import write_json
from genlab.core.params import BenchmarkParams

DIGITS = 6  # decimals of what is written


@dataclass(frozen=True)
class Places:
    """Where the stage reads and writes."""

    runs: Path = Path("runs")
    data: Path = Path("data/benchmark")
    metrics: Path = Path("metrics/benchmark.json")
    results: Path = Path("results/benchmark.json")
    plots: Path = Path("plots/benchmark")


def write_snapshot(
    params: BenchmarkParams, places: Places, *, seed: int, bootstrap: int
) -> list[Standing]:
    """Finish the stage's run and write its outs; returns the standings."""
    cases, lines = split_by_consent(load_cases(Path(params.cases)))
    for line in lines:
        print(line, file=sys.stderr)
    tools = choose_tools(load_tools(), params.tools)
    contenders = make_contenders(tools, params.options)
    with Store(places.runs / STORE) as store:
        limits = Limits(params.concurrency, params.timeout, params.retries)
        runner = Runner(store, places.runs, limits=limits, judge=make_judge(params))
        run_id = find_run(store, cases, contenders, params.repeats)
        if run_id is None:
            run_id = runner.start(
                cases, contenders, repeats=params.repeats, max_cost=params.max_cost, reuse=True
            )
        _score_again(store, run_id)
        asyncio.run(Watch(store.run(run_id)).follow(runner))
        standings = leaderboard(store, run_id=run_id, bootstrap=bootstrap, seed=seed)
        items = store.items(run_id)
        write_report(store, run_id, places.data / "report.html", bootstrap=bootstrap, seed=seed)
    write_json(places.data / "items.json", _list_items(items))
    results = list_standings(standings, items)
    write_json(places.results, results)
    write_json(places.metrics, _headline(results))
    draw_scores(places.plots / "scores.png", standings)
    return standings


def find_run(
    store: Store, cases: Sequence[Case], contenders: Sequence[Contender], repeats: int
) -> str | None:
    """The newest run of these cases, contenders and repeats."""
    wanted = {case.case_id: case.digest for case in cases}
    ids = {contender.contender_id for contender in contenders}
    for run in store.runs():
        digests = {case["case_id"]: case.get("digest") for case in run.cases}
        if (digests, set(run.contenders), run.repeats) == (wanted, ids, repeats):
            return run.run_id
    return None


def _score_again(store: Store, run_id: str) -> None:
    """Queue images for scoring whose score is of other constants, models or libraries."""
    now = versions()
    stale = [
        (item.item_id, unscored(item))
        for item in store.items(run_id)
        if item.image and item.details.get("versions", now) != now
    ]
    store.set_items(stale)


def _headline(results: Mapping[str, Any]) -> dict[str, Any]:
    """The five numbers that `dvc metrics diff` compares."""
    rows = results["contenders"].values()
    return {
        "cases": results["cases"],
        "scored": sum(row["scored"] for row in rows),
        "failures": sum(sum(row["failures"].values()) for row in rows),
        "best_score": max((row["score"] for row in rows if row["score"] is not None), default=None),
        "cost": _round(sum(row["cost"] for row in rows)),
    }


def list_standings(standings: Iterable[Standing], items: Sequence[Item]) -> dict[str, Any]:
    """The leaderboard without seconds and dates: the same run gives the same file."""
    costs = {
        standing.contender: sum(
            total_cost(item) for item in items if item.contender == standing.contender
        )
        for standing in standings
    }
    left_out = {"contender", "title", "seconds", "stars", "cost"}
    rows = {
        standing.label: {
            **standing.model_dump(exclude=left_out),
            "judge_stars": standing.stars["judge"].mean if "judge" in standing.stars else None,
            "cost": costs[standing.contender],
        }
        for standing in sorted(standings, key=lambda standing: standing.label)
    }
    return {"cases": len({item.case_id for item in items}), "contenders": _round(rows)}


def _list_items(items: Sequence[Item]) -> dict[str, Any]:
    """Every item's outcome, and the versions of models and constants behind the scores."""
    kept = (
        *("case_id", "contender", "repeat", "status", "score", "score_reference", "components"),
        *("failure_kind", "failure"),
    )
    rows = [
        {
            **{name: _round(getattr(item, name)) for name in kept},
            "persons": _round(item.details.get("persons", [])),
            "notes": item.details.get("notes", []),
            "cost": _round(total_cost(item)),
        }
        for item in sorted(items, key=lambda item: (item.case_id, item.contender, item.repeat))
    ]
    return {"version": 2, "versions": list_versions(items), "items": rows}


def _round(value: Any) -> Any:
    """The value with its floats rounded to DIGITS."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: _round(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_round(entry) for entry in value]
    return value
