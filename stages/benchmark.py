"""Stage benchmark: run the image tools over the cases, score, and write the leaderboard.

Goes on in runs/ (images and scores that are there are kept) and writes data/benchmark/items.json
and report.html, metrics/benchmark.json and plots/benchmark/scores.png.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genlab.benchmark.snapshot import Places, snapshot
from genlab.core.errors import run_cli
from genlab.core.params import load_params


def benchmark(
    runs: Annotated[Path, typer.Option(help="Folder of images and the store.")] = Places.runs,
    output: Annotated[Path, typer.Option(help="Folder for items and report.")] = Places.data,
    metrics_path: Annotated[Path, typer.Option(help="File for the numbers.")] = Places.metrics,
    plots_path: Annotated[Path, typer.Option(help="Folder for the figure.")] = Places.plots,
) -> None:
    """Run the tools of params.yaml over its cases; what was made before is not made again.

    Example: python stages/benchmark.py
    """
    params = load_params()
    places = Places(runs, output, metrics_path, plots_path)
    standings = snapshot(params.benchmark, params.seed, places)
    best = next((s for s in standings if s.score is not None), None)
    line = "no tool has a score" if best is None else f"{best.tool} leads with {best.score:.3f}"
    print(f"{metrics_path}: {line}")


if __name__ == "__main__":
    run_cli(lambda: typer.run(benchmark))
