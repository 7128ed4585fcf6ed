"""Decisions by measured numbers: whether the goal is met, the best attempt, when a run ends.

An attempt is chosen by its first seeds and confirmed on new ones, since the best of several is
partly the luckiest. The goal is met if the one-sided 95 % confidence bound of the mean over the new
seeds and over items reaches the threshold, missed if the bound on the other side does not reach it,
and undecided otherwise. benchmarks/agent_decisions.py simulates how often that is wrong.
"""

import statistics
from collections.abc import Sequence

from genlab.agent.config import Settings
from genlab.agent.evaluator.estimates import LEVEL, MetricEstimate, estimate
from genlab.agent.goals.goal import Goal
from genlab.agent.registry import Attempt, Verdict

HOPELESS = 3.0  # standard deviations of the best attempt's seeds below its mean
NOTHING_LEFT = "stopped: the planner has nothing left to try"


def compare_with_goal(measured: MetricEstimate, goal: Goal) -> Verdict:
    """Compare an estimate with the threshold of a goal, by one-sided bounds."""
    margin = measured.margin(LEVEL)
    surplus = goal.score(measured.mean) - goal.score(goal.threshold)
    if surplus >= margin:
        return "met"
    return "missed" if surplus < -margin else "undecided"


def is_promising(attempt: Attempt, settings: Settings) -> bool:
    """Whether an attempt is worth new seeds.

    It is if all of its first seeds have a number, and their mean is better than the threshold by a
    standard error.
    """
    goal = settings.goal
    measured = estimate(attempt.seeds, goal.metric)
    if attempt.failure or measured is None or measured.trainings < settings.params.seeds:
        return False
    return goal.score(measured.mean) - measured.error >= goal.score(goal.threshold)


def decide_on_attempt(attempt: Attempt, goal: Goal) -> Verdict:
    """Decide on an attempt by its new seeds; without them it is `missed` or `undecided` at best."""
    measured = estimate(attempt.confirmation or attempt.seeds, goal.metric)
    if attempt.failure or measured is None:
        return "failed"
    verdict = compare_with_goal(measured, goal)
    return "undecided" if verdict == "met" and not attempt.confirmation else verdict


def find_best(attempts: Sequence[Attempt], settings: Settings) -> Attempt | None:
    """Find the best attempt; None where none has a number.

    One that met the goal comes first, then one that has all seeds, then the one with the best mean
    over its first seeds, then the earliest.
    """
    goal = settings.goal
    return max(
        (attempt for attempt in attempts if attempt.values(goal.metric)),
        key=lambda attempt: (
            attempt.verdict == "met",
            len(attempt.values(goal.metric)) >= settings.params.seeds,
            goal.score(attempt.mean(goal.metric)),
        ),
        default=None,
    )


def describe_verdict(attempt: Attempt, settings: Settings) -> str:
    """Describe the decision on an attempt, such as "Goal achieved: 0.7213 ± 0.0010 >= 0.7"."""
    goal = settings.goal
    measured = estimate(attempt.confirmation or attempt.seeds, goal.metric)
    if attempt.failure or measured is None:
        return f"Failed: {attempt.failure or 'it has no number'}"
    sign, opposite = (">=", "<") if goal.higher else ("<=", ">")
    mean = f"{measured.mean:.4f} ± {measured.error:.4f}"
    if attempt.verdict == "met":
        return f"Goal achieved: {mean} {sign} {goal.threshold!r} on {measured.trainings} new seeds"
    if attempt.verdict == "undecided":
        return f"Iterate: {mean}, which is within the noise of {goal.threshold!r}"
    return f"Iterate: {mean} {opposite} {goal.threshold!r}"


def find_verdict(attempts: Sequence[Attempt], settings: Settings, seconds: float) -> str:
    """Find the verdict by which the goal or a limit ends a run; empty while it goes on.

    seconds: wall time so far.
    """
    params = settings.params
    if settings.stop_at_goal and any(attempt.verdict == "met" for attempt in attempts):
        return "met"
    if len(attempts) >= params.max_iterations:
        return f"stopped: {len(attempts)} attempts were made, as many as allowed"
    if is_stalled(attempts, settings.goal, params.patience):
        return f"stopped: no gain in the last {params.patience} attempts"
    if params.max_seconds and seconds >= params.max_seconds:
        return f"stopped: the budget of {params.max_seconds:g} seconds is spent"
    return ""


def is_stalled(attempts: Sequence[Attempt], goal: Goal, patience: int) -> bool:
    """Whether none of the last `patience` attempts has a better mean than those before them."""
    scores = [goal.score(attempt.mean(goal.metric)) for attempt in attempts]
    earlier = scores[:-patience]
    latest = scores[-patience:]
    return bool(earlier) and max(latest) <= max(earlier)


def find_hopeless_bound(best: Attempt | None, settings: Settings) -> float | None:
    """Return the value of a first seed beyond which further seeds cannot reach the best attempt.

    None until the best attempt has all seeds, whose spread the bound depends on.
    """
    values = best.values(settings.goal.metric) if best else []
    if len(values) < max(2, settings.params.seeds):
        return None
    margin = HOPELESS * statistics.stdev(values)
    return statistics.fmean(values) + (-margin if settings.goal.higher else margin)
