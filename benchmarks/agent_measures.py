"""Count the agent's questions to a language model, and measure the overhead of its attempts.

Overhead is the time beyond answers and training. Both are compared with an earlier commit or with
aideml in alternating runs (`agent_processes`). Nothing else should run beside the benchmarks that
measure seconds; `cpu_s` in their details does not depend on that.
"""

import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from benchmarks.agent import WARM_UP
from benchmarks.agent_processes import (
    AIDEML,
    find_clone,
    run_agent,
    run_aideml,
    write_designs,
)
from benchmarks.harness import ROOT, Result, benchmark
from benchmarks.pairs import BASELINE, Baseline, Pairs

OURS = "this version"
Attempts = Annotated[int, typer.Option(min=3, help="Timed attempts of each run.")]


@benchmark("agent.questions", "agent.tokens")
def agent_questions(
    attempts: Annotated[int, typer.Option(min=1, help="Attempts of each run.")] = 5,
    baseline: Baseline = BASELINE,
) -> Iterator[Result]:
    """Count the questions of an attempt, and the prompt tokens of a run over a baseline's."""
    with tempfile.TemporaryDirectory() as folder:
        clone = find_clone(baseline)
        designs = write_designs(clone, Path(folder), attempts)
        before = run_agent(clone, designs, attempts, seeds=3)
        after = run_agent(ROOT, designs, attempts, seeds=3)
    sides = {baseline: before.counts, OURS: after.counts}
    print_table(sides)
    details = {"sides": sides}
    yield Result("agent.questions", len(after.questions) / attempts, n=attempts, details=details)
    yield Result("agent.tokens", after.tokens / before.tokens, n=attempts, details=details)


@benchmark("agent.overhead_ratio")
def agent_overhead_ratio(
    pairs: Pairs = 3, attempts: Attempts = 12, baseline: Baseline = BASELINE
) -> Iterator[Result]:
    """Compare the seconds of an attempt beyond answers and training with a baseline's."""
    ratios = []
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        clone = find_clone(baseline)
        designs = write_designs(clone, Path(folder), attempts + WARM_UP)
        for _ in range(pairs):
            before = run_agent(clone, designs, attempts + WARM_UP)
            after = run_agent(ROOT, designs, attempts + WARM_UP)
            runs.append({baseline: before.describe(), OURS: after.describe()})
            print_table(runs[-1])
            ratios.append(after.overhead() / before.overhead())
    yield replace(Result.median("agent.overhead_ratio", ratios), details={"runs": runs})


@benchmark("agent.overhead_ratio.aideml")
def agent_overhead_aideml(
    pairs: Pairs = 3, attempts: Attempts = 12, baseline: Baseline = BASELINE
) -> Iterator[Result]:
    """Compare the seconds of an attempt beyond answers and training with those of aideml.

    For both, training is the loop alone, as aideml's script of the same design times it. What an
    agent starts and reads before the loop, and measures after it, is overhead.
    """
    ratios = []
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        designs = write_designs(find_clone(baseline), Path(folder), attempts + WARM_UP)
        for _ in range(pairs):
            theirs = run_aideml(designs, attempts + WARM_UP)
            ours = run_agent(ROOT, designs, attempts + WARM_UP)
            trainings = theirs.trainings
            runs.append({AIDEML: theirs.describe(), OURS: ours.describe(trainings)})
            print_table(runs[-1])
            ratios.append(ours.overhead(trainings) / theirs.overhead())
    yield replace(Result.median("agent.overhead_ratio.aideml", ratios), details={"runs": runs})


def print_table(sides: Mapping[str, Mapping[str, float]]) -> None:
    """Print the measurements of several sides, one column each."""
    print("".join(["per attempt".ljust(22), *(name.rjust(16) for name in sides)]))
    for measurement in next(iter(sides.values())):
        values = (f"{side[measurement]:16.3f}" for side in sides.values())
        print("".join([measurement.ljust(22), *values]), flush=True)
