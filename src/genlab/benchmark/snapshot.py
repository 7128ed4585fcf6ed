"""What the stage does: go on with this experiment's run in `runs/`, and write what it found.

The run is the stage's own: a sidecar in its folder says what its images and its scores were made
of (params, cases, code). The same again goes on where it was, so that nothing is made or paid for
twice; other images begin a new run; other scorer code scores the same images anew.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from genlab.benchmark.cases import Case, load_cases
from genlab.benchmark.chart import scores
from genlab.benchmark.leaderboard import Standing, leaderboard
from genlab.benchmark.plugins import ImageTool, chosen, load_tools
from genlab.benchmark.report import versions, write_report
from genlab.benchmark.runner import Runner
from genlab.benchmark.terminal import Watch
from genlab.core.artifacts import read_json, write_json
from genlab.core.params import BenchmarkParams
from genlab.core.store import Item, Store

STORE = "genlab.sqlite3"
SIDECAR = "stage.json"
MADE_BY = "dvc repro benchmark"
PACKAGE = "genlab.benchmark"
SCORER = "genlab.benchmark.scorer"
DIGITS = 6
"""Decimals of what is written: a score is not known better."""


@dataclass(frozen=True)
class Places:
    """Where the stage reads and writes."""

    runs: Path = Path("runs")
    data: Path = Path("data/benchmark")
    metrics: Path = Path("metrics/benchmark.json")
    plots: Path = Path("plots/benchmark")


def snapshot(params: BenchmarkParams, seed: int, places: Places) -> list[Standing]:
    """Bring the stage's run to its end and write its outs; returns the standings."""
    cases = load_cases(Path(params.cases))
    tools = chosen(load_tools(), params.tools)
    with Store(places.runs / STORE) as store:
        runner = Runner(
            store,
            places.runs,
            concurrency=params.concurrency,
            scorers=params.scorers,
            timeout=params.timeout,
            retries=params.retries,
            max_cost=params.max_cost,
        )
        run_id = own_run(runner, places.runs, cases, tools)
        watch = Watch([tool.tool_id for tool in tools], len(cases))
        asyncio.run(watch.follow(runner, run_id))
        standings = leaderboard(store, run_id=run_id, bootstrap=params.bootstrap, seed=seed)
        items = store.items(run_id)
        write_report(
            store, run_id, places.data / "report.html", bootstrap=params.bootstrap, seed=seed
        )
    write_json(places.data / "items.json", listed(items))
    write_json(places.metrics, metrics(standings, len(cases)))
    scores(places.plots / "scores.png", standings)
    return standings


def own_run(runner: Runner, runs: Path, cases: Sequence[Case], tools: Sequence[ImageTool]) -> str:
    """The run whose images are those of these cases, tools and code; a new one if there is none."""
    making = _digest(
        [case.case_id + case.digest for case in cases]
        + [f"{tool.tool_id} {code([type(tool).__module__])}" for tool in tools]
    )
    scoring = code([SCORER])
    for run in runner.store.runs():
        sidecar = runs / run.run_id / SIDECAR
        known = read_json(sidecar, made_by=MADE_BY) if sidecar.exists() else {}
        if known.get("making") != making:
            continue
        if known.get("scoring") != scoring:
            # Their images are kept and not asked for again: `generated` is where scoring begins.
            rescored: dict[str, Any] = {
                "status": "generated",
                "score": None,
                "components": {},
                "details": {},
            }
            runner.store.set_items(
                [
                    (item.item_id, {**rescored, "failure_kind": "", "failure": ""})
                    for item in runner.store.items(run.run_id)
                    if item.image and item.finished
                ]
            )
            write_json(sidecar, {"making": making, "scoring": scoring})
        return run.run_id
    run_id = runner.start(cases, tools)
    write_json(runs / run_id / SIDECAR, {"making": making, "scoring": scoring})
    return run_id


def metrics(standings: Iterable[Standing], cases: int) -> dict[str, Any]:
    """What `dvc metrics diff` compares: no seconds, no dates, nothing that people may add to."""
    kept = ("score", "low", "high", "rank", "scored", "cases", "cost", "failures", "components")
    return {
        "cases": cases,
        "tools": {
            s.tool: {name: rounded(getattr(s, name)) for name in kept}
            for s in sorted(standings, key=lambda s: s.tool)
        },
    }


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
                "cost": rounded(item.cost),
            }
            for item in sorted(items, key=lambda item: (item.case_id, item.tool_id))
        ],
    }


def rounded(value: Any) -> Any:
    """The value with its floats rounded to DIGITS."""
    if isinstance(value, float):
        return round(value, DIGITS)
    if isinstance(value, Mapping):
        return {key: rounded(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [rounded(entry) for entry in value]
    return value


def code(modules: Sequence[str]) -> str:
    """SHA-256 of the sources of `modules` and of all of this package that they import."""
    seen: dict[str, bytes] = {}
    waiting = list(modules)
    while waiting:
        module = waiting.pop()
        path = None if module in seen else _source(module)
        if path is None:
            continue
        seen[module] = path.read_bytes()
        waiting += [name for name in _imported(seen[module]) if name.startswith(PACKAGE)]
    return _digest([f"{name} {hashlib.sha256(seen[name]).hexdigest()}" for name in sorted(seen)])


def _source(module: str) -> Path | None:
    try:
        spec = find_spec(module)
    except ModuleNotFoundError:
        return None  # `from package.module import name`: the name is no module
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


def _imported(source: bytes) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def _digest(parts: Sequence[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
