"""Accuracy by kind and by number of objects counts what it says."""

from __future__ import annotations

import numpy as np
import pytest
import tiny

from genlab.datasets.arc_grids import draw_grids, make_distribution
from genlab.evaluation.metrics.groups import accuracy_by_count, accuracy_by_kind
from genlab.grids.shapes import KINDS, OBJECT_DTYPE

DRAW = draw_grids(make_distribution(tiny.params().grids), 300, 0)
GRIDS, OBJECTS = DRAW.grids, DRAW.objects


def _object(grid: int, kind: int, row: int, col: int, height: int, width: int) -> np.ndarray:
    entry = np.zeros(1, OBJECT_DTYPE)
    entry["grid"], entry["kind"] = grid, kind
    entry["row"], entry["col"], entry["height"], entry["width"] = row, col, height, width
    return entry


def test_perfect_grids_score_one_in_every_group() -> None:
    for groups in (
        accuracy_by_kind(GRIDS, GRIDS, OBJECTS),
        accuracy_by_count(GRIDS, GRIDS, OBJECTS),
    ):
        assert {group["value"] for group in groups.values()} == {1.0}


def test_every_object_and_every_grid_is_counted_once() -> None:
    black = np.zeros_like(GRIDS)
    kinds = accuracy_by_kind(GRIDS, black, OBJECTS)
    counts = accuracy_by_count(GRIDS, black, OBJECTS)
    assert sum(group["n"] for group in kinds.values()) == len(OBJECTS)
    assert sum(group["n"] for group in counts.values()) == len(GRIDS)
    assert set(kinds) == set(KINDS)
    assert {group["value"] for group in kinds.values()} == {0.0}


def test_kinds_agree_with_a_plain_look_at_every_box() -> None:
    rng = np.random.default_rng(0)
    predicted = np.where(rng.random(GRIDS.shape) < 0.03, 5, GRIDS).astype(np.uint8)
    right: dict[str, list[bool]] = {}
    for item in OBJECTS:
        rows = slice(item["row"], item["row"] + item["height"])
        cols = slice(item["col"], item["col"] + item["width"])
        box = (int(item["grid"]), rows, cols)
        right.setdefault(KINDS[item["kind"]], []).append(bool((GRIDS[box] == predicted[box]).all()))
    found = accuracy_by_kind(GRIDS, predicted, OBJECTS)
    assert {name: group["value"] for name, group in found.items()} == {
        name: pytest.approx(np.mean(flags)) for name, flags in right.items()
    }
    assert any(0 < group["value"] < 1 for group in found.values())


def test_a_wrong_cell_spoils_the_object_it_lies_in_and_no_other() -> None:
    truth = np.ones((2, 4, 4), np.uint8)
    predicted = truth.copy()
    predicted[1, 3, 3] = 2  # the last cell of the last box
    objects = np.concatenate([_object(0, 0, 2, 2, 2, 2), _object(1, 1, 0, 0, 2, 2)])
    objects = np.concatenate([objects, _object(1, 2, 2, 2, 2, 2)])
    found = accuracy_by_kind(truth, predicted, objects)
    assert [found[KINDS[kind]]["value"] for kind in range(3)] == [1.0, 1.0, 0.0]


def test_counts_are_of_whole_grids() -> None:
    truth = np.zeros((3, 4, 4), np.uint8)
    predicted = truth.copy()
    predicted[2, 0, 0] = 1
    objects = np.concatenate([_object(grid, 0, 0, 0, 2, 2) for grid in (0, 1, 1, 2, 2)])
    found = accuracy_by_count(truth, predicted, objects)
    assert found["1"]["value"] == 1.0
    assert found["2"]["value"] == 0.5
    assert found["2"]["n"] == 2


def test_every_share_has_an_interval_around_it() -> None:
    predicted = np.where(np.arange(len(GRIDS))[:, None, None] % 2, 0, GRIDS).astype(np.uint8)
    for group in accuracy_by_count(GRIDS, predicted, OBJECTS).values():
        assert 0 <= group["low"] < group["value"] < group["high"] <= 1
