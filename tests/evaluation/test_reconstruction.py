"""Reconstruction metrics and their intervals, against counts done by hand."""

import numpy as np
import pytest

from genlab.evaluation.metrics.reconstruction import grid_metrics, total_variation


def _grids(n: int = 40, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    grids = rng.integers(0, 10, (n, 16, 16), dtype=np.uint8)
    grids[rng.random(grids.shape) < 0.8] = 0
    return grids


def test_metrics_of_a_tiny_case_are_those_counted_by_hand() -> None:
    truth = np.zeros((2, 2, 2), dtype=np.uint8)
    truth[0] = [[1, 1], [0, 0]]
    predicted = truth.copy()
    predicted[0] = [[1, 2], [3, 0]]
    metrics = grid_metrics(truth, predicted, bootstrap=50)
    assert metrics["pixel_accuracy"] == 6 / 8
    assert metrics["nonblack_accuracy"] == 1 / 2
    assert metrics["exact_grid_accuracy"] == 1 / 2
    assert metrics["per_class_accuracy"] == {"0": 5 / 6, "1": 1 / 2}
    assert metrics["all_black_baseline"] == 6 / 8
    assert metrics["skill_score"] == 0
    assert metrics["foreground_recall"] == 1
    assert metrics["colour_histogram_tv"] == pytest.approx(2 / 8)


def test_a_perfect_answer_has_skill_1_and_an_all_black_one_0() -> None:
    truth = _grids()
    perfect = grid_metrics(truth, truth, bootstrap=50)
    assert perfect["skill_score"] == 1
    assert perfect["colour_histogram_tv"] == 0
    black = grid_metrics(truth, np.zeros_like(truth), bootstrap=50)
    assert black["skill_score"] == pytest.approx(0)
    empty = grid_metrics(np.zeros_like(truth), truth, bootstrap=50)
    assert "nonblack_accuracy" not in empty  # no cell to be right about: undefined is not zero


def test_every_number_has_an_interval_that_holds_it() -> None:
    truth = _grids(200)
    predicted = np.where(np.random.default_rng(1).random(truth.shape) < 0.01, 3, truth)
    metrics = grid_metrics(truth, predicted.astype(np.uint8), bootstrap=400)
    flat = {k: v for k, v in metrics.items() if isinstance(v, float)}
    flat |= {f"per_class_accuracy.{c}": v for c, v in metrics["per_class_accuracy"].items()}
    assert set(flat) == set(metrics["intervals"])
    for name, value in flat.items():
        interval = metrics["intervals"][name]
        assert 0 < interval["n"] <= 200
        assert interval["low"] <= interval["high"]
        if "histogram" not in name:  # see the docstring
            assert interval["low"] <= value <= interval["high"], name


def test_exact_accuracy_of_1_has_an_interval_of_some_width() -> None:
    truth = _grids(100)
    intervals = grid_metrics(truth, truth, bootstrap=50)["intervals"]
    for name in ("exact_grid_accuracy", "pixel_accuracy", "per_class_accuracy.0"):
        assert intervals[name]["high"] == 1
        assert intervals[name]["low"] == pytest.approx(100 / (100 + 1.96**2), abs=1e-4)


def test_a_rare_colour_that_is_always_right_is_known_by_its_grids_alone() -> None:
    truth = np.zeros((100, 4, 4), dtype=np.uint8)
    truth[:3, 0] = 7
    interval = grid_metrics(truth, truth, bootstrap=50)["intervals"]["per_class_accuracy.7"]
    assert interval["n"] == 3
    assert interval["low"] < 0.5


def test_grids_of_a_task_are_resampled_together() -> None:
    truth = _grids(200)
    tasks = np.repeat(np.arange(20), 10)
    predicted = truth.copy()
    predicted[:20, 0, 0] = 9 - truth[:20, 0, 0]  # all grids of two tasks
    alone, together = (
        grid_metrics(truth, predicted, bootstrap=2000, groups=groups) for groups in (None, tasks)
    )
    assert {**alone, "intervals": 0} == {**together, "intervals": 0}
    bounds = [run["intervals"]["exact_grid_accuracy"] for run in (alone, together)]
    widths = [interval["high"] - interval["low"] for interval in bounds]
    # Of 20 tasks instead of 200 grids: the square root of ten times as wide.
    assert widths[1] / widths[0] == pytest.approx(10**0.5, rel=0.15)
    assert [interval["n"] for interval in bounds] == [200, 20]


def test_total_variation_of_disjoint_and_of_empty_histograms() -> None:
    counts = np.array([[2.0, 0]])
    disjoint = np.array([[0, 5.0]])
    empty = np.zeros((1, 2))
    assert total_variation(counts, disjoint) == 1
    assert total_variation(counts, 3 * counts) == 0
    assert total_variation(counts, empty) == 1
    assert total_variation(empty, empty) == 0
