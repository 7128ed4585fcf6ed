"""Hypotheses: planted causes are supported, planted opposites refuted, the rest left undecided."""

import json
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from genlab.evaluation.failures import error_analysis
from genlab.evaluation.failures.error_analysis import Hypothesis, explain
from genlab.evaluation.failures.grid_hypotheses import (
    describe_faults,
    exclude_invalid_by_definition,
    grid_hypotheses,
)
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator
from genlab.grids.parser import is_valid
from genlab.grids.shapes import KINDS

Hypotheses = list[Hypothesis]


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, Hypotheses]:
    """Objects of each of 2500 grids, and the hypotheses about them."""
    return grid_hypotheses(AtomicImageGenerator(GridDistribution()).generate(2500, 3).grids)


def compare(
    errors: Any, data: tuple[np.ndarray, Hypotheses], bootstrap: int = 2000
) -> dict[str, Any]:
    tests = error_analysis.compare(errors, *data, bootstrap=bootstrap, seed=0)
    return {test["name"]: test for test in tests}


def _flags(data: tuple[np.ndarray, Hypotheses], name: str) -> np.ndarray:
    return next(hypothesis.flags for hypothesis in data[1] if hypothesis.name == name)


def _describe(grid: np.ndarray) -> tuple[int, set[str]]:
    """Number of objects of a grid, and the names of its attributes."""
    count, hypotheses = grid_hypotheses(grid[None])
    return int(count[0]), {hypothesis.name for hypothesis in hypotheses if hypothesis.flags[0]}


def test_the_attributes_of_a_grid_drawn_by_hand() -> None:
    grid = np.zeros((16, 16), dtype=np.uint8)
    grid[0, 2:7] = 3  # a line on the rim
    grid[4:6, 2:4] = 3  # a square three free cells below
    grid[9:12, 9:12] = 5
    grid[10, 10] = 0  # a frame, three free cells away from the square
    kinds = {f"kind_{kind}" for kind in ("line_horizontal", "rectangle_filled", "rectangle_hollow")}
    names = {"small_component", "thin_component", "repeated_colour", "at_border"}
    assert _describe(grid) == (3, {*names, *kinds, "colour_green", "colour_grey"})


@pytest.mark.parametrize("direction", [(0, 1), (1, 0), (1, 1), (1, -1)])
@pytest.mark.parametrize(("colour", "alike"), [(1, "close_same_colour"), (2, "close_colour_pair")])
def test_close_neighbours_are_detected_in_every_direction(
    direction: tuple[int, int], colour: int, alike: str
) -> None:
    for pitch, close in ((3, {"close_neighbours", alike}), (4, set())):
        grid = np.zeros((16, 16), dtype=np.uint8)
        grid[6:8, 6:8] = 1
        row, col = 6 + pitch * np.array(direction)
        grid[row : row + 2, col : col + 2] = colour
        assert {name for name in _describe(grid)[1] if name.startswith("close_")} == close


@pytest.mark.parametrize(
    ("attribute", "factor", "verdict"),
    [("kind_plus", 4, "supported"), ("at_border", 0.3, "refuted")],
)
def test_a_planted_cause_is_supported_and_its_opposite_refuted(
    data: tuple[np.ndarray, Hypotheses], attribute: str, factor: float, verdict: str
) -> None:
    rng = np.random.default_rng(0)
    errors = rng.exponential(1, 2500) * np.where(_flags(data, attribute), factor, 1)
    tests = compare(errors, data)
    assert tests[attribute]["verdict"] == verdict
    assert tests[attribute]["low"] < factor < tests[attribute]["high"]
    assert tests["colour_red"]["verdict"] == "undecided"


def test_more_objects_alone_do_not_make_a_kind_hard(data: tuple[np.ndarray, Hypotheses]) -> None:
    # Both the error and the chance of any kind grow with the number of objects: the raw ratio
    # suggests a cause for every kind, the ratio at equal counts for none.
    rng = np.random.default_rng(1)
    errors = rng.exponential(1, 2500) * data[0]
    tests = compare(errors, data)
    kinds = [tests[f"kind_{kind}"] for kind in KINDS]
    assert min(test["error_with"] / test["error_without"] for test in kinds) > 1.1
    assert {test["verdict"] for test in kinds} == {"undecided"}


def test_what_is_invalid_by_definition_of_an_attribute_supports_no_hypothesis(
    data: tuple[np.ndarray, Hypotheses],
) -> None:
    """Every seventh component, one cell and two-coloured component makes a grid invalid."""
    grids = AtomicImageGenerator(GridDistribution(max_objects=8)).generate(3000, 4).grids
    rng = np.random.default_rng(0)
    for row in rng.choice(3000, 600, replace=False):
        grid = grids[row]
        if row % 2:  # a single cell in a free place, a component of a size that no shape has
            free = np.argwhere(ndimage.maximum_filter(grid, 3) == 0)
            grid[tuple(rng.choice(free))] = rng.integers(1, 10)
        else:  # a cell of another colour in a component
            coloured = tuple(rng.choice(np.argwhere(grid)))
            grid[coloured] = 1 + grid[coloured] % 9
    invalid = ~is_valid(grids)
    count, hypotheses = grid_hypotheses(grids)
    conditional = exclude_invalid_by_definition(grids, hypotheses, (1, 6))
    tests = compare(invalid, (count, conditional), 200)
    seven = np.flatnonzero(count > 6)
    assert not any(hypothesis.compared[seven].any() for hypothesis in conditional)
    decided = {"small_component", "thin_component", "many_colours", "colour_blue"}
    assert {tests[name]["verdict"] for name in decided} <= {"untestable", "undecided"}


def test_without_an_error_to_compare_a_hypothesis_is_untestable_and_writable_as_json(
    data: tuple[np.ndarray, Hypotheses],
) -> None:
    tests = compare(np.zeros(2500), data, bootstrap=50)
    assert {test["verdict"] for test in tests.values()} == {"untestable"}
    json.dumps(tests, allow_nan=False)
    strata = data[0].copy()
    hypotheses = data[1]
    strata[0] = 99  # the only error is alone in its stratum
    tests = compare(np.eye(1, 2500)[0], (strata, hypotheses), bootstrap=50)
    assert {test["verdict"] for test in tests.values()} == {"untestable"}


def test_an_error_that_occurs_only_with_the_attribute_is_supported_without_a_bound(
    data: tuple[np.ndarray, Hypotheses],
) -> None:
    errors = _flags(data, "kind_zigzag").astype(float)
    tests = compare(errors, data)
    assert tests["kind_zigzag"]["verdict"] == "supported"
    assert tests["kind_zigzag"]["ratio"] is None
    index = int(np.flatnonzero(errors)[0])
    assert explain(index, data[1], list(tests.values()))[0]["name"] == "kind_zigzag"
    refuted = [{**test, "verdict": "refuted"} for test in tests.values()]
    assert explain(index, data[1], refuted) == []


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        ({(3, 3): 1}, "blue component of 1 x 1"),
        ({(3, c): 2 for c in range(12)}, "red component of 1 x 12"),
        ({(3, c): 1 + (c > 5) for c in range(3, 8)}, "blue and red touch"),
        ({(3, 3): 3, (3, 4): 3, (3, 5): 3, (4, 3): 3, (4, 4): 3}, "1 cell away from"),
    ],
)
def test_faults_are_named(cells: dict[tuple[int, int], int], words: str) -> None:
    grid = np.zeros((16, 16), dtype=np.uint8)
    for position, colour in cells.items():
        grid[position] = colour
    assert len(describe_faults(grid)) == 1
    assert words in describe_faults(grid)[0]


def test_hypotheses_without_effect_are_rarely_decided(data: tuple[np.ndarray, Hypotheses]) -> None:
    wrong = 0
    for seed in range(20):
        errors = np.random.default_rng(seed).exponential(1, 2500)
        verdicts = {test["verdict"] for test in compare(errors, data, 200).values()}
        wrong += bool({"supported", "refuted"} & verdicts)
    assert wrong <= 4  # of 20 sets of errors 1 is expected
