import numpy as np
import pytest

from genlab.grids.parser import find_components, is_valid
from genlab.grids.shapes import KINDS, SHAPES


def grid_of(*lines):
    """A 16 x 16 grid with these lines at its top left: digits are colours, dots black."""
    grid = np.zeros((1, 16, 16), dtype=np.uint8)
    for row, line in enumerate(lines):
        grid[0, row, : len(line)] = [0 if cell == "." else int(cell) for cell in line]
    return grid


def test_every_legal_shape_parses_to_itself_wherever_it_stands():
    for index, shape in enumerate(SHAPES):
        grids = np.zeros((3, 16, 16), dtype=np.uint8)
        corners = [(0, 0), (16 - shape.height, 16 - shape.width), (5, 4)]
        for grid, (row, col) in zip(grids, corners, strict=True):
            grid[row : row + shape.height, col : col + shape.width][shape.mask] = 7
        objects = find_components(grids).legal
        assert objects["shape"].tolist() == [index] * 3
        assert list(zip(objects["row"], objects["col"], strict=True)) == corners


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(["11..", "111.", ".11."], id="blob"),
        pytest.param(["1"] * 9, id="line too long"),
        pytest.param(["11", "12"], id="square of two colours"),
        pytest.param(["11..", "11..", "..22", "..22"], id="two squares that touch at a corner"),
    ],
)
def test_what_is_no_object_does_not_parse(lines):
    grid = grid_of(*lines)
    parsed = find_components(grid)
    assert (parsed.stray == (grid > 0)).all()
    assert not len(parsed.legal)
    assert not is_valid(grid).any()


def test_stray_cells_are_separated_from_objects():
    grid = grid_of("11...2", "11....", "......", "333...")
    parsed = find_components(grid)
    assert np.argwhere(parsed.stray).tolist() == [[0, 0, 5]]
    kinds = [KINDS[kind] for kind in parsed.legal["kind"]]
    assert kinds == ["rectangle_filled", "line_horizontal"]
    assert parsed.legal["colour"].tolist() == [1, 3]


@pytest.mark.parametrize(("count", "is_legal"), [(0, False), (1, True), (6, True), (7, False)])
def test_legal_minds_the_object_count(count, is_legal):
    grid = grid_of(*(line for _ in range(count) for line in ("444", "...")))
    assert is_valid(grid).tolist() == [is_legal]
    assert is_valid(grid, count, count).all()


def test_components_come_by_grid_and_label_their_cells():
    rng = np.random.default_rng(1)
    grids = (rng.integers(1, 10, (200, 16, 16)) * (rng.random((200, 16, 16)) < 0.2)).astype("u1")
    components = find_components(grids)
    assert (np.diff(components.objects["grid"]) >= 0).all()
    assert ((components.labels > 0) == (grids > 0)).all()
    cells = np.bincount(components.labels.reshape(-1))[1:]
    assert (cells == components.objects["cells"]).all()
    grid, row, col = np.nonzero(components.labels)
    owner = components.objects[components.labels[grid, row, col] - 1]
    assert (owner["grid"] == grid).all()
    assert ((owner["row"] <= row) & (row < owner["row"] + owner["height"])).all()
    assert ((owner["col"] <= col) & (col < owner["col"] + owner["width"])).all()


def test_black_grids_and_an_empty_batch_have_nothing():
    black = np.zeros((2, 16, 16), dtype=np.uint8)
    for batch in (black, black[:0]):
        components = find_components(batch)
        assert len(components.legal) == components.stray.sum() == is_valid(batch).sum() == 0
