"""The Fréchet distance against the textbook formula."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy import linalg, stats

from genlab.evaluation.metrics.frechet import distance, frechet, train_reference

Floats = npt.NDArray[np.float64]


def _features(n: int, d: int = 6, seed: int = 0) -> Floats:
    """Correlated features with a mean."""
    rng = np.random.default_rng(seed)
    mix = np.random.default_rng(99).normal(size=(d, d))
    return rng.normal(size=(n, d)) @ mix + np.arange(d)


def test_it_is_heusels_formula_with_scipys_root() -> None:
    first = _features(500)
    second = _features(400, seed=1) * 1.5
    s1 = np.cov(first, rowvar=False)
    s2 = np.cov(second, rowvar=False)
    root = linalg.sqrtm(s1 @ s2).real
    expected = ((first.mean(0) - second.mean(0)) ** 2).sum() + np.trace(s1 + s2 - 2 * root)
    assert distance(first, second) == pytest.approx(expected, rel=1e-9)
    assert distance(second, first) == pytest.approx(expected, rel=1e-9)


def test_singular_covariances_are_no_trouble() -> None:
    """Dead features, doubled ones, and fewer images than features."""
    sets = _features(300), _features(300, seed=1)
    expected = distance(*sets)
    dead = [np.hstack([rows, np.zeros((300, 4))]) for rows in sets]
    assert distance(*dead) == pytest.approx(expected, rel=1e-6)
    doubled = [np.hstack([rows, rows]) for rows in sets]
    assert distance(*doubled) == pytest.approx(2 * expected, rel=1e-6)
    few = _features(5, d=40)
    assert distance(few, few) == pytest.approx(0, abs=1e-6)


def test_resampled_moments_are_those_of_the_resampled_rows() -> None:
    """An interval of resamples that are copied out row by row, from the same generators."""
    features = _features(50)
    reference = _features(60, seed=1)
    interval = frechet(features, reference, bootstrap=25, seed=2)["intervals"]["frechet_distance"]
    rng = np.random.default_rng(2)
    draws = [features[g.integers(50, size=50)] for g in rng.spawn(25)]
    reference_draws = [reference[g.integers(60, size=60)] for g in rng.spawn(25)]
    values = np.array(list(map(distance, draws, reference_draws)))
    centred = values - values.mean() + distance(features, reference)
    assert interval["low"] == pytest.approx(np.quantile(centred, 0.025, method="inverted_cdf"))
    assert interval["high"] == pytest.approx(np.quantile(centred, 0.975, method="inverted_cdf"))


def test_the_floor_is_the_mean_over_sets_that_share_no_image() -> None:
    train = _features(300)
    test = _features(100, seed=1)
    result = train_reference(train, test, 100)
    order = np.random.default_rng(0).permutation(300)
    distances = [distance(train[order[start : start + 100]], test) for start in (0, 100, 200)]
    assert result["frechet_distance"] == pytest.approx(np.mean(distances))
    interval = result["intervals"]["frechet_distance"]
    half = stats.t.ppf(0.975, 2) * stats.sem(distances)
    assert interval["high"] - interval["low"] == pytest.approx(2 * half)
    assert (result["n"], result["n_reference"], result["draws"]) == (100, 100, 3)
    few = train_reference(train[:150], test, 100)  # one set, with its bootstrap
    assert few["draws"] == 1
    interval = few["intervals"]["frechet_distance"]
    assert interval["low"] < few["frechet_distance"] < interval["high"]
