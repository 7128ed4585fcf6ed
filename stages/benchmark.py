"""Stage benchmark: run the image tools over the cases, score, and write the leaderboard.

Resumes in runs/ (images and scores that are there are kept) and writes data/benchmark/items.json
and report.html, results/benchmark.json, metrics/benchmark.json (the headline) and
plots/benchmark/scores.png.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from genlab.benchmark.snapshot import Places, snapshot
from genlab.core.errors import run_cli
from genlab.core.options import overridable, parse_options


class Options(overridable("seed", "bootstrap")):
    """Run the tools of params.yaml over its cases; finished images are not made again.

    Example: python stages/benchmark.py
    """

    runs: Path = Field(Places.runs, description="Folder of images and the store.")
    output: Path = Field(Places.data, description="Folder for items and report.")
    metrics_path: Path = Field(Places.metrics, description="Headline numbers.")
    results_path: Path = Field(Places.results, description="All numbers.")
    plots_path: Path = Field(Places.plots, description="Folder for the figure.")


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    params = options.params
    places = Places(
        options.runs,
        options.output,
        options.metrics_path,
        options.results_path,
        options.plots_path,
    )
    standings = snapshot(params.benchmark, places, seed=params.seed, bootstrap=params.bootstrap)
    best = next((s for s in standings if s.score is not None), None)
    line = "no tool has a score" if best is None else f"{best.tool} leads with {best.score:.3f}"
    print(f"{options.results_path}: {line}")


if __name__ == "__main__":
    run_cli(main)
