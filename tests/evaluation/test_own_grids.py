"""Metrics of grids without a known distribution, against values by hand."""

import numpy as np
import pytest

from genlab.evaluation.failures.own_grid_hypotheses import own_grid_hypotheses
from genlab.evaluation.metrics import own_grids
from genlab.evaluation.metrics.reconstruction import grid_metrics
from genlab.grids.palette import PADDING

RNG = np.random.default_rng(0)


def padded(grid: list[list[int]], side: int = 4) -> np.ndarray:
    canvas = np.full((side, side), PADDING, np.uint8)
    canvas[: len(grid), : len(grid[0])] = grid
    return canvas


def test_the_table_learns_what_two_neighbours_tell() -> None:
    rows = RNG.integers(0, 2, (500, 1, 6)).astype(np.uint8)
    copied = np.repeat(rows, 6, axis=1)  # each row is the grids above
    noise = RNG.integers(0, 10, (500, 6, 6)).astype(np.uint8)
    nats = own_grids.context_nats(copied, copied)
    assert nats.mean() == pytest.approx(6 * np.log(2), rel=0.05)
    assert own_grids.context_nats(noise, noise).mean() == pytest.approx(36 * np.log(10), rel=0.05)


def test_lengths_are_per_cell_of_the_grids_themselves() -> None:
    grids = np.stack([padded([[1, 2], [3, 4]]), padded([[1] * 4] * 4)])
    nats = np.array([8.0, 12.0])
    table = np.array([20.0, 20.0])
    metrics = own_grids.code_lengths(nats, table, grids, np.array([0, 1]), bootstrap=100, seed=0)
    assert metrics["neg_elbo_per_cell"] == pytest.approx(20 / 20)
    assert metrics["context_nats_per_cell"] == pytest.approx(40 / 20)


def test_components_touch_at_their_sides_and_never_across_grids() -> None:
    grids = np.stack([padded([[1, 1, 0, 2], [0, 1, 2, 0]]), padded([[1, 1, 1, 1]])])
    components = own_grids.find_colour_components(grids)
    rows = sorted(zip(*(column.tolist() for column in components), strict=True))
    assert rows == [(0, 1, 3), (0, 2, 1), (0, 2, 1), (1, 1, 4)]


def test_distances_of_components_are_zero_for_the_same_and_one_for_others() -> None:
    grids = np.stack([padded([[1, 0, 2]])] * 5)
    assert set(own_grids.component_distances(grids, grids).values()) == {0.0}
    unlike = np.stack([padded([[3, 3, 3, 3]] * 4)] * 5)
    assert set(own_grids.component_distances(grids, unlike).values()) == {1.0}
    empty = np.zeros((3, 4, 4), np.uint8)
    assert own_grids.component_distances(empty, empty)["component_size"] == 0
    assert own_grids.component_distances(grids, empty)["component_colour"] == 1


def test_novelty_is_the_share_that_is_no_training_grid() -> None:
    train = RNG.integers(0, 10, (9, 4, 4)).astype(np.uint8)
    samples = np.concatenate([train[:3], train[:1] + 0, (train[4:5] + 1) % 10])
    metrics = own_grids.novelty(samples, train)
    assert metrics["novelty"] == pytest.approx(1 / 5)
    assert metrics["intervals"]["novelty"]["low"] < 0.2 < metrics["intervals"]["novelty"]["high"]


def test_padding_is_no_colour_and_counts_in_exact_matches_alone() -> None:
    truth = np.stack([padded([[1, 2], [3, 0]])] * 2)
    wrong_size = truth.copy()
    wrong_size[1, 3, 3] = 5  # a cell beyond the grid
    metrics = grid_metrics(truth, wrong_size, bootstrap=100, values=own_grids.VALUES)
    assert metrics["pixel_accuracy"] == 1
    assert metrics["exact_grid_accuracy"] == 0.5
    lost = truth.copy()
    lost[0, 0, 0] = PADDING
    metrics = grid_metrics(truth, lost, bootstrap=100, values=own_grids.VALUES)
    assert metrics["pixel_accuracy"] == pytest.approx(7 / 8)
    assert metrics["per_class_accuracy"]["1"] == 0.5


def test_hypotheses_flag_grids_within_their_size_class() -> None:
    grids = np.stack([padded([[n % 10, 1], [2, n % 3]]) for n in range(40)])
    strata, claims = own_grid_hypotheses(grids)
    assert strata.shape == (40,)
    flags = {claim.name: claim.flags for claim in claims}
    assert flags["colour_red"].all()
    assert not flags["large"].any()
    assert 0 < flags["many_colours"].sum() < 20
