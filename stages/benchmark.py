"""Stage benchmark: run the image tools over the cases, score, and write the leaderboard.

It resumes in runs/, where finished images and scores are kept, and writes
data/benchmark/report.html, results/benchmark.json, metrics/benchmark.json (the headline) and
plots/benchmark/scores.png.
"""

from pathlib import Path

from genlab.benchmark.snapshot import RESULTS, write_snapshot
from genlab.core.errors import run_cli
from genlab.core.params.options import overridable, parse_options


class Options(overridable("seed", "bootstrap")):
    """Run the tools of params.yaml over its cases; finished images are not made again.

    Example: python stages/benchmark.py
    """


def main() -> None:
    """Run the stage."""
    params = parse_options(Options).params
    standings = write_snapshot(
        params.benchmark, Path(), seed=params.seed, bootstrap=params.bootstrap
    )
    ranked = [standing for standing in standings if standing.score is not None]
    line = "no contender has a score"
    if ranked:
        line = f"{ranked[0].label} leads with {ranked[0].score:.3f}"
    print(f"{RESULTS}: {line}")


if __name__ == "__main__":
    run_cli(main)
