"""Recorded runs: spikes and falls are found where training broke down, and nowhere else."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from healthy import evidence, grid_run_metrics, grid_series, grids, image_metrics, image_series

from genlab.evaluation.diagnostics.rules import detected_issues, diagnose
from genlab.evaluation.diagnostics.stability import measure_stability

# Training loss and validation exact match of grids at beta 0, lr 0.006, as recorded: AdamW, and
# AdamW with amsgrad
UNSTABLE = (
    [
        405, 93.1, 16.4, 10.3, 4.19, 0.239, 0.0827, 0.0369, 51.9, 3.1, 0.0775, 0.0388,
        0.0226, 0.0122, 0.00704, 0.00401, 0.00227, 0.0013, 0.000764, 0.000424, 0.000267,
        0.000158, 0.0001, 6.47e-05, 0.131, 0.000439, 0.00028, 0.000223, 0.000196, 0.000172,
        99.3, 2.28, 0.0239, 0.0112, 0.00594, 0.00325, 0.00182, 0.00108, 0.000627, 0.000374,
        13.7, 152
    ],
    [
        0.0135, 0.259, 0.678, 0.541, 1, 1, 1, 1, 0.192, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1, 1, 0.624, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1
    ],
)  # fmt: skip
STABLE = (
    [
        405, 99.2, 17, 3.54, 1.18, 0.68, 0.434, 0.318, 0.263, 0.224, 0.187, 0.156, 0.144,
        0.129, 0.12, 0.118, 0.108, 0.102, 0.101, 0.0933, 0.0961, 0.0921, 0.0879, 0.091,
        0.0901, 0.0904, 0.0927, 0.0915, 0.0921, 0.0845
    ],
    [
        0.0145, 0.15, 0.959, 0.999, 0.97, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1,
        1, 1, 1, 1, 1, 1, 1, 1
    ],
)  # fmt: skip


def of_grids(loss: Any, exact: Any, beta: Any = 0.0, reconstruction: Any = 0.0) -> dict[str, float]:
    curves = {"train/loss": loss, "exact_grid_accuracy": exact, "beta": beta}
    curves["train/reconstruction_cost"] = reconstruction
    return measure_stability("grids", pd.DataFrame(curves))


def of_images(loss: Any, objective: Any) -> dict[str, float]:
    curves = {"train/loss": loss, "val_objective": objective, "beta": 1.0}
    curves["train/reconstruction_cost"] = loss
    return measure_stability("images", pd.DataFrame(curves))


def test_the_recorded_runs_are_stable_and_unstable() -> None:
    assert of_grids(*UNSTABLE) == {"loss_spikes": 3, "deepest_fall": 1.0}
    assert of_grids(*STABLE) == {"loss_spikes": 0, "deepest_fall": pytest.approx(0.029)}


def test_a_prior_that_is_trained_alone_has_another_loss() -> None:
    loss = [0.02] * 8 + [60.0, 50, 45, 44, 43, 42]
    alone = [0.02] * 8 + [np.nan] * 6
    assert of_grids(loss, 1.0, 0.0, alone)["loss_spikes"] == 0
    assert of_grids(loss, 1.0, 0.0, 0.02)["loss_spikes"] == 1


def test_accuracy_that_falls_before_it_has_converged_does_not_count() -> None:
    loss = np.linspace(100, 1, 6)
    assert of_grids(loss, [0.1, 0.5, 0.2, 0.9, 1.0, 0.97])["deepest_fall"] == pytest.approx(0.03)
    assert of_grids(loss, [0.1, 0.5, 0.2, 0.9, 0.2, 1.0])["deepest_fall"] == pytest.approx(0.7)


def test_a_loss_that_rises_with_beta_is_no_spike() -> None:
    loss = np.r_[np.full(10, 9.0), 30, 60, 90, np.full(10, 95.0)]
    beta = np.r_[np.zeros(10), 0.3, 0.6, 0.9, np.ones(10)]
    exact = np.r_[np.ones(10), 0.9, 0.8, 0.7, np.full(10, 0.7)]
    assert of_grids(loss, exact, beta) == {"loss_spikes": 0, "deepest_fall": 0.0}
    assert of_grids(loss, exact)["loss_spikes"] == 1


def test_a_loss_of_next_to_nothing_may_double() -> None:
    loss = np.tile([1e-5, 1e-5, 1e-5, 1e-5, 5e-3], 8)
    assert of_grids(loss, np.ones(40))["loss_spikes"] == 0


def test_images_that_overfit_are_stable_and_those_that_break_down_are_not() -> None:
    noise = np.random.default_rng(0).normal(0, 5, (2, 40))
    falling = 1500 + 800 * np.exp(-np.arange(40) / 8) + noise[0]
    overfitted = 1500 + np.abs(np.arange(40) - 15.0) * 8 + noise[1]
    assert of_images(falling, overfitted) == {"loss_spikes": 0, "objective_spikes": 0}
    broken = falling.copy()
    broken[[25, 35]] += 300
    assert of_images(broken, overfitted)["loss_spikes"] == 2
    # A density's nats are negative.
    assert of_images(falling - 4000, broken - 4000)["objective_spikes"] == 2


@pytest.mark.parametrize(("curves", "unstable"), [(UNSTABLE, True), (STABLE, False)])
def test_instability_is_diagnosed(curves: tuple[list[float], list[float]], unstable: bool) -> None:
    loss, exact = curves
    series = {name: np.resize(of, len(loss)).tolist() for name, of in grid_series().items()}
    series |= {"train/loss": loss, "exact_grid_accuracy": exact, "beta": [0.0] * len(loss)}
    findings = diagnose("grids", evidence("grids", grid_run_metrics(grids()), series))
    assert detected_issues(findings) == ["training_instability"] * unstable


def test_one_break_of_the_objective_of_images_is_diagnosed() -> None:
    objective = [1800.0, 1790.0, 1780.0, 1775.0, 1770.0, 1768.0, 1900.0]
    series = {name: [*of, of[-1]] for name, of in image_series(beta=[1.0] * 6).items()}
    stable = evidence("images", image_metrics(), series)
    assert detected_issues(diagnose("images", stable)) == []
    broken = evidence("images", image_metrics(), {**series, "val_objective": objective})
    assert detected_issues(diagnose("images", broken)) == ["training_instability"]
