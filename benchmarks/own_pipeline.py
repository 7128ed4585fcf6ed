"""Time of the whole pipeline on 600 of a user's own pictures, relative to the smoke run.

Both use the smoke run's parameters, a separate clone and an empty user cache, and run in turn. The
machine should be idle otherwise.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from scripts.smoke import SMALL, clone, run, smoke

from benchmarks.harness import ROOT, RUN, Repeats, Result, benchmark

SIDE = 28  # in pixels, of the smoke run's images


@benchmark("data.own_pipeline")
def own_pipeline(repeats: Repeats = 1) -> Iterator[Result]:
    """Time `genlab data add`, `dvc repro` and `make report` over the time of the smoke run."""
    seconds: dict[str, list[float]] = {"smoke": [], "own": []}
    for _ in range(repeats):
        for name, measure in (("smoke", smoke), ("own", run_own)):
            with tempfile.TemporaryDirectory(prefix="genlab-own-") as folder:
                os.environ["XDG_CACHE_HOME"] = f"{folder}/cache"
                started = time.perf_counter()
                measure(Path(folder))
                seconds[name].append(time.perf_counter() - started)
    pairs = zip(seconds["own"], seconds["smoke"], strict=True)
    ratios = [own_seconds / smoke_seconds for own_seconds, smoke_seconds in pairs]
    yield replace(Result.median("data.own_pipeline", ratios), details={"seconds": seconds})


def run_own(folder: Path) -> None:
    """Make 600 pictures a dataset of a clone, run its pipeline, and write its report."""
    python = sys.executable
    pictures = folder / "pictures"
    subprocess.run([python, ROOT / "examples/own_data.py", pictures], check=True)
    target = clone(folder / "genlab", {k: v for k, v in SMALL.items() if k != "datasets"})
    add = ["-m", "genlab.cli", "data", "add", "shapes", f"{pictures}/shapes", "--size", str(SIDE)]
    for command in (add, ["-m", "dvc", "repro"], [RUN, "pipeline"], ["-m", "genlab.cli", "report"]):
        run(target, [python, *command])
