"""Error rates of the agent's decisions: false successes, and goals that are met and recognised.

Runs are simulated, and decided on by the functions that decide on real ones. In one kind of run all
attempts lie a tenth of a seed's standard deviation below the goal; in the other kind one of them
lies two standard deviations above it. All attempts share their validation items, and so the luck of
the items. Its standard error is half of a seed's standard deviation; the details have other sizes.
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

RUNS = 2000
ATTEMPTS = 5
GOAL = parse_goal("dummy, at least 80 % accuracy")
SETTINGS = settings(GOAL, seeds=3, confirmation_seeds=5, max_iterations=ATTEMPTS)
SPREAD = 0.01  # standard deviation of a seed
BELOW = -0.1  # distance from the goal, in standard deviations of a seed
ABOVE = 2.0  # likewise
ITEM_ERRORS = (0.0, 0.5, 1.0)  # standard errors over items, in standard deviations of a seed
REPORTED = 0.5


def train(rng: np.random.Generator, mean: float, error: float, seeds: int) -> list[dict[str, Any]]:
    """Draw the results of a number of seeds."""
    return [
        {
            "metrics": {"accuracy": mean + rng.normal(0, SPREAD), "n": 10_000},
            "errors": {"accuracy": error},
        }
        for _ in range(seeds)
    ]


def simulate(rng: np.random.Generator, means: Sequence[float], error: float) -> int | None:
    """Simulate a run; returns the index of the attempt that meets the goal, None if none does."""
    luck = rng.normal(0, error)
    attempts = list[Attempt]()
    for number, mean in enumerate(means, 1):
        seeds = train(rng, mean + luck, error, SETTINGS.params.seeds)
        trained = attempt(number).model_copy(update={"failure": "", "seeds": seeds})
        best = find_best([*attempts, trained], SETTINGS)
        if best is trained and is_promising(trained, SETTINGS):
            count = SETTINGS.params.confirmation_seeds
            confirmation = train(rng, mean + luck, error, count)
            trained = trained.model_copy(update={"confirmation": confirmation})
        attempts.append(trained.model_copy(update={"verdict": judge_attempt(trained, GOAL)}))
        if attempts[-1].verdict == "met":
            return number - 1
    return None


def measure(share: float) -> tuple[int, int]:
    """Count the runs that end "met": of those without a good attempt, and of those with one.

    In the latter only the good attempt counts. share: error over items, in standard deviations of a
    seed.
    """
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
