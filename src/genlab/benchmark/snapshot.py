"""What the stage does: go on with this experiment's run in `runs/`, and write what it found.

The run is the stage's own: a sidecar in its folder says what each of its images and its scores were
made of (cases, versions of tools and score). The same again goes on where it was; anything else
begins a new run, which takes over every image that is made of the same, so that nothing is paid for
twice; another version of the score scores the same images again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genlab.benchmark import scorer
from genlab.benchmark.cases import Case, load_cases
from genlab.benchmark.chart import scores
from genlab.benchmark.constants import CONSTANTS
from genlab.benchmark.inheritance import making_of, paid, unscored
from genlab.benchmark.judging import COLUMN, judge_of
from genlab.benchmark.leaderboard import Standing, leaderboard
from genlab.benchmark.plugins import ImageTool, chosen, load_tools
from genlab.benchmark.report import versions, write_report
from genlab.benchmark.runner import Runner
from genlab.benchmark.store.repository import Item, Store
from genlab.benchmark.terminal import Watch
from genlab.core.io import read_json, write_json
from genlab.core.params import BenchmarkParams, digest

STORE = "genlab.sqlite3"
SIDECAR = "stage.json"
PRODUCER_COMMAND = "dvc repro benchmark"
DIGITS = 6
"""Decimals of what is written: a score is not known better."""


@dataclass(frozen=True)
class Places:
    """Where the stage reads and writes."""

    runs: Path = Path("runs")
    data: Path = Path("data/benchmark")
    metrics: Path = Path("metrics/benchmark.json")
    results: Path = Path("results/benchmark.json")
    plots: Path = Path("plots/benchmark")


def snapshot(
    params: BenchmarkParams, places: Places, *, seed: int, bootstrap: int
) -> list[Standing]:
    """Bring the stage's run to its end and write its outs; returns the standings."""
    cases = load_cases(Path(params.cases))
    tools = chosen(load_tools(), params.tools)
    with Store(places.runs / STORE) as store:
        runner = Runner(
            store,
            places.runs,
            concurrency=params.concurrency,
            timeout=params.timeout,
            retries=params.retries,
            max_cost=params.max_cost,
            judge=judge_of(params),
        )
        run_id = own_run(runner, places.runs, cases, tools)
        watch = Watch([tool.tool_id for tool in tools], len(cases))
        asyncio.run(watch.follow(runner, run_id))
        standings = leaderboard(store, run_id=run_id, bootstrap=bootstrap, seed=seed)
        items = store.items(run_id)
        write_report(store, run_id, places.data / "report.html", bootstrap=bootstrap, seed=seed)
    write_json(places.data / "items.json", listed(items))
    found = results(standings, items)
    write_json(places.results, found)
    write_json(places.metrics, headline(found))
    scores(places.plots / "scores.png", standings)
    return standings


def own_run(runner: Runner, runs: Path, cases: Sequence[Case], tools: Sequence[ImageTool]) -> str:
    """The run whose images are those of these cases and tools.

    A new one where there is none, with the images of earlier ones that would be made the same.
    """
    own = {"version": 3, "making": making_of(cases, tools), "scoring": scoring()}
    earlier = list(_own_items(runner.store, runs, own))
    for run_id, known, items in earlier:
        if known["making"] == own["making"]:
            if known["scoring"] != own["scoring"]:
                again = [(item.item_id, unscored(item)) for item in items if item.image]
                runner.store.set_items(again)
                write_json(runs / run_id / SIDECAR, own)
            return run_id
    run_id = runner.start(cases, tools, earlier=[item for _, _, items in earlier for item in items])
    write_json(runs / run_id / SIDECAR, own)
    return run_id


def scoring() -> str:
    """A digest of what a score depends on beside the image: constants, models, libraries."""
    return digest({**scorer.versions(), "values": repr(CONSTANTS)})


def _own_items(
    store: Store, runs: Path, own: Mapping[str, Any]
) -> Iterator[tuple[str, dict[str, Any], list[Item]]]:
    """The stage's runs, the newest first, with their sidecars and those of their items that would
    be made the same today; without their scores where these would not."""
    for run in store.runs():
        sidecar = runs / run.run_id / SIDECAR
        known = read_json(sidecar, producer_command=PRODUCER_COMMAND) if sidecar.exists() else {}
        if known.get("version") != own["version"]:
            continue
        items = [
            item
            for item in store.items(run.run_id)
            if known["making"].get(key := f"{item.tool_id}/{item.case_id}", "")
            == own["making"].get(key)
        ]
        for item in items if known["scoring"] != own["scoring"] else []:
            for column, value in unscored(item).items() if item.image else ():
                setattr(item, column, value)
        yield run.run_id, known, items


def headline(found: Mapping[str, Any]) -> dict[str, Any]:
    """The five numbers that `dvc metrics diff` compares; `found` is what `results` returns."""
    tools = found["tools"].values()
    return {
        "cases": found["cases"],
        "scored": sum(tool["scored"] for tool in tools),
        "failures": sum(sum(tool["failures"].values()) for tool in tools),
        "best_score": max((t["score"] for t in tools if t["score"] is not None), default=None),
        "cost": rounded(sum(tool["cost"] for tool in tools)),
    }


def results(standings: Iterable[Standing], items: Sequence[Item]) -> dict[str, Any]:
    """The leaderboard in numbers: no seconds, no dates, nothing that people may add to.

    The cost is what the images took, in whichever run they were made.
    """
    standings = sorted(standings, key=lambda standing: standing.tool)
    judges = {standing.tool: standing.judge for standing in standings}
    kept = ("score", "low", "high", "rank", "scored", "cases", "failures", "components")
    tools = {
        standing.tool: {name: rounded(getattr(standing, name)) for name in kept}
        for standing in standings
    }
    for tool, numbers in tools.items():
        if (said := judges[tool]) is not None:
            numbers["judge"] = rounded({"stars": said.stars, "pictures": said.pictures})
        numbers["cost"] = rounded(sum(paid(item) for item in items if item.tool_id == tool))
    return {"cases": len({item.case_id for item in items}), "tools": tools}


def listed(items: Sequence[Item]) -> dict[str, Any]:
    """Every item's outcome, and the models and constants that the scores rest on."""
    return {
        "version": 1,
        "versions": versions(items),
        "items": [
            {
                "case_id": item.case_id,
                "tool_id": item.tool_id,
                "status": item.status,
                "score": rounded(item.score),
                "components": rounded(item.components),
                "persons": rounded(item.details.get("persons", [])),
                "notes": item.details.get("notes", []),
                "failure_kind": item.failure_kind,
                "failure": item.failure,
                "cost": rounded(paid(item)),
                **_judged(item),
            }
            for item in sorted(items, key=lambda item: (item.case_id, item.tool_id))
        ],
    }


def _judged(item: Item) -> dict[str, Any]:
    """What a judge said of it, where one was asked; not in which run."""
    said = item.details.get(COLUMN)
    return {} if said is None else {COLUMN: {k: v for k, v in said.items() if k != "run_id"}}


def rounded(value: Any) -> Any:
    """The value with its floats rounded to DIGITS."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry) for entry in value]
    return value
