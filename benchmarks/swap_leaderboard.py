"""Time of the leaderboard with 10,000 items, and its order where the first edition was wrong.

Ten tools ran on 1,000 cases; one item in twenty failed, and three people rated every tenth picture.
A repeat opens the store, computes the standings and the ratings' summary, and closes it. Imports
are not included: a server pays for them once.
"""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness import Repeats, Result, benchmark, wall_seconds
from genlab.benchmark.leaderboard.standings import rank_contenders, read_tables, summarize_raters
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Contender

ITEMS = 10_000
TOOLS = 10
COMPONENTS = ("identity", "background", "realism", "landmarks", "faces")
RATERS = ("ada", "grace", "mary")
RUN = "2026-01-01"


def fill(
    store: Store,
    tools: list[Contender],
    cases: int,
    outcome: Callable[[ItemResult], dict[str, Any]],
) -> None:
    """Add one run, each item with its outcome."""
    named = [{"case_id": f"case_{index:05}"} for index in range(cases)]
    store.create_run(RUN, f"{RUN}T00:00:00+00:00", named, tools)
    store.save_items([item.sqlmodel_update(outcome(item)) for item in store.items(RUN)])


def show_leaderboard(path: Path) -> None:
    """Compute one leaderboard, from the file to the numbers."""
    with Store(path) as store:
        tables = read_tables(store)
        standings = rank_contenders(tables)
        summarize_raters(tables)
    assert len(standings) == TOOLS
    assert all(standing.rank for standing in standings)


@benchmark("swap.leaderboard_s")
def swap_leaderboard(repeats: Repeats = 15) -> Iterator[Result]:
    """Time the leaderboard."""
    rng = np.random.default_rng(0)

    def outcome(item: ItemResult) -> dict[str, Any]:
        if rng.random() < 0.05:
            return {"status": "failed", "failure_kind": "timeout", "failure": "no answer"}
        return {
            "status": "scored",
            "image_sha256": f"{item.item_id:064x}",
            "score": float(rng.beta(8, 2)),
            "components": {name: float(rng.random()) for name in COMPONENTS},
            "cost": 0.04,
            "seconds": float(rng.gamma(4, 2)),
        }

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "genlab.sqlite3"
        with Store(path) as store:
            tools = [Contender(tool_id=f"tool_{index}") for index in range(TOOLS)]
            fill(store, tools, ITEMS // TOOLS, outcome)
            for item in store.items(RUN)[::10]:
                for rater in RATERS:
                    stars = int(rng.integers(1, 6))
                    store.rate("run_item", f"{item.item_id:064x}", rater, stars, "blind")
        show_leaderboard(path)
        taken = [wall_seconds(lambda: show_leaderboard(path)) for _ in range(repeats)]
    yield replace(Result.median("swap.leaderboard_s", taken), n=ITEMS)


@benchmark("swap.rank")
def swap_rank() -> Iterator[Result]:
    """Order two stores that the first edition ordered wrongly.

    In one a tool with the higher scores loses four of seven faces; in the other two models of a
    tool, one good and one bad, were averaged into one row behind a mediocre tool.
    """
    lost = {("steady", ""): [0.6] * 7, ("flaky", ""): [0.95] * 3 + [None] * 4}
    models = {
        ("service", "good"): [0.9] * 7,
        ("mediocre", ""): [0.7] * 7,
        ("service", "bad"): [0.2] * 7,
    }
    yield Result("swap.rank", float(is_ordered(lost) and is_ordered(models)), n=2)


def is_ordered(scores: dict[tuple[str, str], list[float | None]]) -> bool:
    """Whether the leaderboard has (tool, model) in the given order; scores: one per case."""
    tools = [Contender(tool_id=tool, model=model) for tool, model in scores]
    ids = [contender.contender_id for contender in tools]
    by_id = dict(zip(ids, scores.values(), strict=True))

    def outcome(item: ItemResult) -> dict[str, Any]:
        score = by_id[item.contender][int(item.case_id[-1])]
        if score is None:
            return {"status": "failed", "failure_kind": "no_face"}
        return {"status": "scored", "score": score}

    with tempfile.TemporaryDirectory() as folder, Store(Path(folder) / "s.sqlite3") as store:
        fill(store, tools, 7, outcome)
        return [standing.contender for standing in rank_contenders(read_tables(store))] == ids
