"""Intervals of the leaderboard: how often they cover the true value."""

import numpy as np
import pytest

from genlab.benchmark.leaderboard.intervals import confidence_bounds, resample_means

RNG_SEED = 7


@pytest.mark.parametrize("n", [8, 20])
def test_an_interval_of_few_items_covers_as_often_as_it_says(n: int) -> None:
    means = np.random.default_rng(RNG_SEED).normal(size=(n, 1500))
    low, high = confidence_bounds(resample_means(means, bootstrap=800, seed=1), n)
    assert 0.92 < np.mean((low <= 0) & (high >= 0)) < 0.98
