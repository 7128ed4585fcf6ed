"""What measured numbers decide: the best attempt, whether the goal is reached, when a run ends."""

import statistics
from collections.abc import Sequence

from genlab.agent.config import Settings
from genlab.agent.goals import Goal
from genlab.agent.planner import Review
from genlab.agent.registry import Attempt

HOPELESS = 3.0  # standard deviations of the best attempt's seeds below its mean
NOTHING_LEFT = "stopped: the planner has nothing left to try"


def reaches(attempt: Attempt, settings: Settings) -> bool:
    """Whether an attempt reaches the goal on every seed."""
    values = attempt.values(settings.goal.metric)
    return len(values) >= settings.params.seeds and settings.goal.reached(values)


def leader(attempts: Sequence[Attempt], settings: Settings) -> Attempt | None:
    """The best attempt by the mean over seeds; one that reached the goal, or has all seeds, first.

    Of equal ones the earlier; None where no attempt has a number.
    """
    goal = settings.goal
    return max(
        (each for each in attempts if each.values(goal.metric)),
        key=lambda each: (
            reaches(each, settings),
            len(each.values(goal.metric)) >= settings.params.seeds,
            goal.score(each.mean(goal.metric)),
        ),
        default=None,
    )


def decide_by_numbers(attempt: Attempt, review: Review, settings: Settings) -> tuple[str, str]:
    """Verdict and sentence: the numbers say what is achieved, whatever the planner says."""
    if attempt.failure:
        return "failed", f"Attempt {attempt.number} failed: {attempt.failure}"
    goal, seeds = settings.goal, f"{len(attempt.seeds)} of {settings.params.seeds} seeds"
    measured = f"{goal.metric} {attempt.show(goal.metric)} on {seeds}"
    if reaches(attempt, settings):
        return "achieved", review.sentence or f"The goal is reached: {measured}."
    if review.decision == "achieved":
        return "iterate", f"The planner says achieved, the numbers do not: {measured}."
    return review.decision, review.sentence or f"Go on: {measured}, {goal.threshold:g} is wanted."


def find_verdict(attempts: Sequence[Attempt], settings: Settings, seconds: float) -> str:
    """How goal and limits end a run; empty where they do not. seconds: spent so far."""
    params = settings.params
    if settings.stop_at_goal and any(each.verdict == "achieved" for each in attempts):
        return "achieved"
    if attempts and attempts[-1].verdict == "stop":
        return NOTHING_LEFT
    if len(attempts) >= params.max_iterations:
        return f"stopped: {len(attempts)} attempts were made, as many as allowed"
    if is_stalled(attempts, settings.goal, params.patience):
        return f"stopped: no gain in the last {params.patience} attempts"
    if params.max_seconds and seconds >= params.max_seconds:
        return f"stopped: the budget of {params.max_seconds:g} seconds is spent"
    return ""


def is_stalled(attempts: Sequence[Attempt], goal: Goal, patience: int) -> bool:
    """Whether the last `patience` attempts brought no better mean than those before them."""
    scores = [goal.score(each.mean(goal.metric)) for each in attempts]
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
