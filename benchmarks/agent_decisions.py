"""How often the agent's rule says that a goal is met where it is not, and where it is.

Runs of attempts are simulated, and decided on by the functions that decide on real ones: all
attempts a tenth of a seed's standard deviation below the goal, and the same with one of them two
standard deviations above it. All attempts share their validation items, so
that the luck of the items is the same for all; its standard error is half of a seed's standard
deviation, and the details have other sizes of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from agent_runs import attempt, settings

from benchmarks.harness import Result, benchmark
from genlab.agent.decisions import find_best, is_promising, judge_attempt
from genlab.agent.goals.goal import parse_goal
from genlab.agent.registry import Attempt

RUNS, ATTEMPTS = 2000, 5
GOAL = parse_goal("dummy, at least 80 % accuracy")
SETTINGS = settings(GOAL, seeds=3, confirmation_seeds=5, max_iterations=ATTEMPTS)
SPREAD = 0.01  # standard deviation of a seed
BELOW, ABOVE = -0.1, 2.0  # standard deviations of a seed from the goal
ITEM_ERRORS = (0.0, 0.5, 1.0)  # standard errors over items, in standard deviations of a seed
REPORTED = 0.5


def train(rng: np.random.Generator, mean: float, error: float, seeds: int) -> list[dict[str, Any]]:
    """Results of so many seeds."""
    return [
        {
            "metrics": {"accuracy": mean + rng.normal(0, SPREAD), "n": 10_000},
            "errors": {"accuracy": error},
        }
        for _ in range(seeds)
    ]


def simulate(rng: np.random.Generator, means: Sequence[float], error: float) -> int | None:
    """Index of the attempt with which a run ends "met"; None where it does not."""
    luck = rng.normal(0, error)
    attempts = list[Attempt]()
    for number, mean in enumerate(means, 1):
        seeds = train(rng, mean + luck, error, SETTINGS.params.seeds)
        made = attempt(number).model_copy(update={"failure": "", "seeds": seeds})
        best = find_best([*attempts, made], SETTINGS)
        if best is made and is_promising(made, SETTINGS):
            count = SETTINGS.params.confirmation_seeds
            confirmation = train(rng, mean + luck, error, count)
            made = made.model_copy(update={"confirmation": confirmation})
        attempts.append(made.model_copy(update={"verdict": judge_attempt(made, GOAL)}))
        if attempts[-1].verdict == "met":
            return number - 1
    return None


def measure(share: float) -> tuple[int, int]:
    """Runs that end "met" without and with an attempt that is, for an error over items."""
    rng = np.random.default_rng(0)
    error = share * SPREAD
    low = GOAL.threshold + BELOW * SPREAD
    false = sum(simulate(rng, [low] * ATTEMPTS, error) is not None for _ in range(RUNS))
    hits = 0
    for _ in range(RUNS):
        better = int(rng.integers(ATTEMPTS))
        means = [low] * ATTEMPTS
        means[better] = GOAL.threshold + ABOVE * SPREAD
        hits += simulate(rng, means, error) == better
    return false, hits


@benchmark("agent.false_success", "agent.false_success.power")
def agent_decisions() -> Iterator[Result]:
    """Simulate runs that the rule of success decides on."""
    measured = {share: measure(share) for share in ITEM_ERRORS}
    for share, (false, hits) in measured.items():
        print(f"error over items {share:g} of a seed's: {false / RUNS:.3f}, {hits / RUNS:.3f}")
    false, hits = measured[REPORTED]
    details = {
        f"item_error_{share:g}": {"false_success": runs[0] / RUNS, "power": runs[1] / RUNS}
        for share, runs in measured.items()
    }
    yield replace(Result.rate("agent.false_success", false, RUNS), details=details)
    yield Result.rate("agent.false_success.power", hits, RUNS)
