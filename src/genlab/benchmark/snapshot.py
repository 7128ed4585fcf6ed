"""Stage benchmark: continue its run in `runs/`, and write the leaderboard.

A run with the same cases, contenders and repeats is resumed; otherwise a new run begins, which
copies the images of earlier runs. Images are scored again if the scorer's version has changed.

Private cases are left out: the outs are committed, or pushed to a remote.
"""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from genlab.benchmark.cases import Case
from genlab.benchmark.leaderboard.chart import draw_scores
from genlab.benchmark.leaderboard.standings import Standing, rank_contenders, read_tables
from genlab.benchmark.report import render_report
from genlab.benchmark.run.rescore import rescore
from genlab.benchmark.run.runner import Runner
from genlab.benchmark.run.threads import complete
from genlab.benchmark.scoring.scorer import versions
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.repository import STORE, Store
from genlab.benchmark.store.schema import Contender
from genlab.benchmark.terminal import choose, follow
from genlab.core.io import write_json, write_text
from genlab.core.params import BenchmarkParams

DIGITS = 6  # decimals of written numbers
RESULTS = Path("results/benchmark.json")


def write_snapshot(
    params: BenchmarkParams, folder: Path, *, seed: int, bootstrap: int
) -> list[Standing]:
    """Finish the stage's run and write its outs under `folder`; returns the standings."""
    cases, contenders, _ = choose(params)
    cases = [case for case in cases if not case.is_private]
    runs = folder / "runs"
    path = folder / "data" / "benchmark" / "report.html"
    with Store(runs / STORE) as store:
        runner = Runner.configured(store, runs, params, reuse=True)
        run_id = find_run(store, cases, contenders, params.repeats)
        if run_id is None:
            run_id = runner.start(
                cases, contenders, repeats=params.repeats, max_cost=params.max_cost
            )
        store.set_run(run_id, max_cost=params.max_cost)
        for line in complete(rescore(runner, run_id, versions())):
            print(line, flush=True)
        follow(runner, run_id)
        standings = rank_contenders(read_tables(store, run_id), bootstrap=bootstrap, seed=seed)
        items = store.items(run_id)
        write_text(path, render_report(store, run_id, bootstrap=bootstrap, seed=seed))
    results = list_standings(standings, items)
    write_json(folder / RESULTS, results)
    write_json(folder / "metrics" / "benchmark.json", _headline(results))
    draw_scores(folder / "plots" / "benchmark" / "scores.png", standings)
    return standings


def find_run(
    store: Store, cases: Sequence[Case], contenders: Sequence[Contender], repeats: int
) -> str | None:
    """Find the newest run of these cases, contenders and repeats; None if there is none."""
    digests = {case.case_id: case.digest for case in cases}
    contender_ids = {contender.contender_id for contender in contenders}
    for run in store.runs():
        run_digests = {case["case_id"]: case.get("digest") for case in run.cases}
        same_contenders = set(run.contenders) == contender_ids
        if run_digests == digests and same_contenders and run.repeats == repeats:
            return run.run_id
    return None


def _headline(results: dict[str, Any]) -> dict[str, Any]:
    """Return the five numbers that `dvc metrics diff` compares."""
    rows = results["contenders"].values()
    scores = [row["score"] for row in rows if row["score"] is not None]
    return {
        "cases": results["cases"],
        "scored": sum(row["scored"] for row in rows),
        "failures": sum(sum(row["failures"].values()) for row in rows),
        "best_score": max(scores, default=None),
        "cost": round(sum(row["cost"] for row in rows), DIGITS),
    }


def list_standings(standings: Iterable[Standing], items: Sequence[ItemResult]) -> dict[str, Any]:
    """Return the leaderboard without seconds and dates: a run always gives the same file."""
    rows = {}
    for standing in sorted(standings, key=lambda standing: standing.label):
        costs = [item.total_cost for item in items if item.contender == standing.contender]
        judge = standing.stars.get("judge")
        rows[standing.label] = {
            **standing.model_dump(exclude={"contender", "title", "seconds", "stars"}),
            "judge_stars": judge.mean if judge else None,
            "cost": sum(costs),  # including the cost of reused images in their own runs
        }
    results = {"cases": len({item.case_id for item in items}), "contenders": rows}
    rounded: dict[str, Any] = json.loads(
        json.dumps(results), parse_float=lambda text: round(float(text), DIGITS)
    )
    return rounded
