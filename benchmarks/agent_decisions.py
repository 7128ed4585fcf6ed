"""How often the agent reports a goal as met although it is not, and although it is.

Runs are simulated, and the functions that decide on real runs decide on them. In half of the runs
all attempts lie a tenth of a seed's standard deviation below the goal; in the other half one of
them lies two standard deviations above it. All attempts share their validation items, so the error
over items is the same for all of a run. Its standard error is half of a seed's standard deviation;
the details have other sizes of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from agent_runs import attempt, settings

from benchmarks.harness import Result, benchmark
from genlab.agent.decisions import decide_on_attempt, find_best, is_promising
from genlab.agent.goals.parser import parse_goal
from genlab.agent.registry import Attempt

RUNS = 2000
ATTEMPTS = 5
GOAL = parse_goal("dummy, at least 80 % accuracy")
SETTINGS = settings(GOAL, seeds=3, confirmation_seeds=5, max_iterations=ATTEMPTS)
SPREAD = 0.01  # standard deviation of a seed
BELOW = -0.1  # distance from the goal, in standard deviations of a seed
ABOVE = 2.0  # likewise
ITEM_ERRORS = (0.0, 0.5, 1.0)  # standard errors over items, in standard deviations of a seed
REPORTED = 0.5  # the one of them whose rates are the benchmark's values


def train(rng: np.random.Generator, mean: float, error: float, seeds: int) -> list[dict[str, Any]]:
    """Draw the results of several seeds around a mean."""
    return [
        {
            "metrics": {"accuracy": mean + rng.normal(0, SPREAD), "n": 10_000},
            "errors": {"accuracy": error},
        }
        for _ in range(seeds)
    ]


def simulate(rng: np.random.Generator, means: Sequence[float], error: float) -> int | None:
    """Simulate a run; return the index of the attempt that ends it as met, None without one."""
    item_error = rng.normal(0, error)
    attempts = list[Attempt]()
    for number, mean in enumerate(means, 1):
        seeds = train(rng, mean + item_error, error, SETTINGS.params.seeds)
        trained = attempt(number).model_copy(update={"failure": "", "seeds": seeds})
        best = find_best([*attempts, trained], SETTINGS)
        if best is trained and is_promising(trained, SETTINGS):
            count = SETTINGS.params.confirmation_seeds
            confirmation = train(rng, mean + item_error, error, count)
            trained = trained.model_copy(update={"confirmation": confirmation})
        attempts.append(trained.model_copy(update={"verdict": decide_on_attempt(trained, GOAL)}))
        if attempts[-1].verdict == "met":
            return number - 1
    return None


def measure(share: float) -> tuple[int, int]:
    """Count the runs that end as met without an attempt above the goal, and by it where one is.

    share: standard error over items, in standard deviations of a seed.
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
    """Simulate runs, and count how often the rule of success is wrong and right."""
    counts = {share: measure(share) for share in ITEM_ERRORS}
    details = {}
    for share, (false, hits) in counts.items():
        print(f"error over items {share:g} of a seed's: {false / RUNS:.3f}, {hits / RUNS:.3f}")
        rates = {"false_success": false / RUNS, "power": hits / RUNS}
        details[f"item_error_{share:g}"] = rates
    false, hits = counts[REPORTED]
    yield replace(Result.rate("agent.false_success", false, RUNS), details=details)
    yield Result.rate("agent.false_success.power", hits, RUNS)
