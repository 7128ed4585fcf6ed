import numpy as np
import pytest

from genlab.grids.shapes import KINDS, PATTERNS, RECTANGLES, SHAPES


def of_kind(kind):
    return [shape for shape in SHAPES if KINDS[shape.kind] == kind]


def drawn(shape):
    return ["".join(".#"[cell] for cell in row) for row in shape.mask.astype(int)]


def test_every_shape_has_three_cells_or_more():
    for shape in SHAPES:
        assert shape.mask.sum() >= 3, drawn(shape)


@pytest.mark.parametrize("kind", [*RECTANGLES, *PATTERNS])
def test_rotations_and_reflections_stay_in_the_kind(kind):
    keys = {(shape.mask.shape, shape.mask.tobytes()) for shape in of_kind(kind)}
    for shape in of_kind(kind):
        for turned in (np.rot90(shape.mask), np.fliplr(shape.mask)):
            assert (turned.shape, turned.tobytes()) in keys, drawn(shape)


@pytest.mark.parametrize(
    ("kind", "example"),
    [
        ("rectangle_filled", ["##", "##"]),
        ("rectangle_hollow", ["###", "#.#", "###"]),
        ("line_horizontal", ["###"]),
        ("line_vertical", ["#", "#", "#"]),
        ("line_diagonal", ["#..", ".#.", "..#"]),
        ("line_antidiagonal", ["..#", ".#.", "#.."]),
        ("checkerboard", [".#.", "#.#", ".#."]),
        ("l_shape", ["#.", "##"]),
        ("t_shape", ["###", ".#."]),
        ("plus", [".#.", "###", ".#."]),
        ("zigzag", ["##.", ".##"]),
    ],
)
def test_the_least_of_each_kind_looks_as_its_name_says(kind, example):
    assert example in [drawn(shape) for shape in of_kind(kind)]
