"""Hypotheses: planted causes are supported, planted opposites refuted, the rest left undecided."""

import json
from typing import Any

import numpy as np
import pytest

from genlab.evaluation.diagnostics import error_analysis
from genlab.evaluation.diagnostics.error_analysis import SAME_COUNT, explain
from genlab.evaluation.diagnostics.grid_attributes import (
    ALONE,
    HYPOTHESES,
    faults,
    grid_attributes,
)
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator
from genlab.grids.parser import find_components
from genlab.grids.shapes import KINDS


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    grids, objects, _ = AtomicImageGenerator(GridDistribution()).generate(2500, 3)
    return {"grids": grids, "objects": objects, "attributes": grid_attributes(grids, objects)}


def compare(errors: Any, attributes: Any, **options: Any) -> list[dict[str, Any]]:
    return error_analysis.compare(errors, attributes, HYPOTHESES, SAME_COUNT, **options)


def _by_name(tests: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {test["name"]: test for test in tests}


def _of(grid: np.ndarray) -> dict[str, Any]:
    batch = grid[None]
    return {k: v[0] for k, v in grid_attributes(batch, find_components(batch).legal).items()}


def test_attributes_of_a_grid_drawn_by_hand() -> None:
    grid = np.zeros((16, 16), dtype=np.uint8)
    grid[0, 2:7] = 3  # a line on the rim
    grid[4:6, 2:4] = 3  # a square three free cells below
    grid[9:12, 9:12] = 5
    grid[10, 10] = 0  # a frame, three free cells away from the square
    found = _of(grid)
    assert found["object_count"] == 3
    assert found["foreground_cells"] == 17
    assert (found["smallest_cells"], found["largest_cells"]) == (4, 8)
    assert (found["thinnest"], found["longest"]) == (1, 5)
    assert found["least_fill"] == pytest.approx(8 / 9)
    assert (found["nearest_gap"], found["nearest_same_colour"]) == (3, True)
    assert found["at_border"]
    assert found["repeated_colour"]
    assert found["distinct_colours"] == 2
    assert {k for k in KINDS if found[f"kind_{k}"]} == {
        "line_horizontal",
        "rectangle_filled",
        "rectangle_hollow",
    }


@pytest.mark.parametrize("offset", [(0, 4), (4, 0), (4, 4), (4, -4)])
def test_the_nearest_gap_is_seen_in_every_direction(offset: tuple[int, int]) -> None:
    grid = np.zeros((16, 16), dtype=np.uint8)
    grid[6:8, 6:8] = 1
    row, col = 6 + offset[0], 6 + offset[1]
    grid[row : row + 2, col : col + 2] = 2
    found = _of(grid)
    assert (found["nearest_gap"], found["nearest_same_colour"]) == (2, False)


def test_a_lone_object_has_no_neighbour_and_an_empty_grid_no_sizes() -> None:
    grid = np.zeros((16, 16), dtype=np.uint8)
    assert _of(grid)["smallest_cells"] == 0
    grid[3:5, 3:5] = 1
    assert _of(grid)["nearest_gap"] == ALONE


@pytest.mark.parametrize(
    ("attribute", "factor", "verdict"),
    [("kind_plus", 4, "supported"), ("at_border", 0.3, "refuted")],
)
def test_a_planted_cause_is_supported_and_its_opposite_refuted(
    data: dict[str, Any], attribute: str, factor: float, verdict: str
) -> None:
    rng = np.random.default_rng(0)
    errors = rng.exponential(1, 2500) * np.where(data["attributes"][attribute], factor, 1)
    tests = _by_name(compare(errors, data["attributes"], error_name="nats"))
    assert tests[attribute]["verdict"] == verdict
    assert tests[attribute]["low"] < factor < tests[attribute]["high"]
    assert tests["colour_red"]["verdict"] == "undecided"


def test_more_objects_alone_do_not_make_a_kind_hard(data: dict[str, Any]) -> None:
    # The error grows with the number of objects, and so does the chance to hold any one kind: the
    # raw ratio sees a cause everywhere, the ratio at equal counts sees none.
    rng = np.random.default_rng(1)
    errors = rng.exponential(1, 2500) * data["attributes"]["object_count"]
    tests = _by_name(compare(errors, data["attributes"], error_name="nats"))
    kinds = [tests[f"kind_{kind}"] for kind in KINDS]
    assert min(test["ratio"] for test in kinds) > 1.1
    assert {test["verdict"] for test in kinds} == {"undecided"}
    assert tests["many_objects"]["verdict"] == "supported"


def test_no_error_at_all_is_untestable_and_writable_as_json(data: dict[str, Any]) -> None:
    tests = compare(np.zeros(2500), data["attributes"], error_name="wrong cells", bootstrap=50)
    assert {test["verdict"] for test in tests} == {"untestable"}
    assert len(tests) == len(HYPOTHESES)
    json.dumps(tests, allow_nan=False)


def test_an_error_that_occurs_only_with_the_attribute_is_supported_without_a_bound(
    data: dict[str, Any],
) -> None:
    errors = data["attributes"]["kind_zigzag"].astype(float)
    test = _by_name(compare(errors, data["attributes"], error_name="wrong cells"))["kind_zigzag"]
    assert test["verdict"] == "supported"
    assert test["ratio_same_count"] is None
    index = int(np.flatnonzero(errors)[0])
    (best,) = explain(index, data["attributes"], [test], HYPOTHESES)
    assert best["name"] == "kind_zigzag"


def test_a_refuted_hypothesis_explains_nothing(data: dict[str, Any]) -> None:
    refuted = {"name": "many_objects", "verdict": "refuted", "low": 0.2, "ratio_same_count": 0.3}
    index = int(np.argmax(data["attributes"]["object_count"]))
    assert explain(index, data["attributes"], [refuted], HYPOTHESES) == []


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({(3, 3): 1}, "blue speck of 1 cell"),
        ({(3, c): 2 for c in range(12)}, "red component of 1 x 12, larger than any shape"),
        ({(3, c): 1 + (c > 5) for c in range(3, 8)}, "blue and red touch"),
        ({(3, 3): 3, (3, 4): 3, (3, 5): 3, (4, 3): 3, (4, 4): 3}, "1 cell away from"),
    ],
)
def test_faults_are_named(cells: dict[tuple[int, int], int], words: str) -> None:
    grid = np.zeros((16, 16), dtype=np.uint8)
    for place, colour in cells.items():
        grid[place] = colour
    assert len(faults(grid)) == 1
    assert words in faults(grid)[0]
