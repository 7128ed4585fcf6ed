"""What the benchmarks say of their numbers' intervals."""

from __future__ import annotations

import numpy as np
import pytest

# Benchmarks are scripts: they find each other because their folder comes first on the path.
from spread import mean, median, share, shown


def test_a_share_has_wilsons_interval() -> None:
    value, (low, high) = share(8, 10)
    assert value == 0.8
    assert (low, high) == pytest.approx((0.4902, 0.9433), abs=1e-3)
    assert share(0, 10)[1][1] > 0.2


def test_a_mean_has_students_interval_where_there_is_spread() -> None:
    middle, interval = mean([1.0, 2.0, 3.0])
    assert middle == 2.0
    assert interval == pytest.approx((2 - 2.484, 2 + 2.484), abs=1e-3)
    assert mean([1.0])[1] is None
    assert mean([1.0, 1.0])[1] is None


def test_a_medians_interval_holds_the_median_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(200):
        middle, interval = median(rng.normal(0, 1, 21).tolist(), seed=1)
        assert interval is not None
        assert interval[0] <= middle <= interval[1]
        held += interval[0] <= 0 <= interval[1]
    assert 0.88 < held / 200 < 0.99
    assert median([1.0, 2.0])[1] is None
    assert median([3.0, 1.0, 2.0], 5) == median([3.0, 1.0, 2.0], 5)


def test_an_interval_is_shown_in_words() -> None:
    assert shown((1.0, 2.5), ".1f") == "1.0 to 2.5"
    assert shown(None) == "no interval"
