"""KID against the closed form of its kernel's mean embedding."""

from math import comb

import numpy as np
import pytest

from genlab.evaluation.metrics import kid as module
from genlab.evaluation.metrics.kid import kid


def _moments(mean: float) -> np.ndarray:
    """E x^0..3 of N(mean, 1)."""
    return np.array([1, mean, mean**2 + 1, mean**3 + 3 * mean])


def test_it_is_the_distance_of_the_first_three_moments() -> None:
    # (x y + 1)^3 = sum_i C(3, i) x^i y^i, so the squared discrepancy is that of E x^i.
    rng = np.random.default_rng(0)
    features = rng.normal(0, 1, (20_000, 1))
    reference = rng.normal(0.7, 1, (20_000, 1))
    weights = [comb(3, i) for i in range(4)]
    wanted = weights @ np.square(_moments(0) - _moments(0.7))
    result = kid(features, reference)
    assert result["kid"] == pytest.approx(wanted, rel=0.1)
    assert result["intervals"]["kid"]["low"] < wanted < result["intervals"]["kid"]["high"]
    assert (result["n"], result["intervals"]["kid"]["n"]) == (20_000, 20)


def test_it_is_unbiased_at_any_size() -> None:
    rng = np.random.default_rng(1)
    result = [kid(*rng.normal(size=(2, 20, 5)), seed=seed)["kid"] for seed in range(2000)]
    assert abs(np.mean(result)) < 4 * np.std(result) / np.sqrt(len(result))
    assert np.min(result) < 0


def test_the_larger_set_is_drawn_from_by_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", 10)
    rng = np.random.default_rng(2)
    few = rng.normal(size=(25, 3))
    many = rng.normal(size=(90, 3))
    assert kid(few, many) == kid(few, many)
    assert kid(few, many)["kid"] != kid(few, many, seed=1)["kid"]
    assert kid(few, many)["n"] == 24
