"""How long the leaderboard takes with 10,000 items in the store.

Ten tools went through 1,000 cases; one item in twenty failed, and three people rated every tenth
picture. A repeat opens the store again, takes the standings and what people say, and closes it.
Importing Python's packages is not in it: a server pays for that once.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from genlab.benchmark.leaderboard import leaderboard, people
from genlab.benchmark.store.repository import Store
from genlab.core.errors import run_cli
from record import record
from spread import median, shown

TOOLS = 10
COMPONENTS = ("identity", "background", "realism", "landmarks", "faces")
RATERS = ("ada", "grace", "mary")


def fill(path: Path, items: int, seed: int) -> None:
    """Make a store at `path` with one run of `items` items."""
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


def seconds(path: Path) -> float:
    """Wall time of one leaderboard, from the file to the numbers."""
    started = time.perf_counter()
    with Store(path) as store:
        standings = leaderboard(store)
        people(store)
    taken = time.perf_counter() - started
    assert len(standings) == TOOLS
    assert all(standing.rank for standing in standings)
    return taken


def bench(
    items: Annotated[int, typer.Option(min=100, help="Items in the store.")] = 10_000,
    repeats: Annotated[int, typer.Option(min=5, help="Repeats.")] = 15,
    seed: Annotated[int, typer.Option(help="Seed of the items.")] = 0,
    output: Annotated[Path, typer.Option(help="File the result goes to.")] = Path(
        "results/benchmarks.json"
    ),
) -> None:
    """Measure the leaderboard; write `swap.leaderboard_s`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "genlab.sqlite3"
        fill(path, items, seed)
        seconds(path)
        taken = [seconds(path) for _ in range(repeats)]
    middle, interval = median(taken, seed)
    print(f"leaderboard of {items:,} items: median {middle:.3f} s, {repeats} repeats")
    print(f"95 % interval {shown(interval, '.3f')} s, slowest {max(taken):.3f} s")
    record(
        "swap.leaderboard_s",
        middle,
        interval=interval,
        n=items,
        seeds=[seed],
        command="python benchmarks/swap_leaderboard.py",
        path=output,
    )


if __name__ == "__main__":
    run_cli(lambda: typer.run(bench))
