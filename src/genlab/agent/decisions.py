"""What measured numbers decide: whether the goal is met, the best attempt, when a run ends.

An attempt is chosen by its first seeds, and confirmed by new ones, since the best of several is
partly the luckiest. The goal is met where the one-sided 95 % confidence bound of the mean over the
new seeds and over items reaches the threshold, missed where the bound of the other side does not,
and undecided between them. benchmarks/agent_decisions.py simulates how often that is wrong.
"""

import statistics
from collections.abc import Sequence

from genlab.agent.config import Settings
from genlab.agent.evaluator.estimates import LEVEL, Estimate, estimate
from genlab.agent.goals.goal import Goal
from genlab.agent.registry import Attempt, Verdict

HOPELESS = 3.0  # standard deviations of the best attempt's seeds below its mean
NOTHING_LEFT = "stopped: the planner has nothing left to try"


def compare(measured: Estimate, goal: Goal) -> Verdict:
    """Compare an estimate with the threshold of a goal, by one-sided bounds."""
    margin = measured.margin(LEVEL)
    surplus = goal.score(measured.mean) - goal.score(goal.threshold)
    if surplus >= margin:
        return "met"
    return "missed" if surplus < -margin else "undecided"


def is_promising(attempt: Attempt, settings: Settings) -> bool:
    """Whether an attempt is worth new seeds: all of its first ones, a standard error above."""
    goal = settings.goal
    chosen = estimate(attempt.seeds, goal.metric)
    if attempt.failure or chosen is None or chosen.trainings < settings.params.seeds:
        return False
    return goal.score(chosen.mean) - chosen.error >= goal.score(goal.threshold)


def judge_attempt(attempt: Attempt, goal: Goal) -> Verdict:
    """The verdict of an attempt: by its new seeds, without them `missed` or `undecided`."""
    measured = estimate(attempt.confirmation or attempt.seeds, goal.metric)
    if attempt.failure or measured is None:
        return "failed"
    verdict = compare(measured, goal)
    return "undecided" if verdict == "met" and not attempt.confirmation else verdict


def find_best(attempts: Sequence[Attempt], settings: Settings) -> Attempt | None:
    """The best attempt by the mean over its first seeds; one that met the goal comes first.

    Then those that have all seeds. Of equal ones the earlier; None where none has a number.
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
    """The decision on an attempt in one line, such as "Goal achieved: 0.7213 >= 0.7"."""
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
    """How goal and limits end a run; empty where they do not. seconds: spent so far."""
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
    """Whether the last `patience` attempts brought no better mean than those before them."""
    scores = [goal.score(attempt.mean(goal.metric)) for attempt in attempts]
    before, last = scores[:-patience], scores[-patience:]
    return bool(before) and max(last) <= max(before)


def hopeless_bound(best: Attempt | None, settings: Settings) -> float | None:
    """A value on the first seed that is too far from the best attempt to go on with other seeds.

    None until the best attempt has the spread of all its seeds.
    """
    values = best.values(settings.goal.metric) if best else []
    if len(values) < max(2, settings.params.seeds):
        return None
    margin = HOPELESS * statistics.stdev(values)
    return statistics.fmean(values) + (-margin if settings.goal.higher else margin)
