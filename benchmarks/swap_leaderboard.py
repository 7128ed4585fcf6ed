"""Time of the leaderboard with 10,000 items in the store.

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
from genlab.benchmark.leaderboard import leaderboard, people
from genlab.benchmark.store.repository import Store

TOOLS = 10
COMPONENTS = ("identity", "background", "realism", "landmarks", "faces")
RATERS = ("ada", "grace", "mary")


def fill(path: Path, items: int, seed: int) -> None:
    """Create a store at `path` with one run of `items` items."""
    rng = np.random.default_rng(seed)
    cases = [{"case_id": f"case_{index:05}"} for index in range(items // TOOLS)]
    tools = [{"tool_id": f"tool_{index}"} for index in range(TOOLS)]
    with Store(path) as store:
        store.create_run("2026-01-01", "2026-01-01T00:00:00+00:00", {}, cases, tools)
        made = store.items("2026-01-01")
        store.set_items([(int(item.item_id), _outcome(rng, int(item.item_id))) for item in made])
        for item in made[::10]:
            for rater in RATERS:
                store.rate(
                    "run_item",
                    f"{item.item_id:064x}",
                    rater,
                    int(rng.integers(1, 6)),
                    run_item_id=item.item_id,
                    blind=True,
                )


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
