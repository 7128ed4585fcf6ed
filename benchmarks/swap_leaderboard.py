"""Time of the leaderboard with 10,000 items, and its order where the first edition was wrong.

Ten tools ran on 1,000 cases; one item in twenty failed, and three people rated every tenth picture.
A repeat opens the store, computes the standings and the ratings' summary, and closes it. Imports
are not included: a server pays for them once.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from benchmarks.harness import Result, benchmark, wall_seconds
from genlab.benchmark.leaderboard.standings import leaderboard, people
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Contender

TOOLS = 10
COMPONENTS = ("identity", "background", "realism", "landmarks", "faces")
RATERS = ("ada", "grace", "mary")
Scores = list[tuple[Contender, list[float | None]]]
"""Contenders from the best to the worst, each with its score per case."""


def fill(path: Path, items: int, seed: int) -> None:
    """Create a store at `path` with one run of `items` items."""
    rng = np.random.default_rng(seed)
    cases = [{"case_id": f"case_{index:05}"} for index in range(items // TOOLS)]
    tools = [Contender(tool_id=f"tool_{index}") for index in range(TOOLS)]
    with Store(path) as store:
        store.create_run("2026-01-01", "2026-01-01T00:00:00+00:00", cases, tools)
        made = store.items("2026-01-01")
        store.set_items([(int(item.item_id), _outcome(rng, int(item.item_id))) for item in made])
        for item in made[::10]:
            for rater in RATERS:
                stars = int(rng.integers(1, 6))
                store.rate("run_item", f"{item.item_id:064x}", rater, stars, "blind")


def _outcome(rng: np.random.Generator, item_id: int) -> dict[str, object]:
    if rng.random() < 0.05:
        return {"status": "failed", "failure_kind": "timeout", "failure": "no answer"}
    return {
        "status": "scored",
        "image_sha256": f"{item_id:064x}",
        "score": float(rng.beta(8, 2)),
        "components": {name: float(rng.random()) for name in COMPONENTS},
        "cost": 0.04,
        "seconds": float(rng.gamma(4, 2)),
    }


def show_leaderboard(path: Path) -> None:
    """Compute one leaderboard, from the file to the numbers."""
    with Store(path) as store:
        standings = leaderboard(store)
        people(store)
    assert len(standings) == TOOLS
    assert all(standing.rank for standing in standings)


@benchmark("swap.leaderboard_s")
def swap_leaderboard(
    items: Annotated[int, typer.Option(min=100, help="Items in the store.")] = 10_000,
    repeats: Annotated[int, typer.Option(min=3, help="Repeats.")] = 15,
    seed: Annotated[int, typer.Option(help="Seed of the items.")] = 0,
) -> Iterator[Result]:
    """Time the leaderboard."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "genlab.sqlite3"
        fill(path, items, seed)
        show_leaderboard(path)
        taken = [wall_seconds(lambda: show_leaderboard(path)) for _ in range(repeats)]
    yield replace(Result.median("swap.leaderboard_s", taken, seed), n=items)


@benchmark("swap.rank")
def swap_rank() -> Iterator[Result]:
    """Order two stores that the first edition ordered wrongly.

    In one a tool with the higher scores loses four of seven faces; in the other two models of a
    tool, one good and one bad, were averaged into one row behind a mediocre tool.
    """
    lost: Scores = [
        (Contender(tool_id="steady"), [0.6] * 7),
        (Contender(tool_id="flaky"), [0.95, 0.95, 0.95, None, None, None, None]),
    ]
    models: Scores = [
        (Contender(tool_id="service", model="good"), [0.9] * 7),
        (Contender(tool_id="mediocre"), [0.7] * 7),
        (Contender(tool_id="service", model="bad"), [0.2] * 7),
    ]
    with tempfile.TemporaryDirectory() as folder:
        right = [_ordered(Path(folder) / f"{n}.sqlite3", s) for n, s in enumerate((lost, models))]
    yield Result("swap.rank", float(all(right)), n=len(right))


def _ordered(path: Path, scores: Scores) -> bool:
    """Whether the leaderboard has the contenders in the given order."""
    cases = [{"case_id": f"case_{index}"} for index in range(7)]
    by_id = {contender.contender_id: values for contender, values in scores}
    with Store(path) as store:
        store.create_run("r", "2026-01-01T00:00:00+00:00", cases, [each for each, _ in scores])
        for item in store.items("r"):
            score = by_id[item.contender][int(item.case_id[-1])]
            failure = {"status": "failed", "failure_kind": "no_face"}
            outcome = {"status": "scored", "score": score} if score is not None else failure
            store.set_items([(item.item_id, outcome)])
        found = [standing.contender for standing in leaderboard(store)]
    return found == list(by_id)
