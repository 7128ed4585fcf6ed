"""Confidence intervals over few persons."""

import numpy as np
import pytest
from benchmarks.swap_persons import HELD_OUT, person_interval, photograph_rates


def test_the_interval_is_students_over_persons() -> None:
    held = {f"one/{n}": [True] * (10 - n) + [False] * n for n in range(4)}
    low, high = person_interval(held)
    half = 3.182446 * np.std([1.0, 0.9, 0.8, 0.7], ddof=1) / 2  # t of 3 degrees of freedom
    assert (low, high) == (pytest.approx(0.85 - half, abs=1e-6), 1.0)


def test_seven_perfect_persons_do_not_make_a_certainty() -> None:
    low, high = person_interval({f"two/{n}": [True] * 42 for n in range(7)})
    assert (low, high) == (pytest.approx(7 / (7 + 1.96**2), abs=1e-3), 1.0)


def test_each_photograph_has_its_rate() -> None:
    held = {"a/1": [True, False], "a/2": [True, True], "b/1": [False]}
    assert photograph_rates(held) == {"a": 0.75, "b": 0.0}
    assert (len(HELD_OUT), sum(HELD_OUT.values())) == (2, 7)
