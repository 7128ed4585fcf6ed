"""Decisions on attempts: whether numbers of seeds and items meet a goal, and when a run ends."""

from typing import Any

import pytest
from agent_runs import GOAL, UNREACHABLE, attempt, settings

from genlab.agent.decisions import (
    compare_with_goal,
    decide_on_attempt,
    describe_verdict,
    find_best,
    find_hopeless_bound,
    find_verdict,
    is_promising,
    is_stalled,
)
from genlab.agent.evaluator.estimates import estimate, summarise
from genlab.agent.registry import Attempt

SETTINGS = settings(GOAL)  # 90 % on two seeds, confirmed by two


def make_results(*values: float, error: float = 0.0) -> list[dict[str, Any]]:
    """Make the results of seeds with these accuracies."""
    return [
        {"seed": seed, "metrics": {"accuracy": value, "n": 1000}, "errors": {"accuracy": error}}
        for seed, value in enumerate(values)
    ]


def make_confirmed(number: int, *values: float, error: float = 0.0) -> Attempt:
    """Make an attempt with these accuracies on new seeds."""
    confirmation = make_results(*values, error=error)
    return attempt(number, 0.95, 0.95, confirmation=confirmation)


def test_an_estimate_has_students_interval_over_seeds() -> None:
    measured = estimate(make_results(0.90, 0.92, 0.94), "accuracy")
    assert measured is not None
    assert measured.mean == pytest.approx(0.92)
    assert measured.error == pytest.approx(0.02 / 3**0.5)
    assert measured.freedom == pytest.approx(2)
    assert measured.interval == pytest.approx([0.8703, 0.9697], abs=1e-4)  # t(0.975, 2) = 4.303


def test_the_error_over_items_does_not_shrink_with_seeds() -> None:
    single = estimate(make_results(0.9, error=0.01), "accuracy")
    four = estimate(make_results(0.9, 0.9, 0.9, 0.9, error=0.01), "accuracy")
    assert single is not None
    assert four is not None
    assert single.error == four.error == pytest.approx(0.01)
    assert single.freedom == four.freedom == pytest.approx(999)
    assert estimate(make_results(float("nan")), "accuracy") is None
    assert summarise(make_results(0.9, 0.8))["accuracy_error"] == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("values", "error", "verdict"),
    [
        ((0.93, 0.94, 0.93), 0.0, "met"),
        ((0.93, 0.94, 0.93), 0.05, "undecided"),  # the luck of the items
        ((0.93, 0.94, 0.80), 0.0, "undecided"),
        ((0.83, 0.84, 0.83), 0.0, "missed"),
        ((0.9, 0.9, 0.9), 0.0, "met"),  # the threshold itself, without any noise
    ],
)
def test_a_verdict_is_that_of_a_one_sided_bound(
    values: tuple[float, ...], error: float, verdict: str
) -> None:
    measured = estimate(make_results(*values, error=error), "accuracy")
    assert measured is not None
    assert compare_with_goal(measured, GOAL) == verdict
    assert decide_on_attempt(make_confirmed(1, *values, error=error), GOAL) == verdict


def test_no_attempt_meets_a_goal_by_the_seeds_that_chose_it() -> None:
    assert decide_on_attempt(attempt(1, 0.95, 0.95), GOAL) == "undecided"
    assert decide_on_attempt(attempt(1, 0.5, 0.51), GOAL) == "missed"
    assert decide_on_attempt(attempt(1), GOAL) == "failed"


def test_what_is_worth_new_seeds_is_a_standard_error_above_the_goal() -> None:
    assert is_promising(attempt(1, 0.93, 0.94), SETTINGS)
    assert not is_promising(attempt(1, 0.99), SETTINGS)  # one seed of two
    assert not is_promising(attempt(1, 0.99, 0.82), SETTINGS)
    assert not is_promising(attempt(1), SETTINGS)
    assert is_promising(attempt(1, 0.9, 0.9), settings(UNREACHABLE)) is False  # of a loss


def test_a_decision_is_a_line_with_its_digits() -> None:
    met = make_confirmed(1, 0.93, 0.94).model_copy(update={"verdict": "met"})
    assert describe_verdict(met, SETTINGS) == (
        "Goal achieved: 0.9350 ± 0.0050 >= 0.9 on 2 new seeds"
    )
    undecided = attempt(2, 0.95, 0.85, verdict="undecided")
    assert describe_verdict(undecided, SETTINGS) == (
        "Iterate: 0.9000 ± 0.0500, which is within the noise of 0.9"
    )
    assert describe_verdict(attempt(3), SETTINGS) == "Failed: it broke"


def test_the_best_attempt_has_met_the_goal_or_has_all_seeds() -> None:
    lucky = attempt(1, 0.99)
    complete = attempt(2, 0.8, 0.82)
    assert find_best([lucky, complete], SETTINGS) == complete
    assert find_best([lucky, attempt(3)], SETTINGS) == lucky
    assert find_best([attempt(3)], SETTINGS) is None
    met = attempt(1, 0.95, 0.95, verdict="met")
    assert find_best([met, attempt(2, 0.99, 0.98)], SETTINGS) == met


def test_verdicts_of_older_runs_are_read() -> None:
    stored = attempt(1, 0.95, 0.95).model_dump() | {"verdict": "achieved"}
    assert Attempt.model_validate(stored).verdict == "met"
    assert find_verdict([Attempt.model_validate(stored)], SETTINGS, 0.0) == "met"
    assert Attempt.model_validate(stored | {"verdict": "iterate"}).verdict == "missed"


def test_hopeless_attempts_are_found_by_the_spread_of_the_best() -> None:
    assert find_hopeless_bound(None, SETTINGS) is None
    assert find_hopeless_bound(attempt(1, 0.8), SETTINGS) is None
    bound = find_hopeless_bound(attempt(1, 0.80, 0.82), SETTINGS)
    assert bound == pytest.approx(0.81 - 3 * 0.0141, abs=1e-3)
    bound = find_hopeless_bound(attempt(1, 0.80, 0.82), settings(UNREACHABLE))  # of a loss
    assert bound == pytest.approx(0.19 + 3 * 0.0141, abs=1e-3)


def test_a_run_stalls_after_patience() -> None:
    attempts = [attempt(1, 0.5), attempt(2, 0.6), attempt(3, 0.55), attempt(4)]
    assert is_stalled(attempts, GOAL, 2)
    assert not is_stalled(attempts, GOAL, 3)
    assert not is_stalled(attempts[:2], GOAL, 2)
