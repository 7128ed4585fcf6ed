"""Intervals against closed forms and simulations."""

import numpy as np
import pytest

from genlab.core.stats import mean_metrics, ratio_interval


def test_the_bootstrap_interval_of_a_mean_is_that_of_the_normal_theory() -> None:
    values = np.random.default_rng(0).normal(5, 2, 2500)
    interval = mean_metrics({"x": values}, bootstrap=4000, seed=0)["intervals"]["x"]
    half = 1.96 * values.std() / 50
    assert interval["low"] == pytest.approx(values.mean() - half, abs=half / 10)
    assert interval["high"] == pytest.approx(values.mean() + half, abs=half / 10)


def test_the_interval_of_a_ratio_is_that_of_a_simulation() -> None:
    rng = np.random.default_rng(0)
    numerators = rng.normal(20, 1, 100_000)
    denominators = rng.normal(4, 0.3, 100_000)
    low, high = np.quantile(numerators / denominators, [0.025, 0.975])
    interval = ratio_interval(
        20,
        {"low": 20 - 1.96, "high": 20 + 1.96, "n": 7},
        4,
        {"low": 4 - 0.588, "high": 4.588, "n": 5},
    )
    assert interval == {"low": pytest.approx(low, 0.03), "high": pytest.approx(high, 0.03), "n": 7}
