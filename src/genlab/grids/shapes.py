"""Every legal shape of the grid language, written down once: `RULES` is the table to read.

A shape is a mask cropped to its bounding box. Every mask is one piece (cells that touch, diagonally
too, hang together), and no mask belongs to two kinds: both are tested, and `parse` relies on them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]

OBJECT_DTYPE = np.dtype(
    [
        ("grid", "i4"),  # index of the object's grid in its split
        ("kind", "u1"),  # index into KINDS
        ("colour", "u1"),  # 1 to 9
        ("row", "u1"),  # top of the bounding box
        ("col", "u1"),  # left of the bounding box
        ("height", "u1"),
        ("width", "u1"),
        ("cells", "u2"),  # coloured cells
        ("shape", "u2"),  # index into SHAPES: kind, size and orientation
    ]
)
"""One row an object, sorted by `grid`; within a grid in the order in which they were drawn."""

LONGEST = 8
"""No side is longer, so that a mask packs into the 64 bits of `Shape.key`."""


@dataclass(frozen=True)
class Rule:
    """One kind: what it looks like, and its least and greatest side in cells."""

    kind: str
    meaning: str
    least: int
    greatest: int
    masks: Callable[[int, int], Iterator[Mask]]


@dataclass(frozen=True, eq=False)
class Shape:
    """One legal mask, bool (height, width), of the kind `KINDS[kind]`."""

    kind: int
    mask: Mask

    @property
    def height(self) -> int:
        return int(self.mask.shape[0])

    @property
    def width(self) -> int:
        return int(self.mask.shape[1])

    @cached_property
    def cells(self) -> int:
        return int(self.mask.sum())

    @cached_property
    def key(self) -> int:
        """The mask as 64 bits: cell (row, column) is bit `LONGEST * row + column`."""
        rows, cols = np.nonzero(self.mask)
        return sum(
            1 << (LONGEST * int(row) + int(col)) for row, col in zip(rows, cols, strict=True)
        )


def _boxes(least: int, greatest: int) -> Iterator[tuple[int, int]]:
    sides = range(least, greatest + 1)
    return ((height, width) for height in sides for width in sides)


def _turned(mask: Mask) -> Iterator[Mask]:
    """All eight rotations and reflections; repeats are dropped when the table is made."""
    for turns in range(4):
        turned = np.rot90(mask, turns)
        yield turned
        yield np.fliplr(turned)


def _filled(least: int, greatest: int) -> Iterator[Mask]:
    for box in _boxes(least, greatest):
        yield np.ones(box, dtype=np.bool_)


def _hollow(least: int, greatest: int) -> Iterator[Mask]:
    for box in _boxes(least, greatest):
        mask = np.ones(box, dtype=np.bool_)
        mask[1:-1, 1:-1] = False
        yield mask


def _horizontal(least: int, greatest: int) -> Iterator[Mask]:
    for length in range(least, greatest + 1):
        yield np.ones((1, length), dtype=np.bool_)


def _vertical(least: int, greatest: int) -> Iterator[Mask]:
    for length in range(least, greatest + 1):
        yield np.ones((length, 1), dtype=np.bool_)


def _diagonal(least: int, greatest: int) -> Iterator[Mask]:
    for length in range(least, greatest + 1):
        yield np.eye(length, dtype=np.bool_)


def _antidiagonal(least: int, greatest: int) -> Iterator[Mask]:
    for mask in _diagonal(least, greatest):
        yield np.fliplr(mask)


def _checkerboard(least: int, greatest: int) -> Iterator[Mask]:
    for height, width in _boxes(least, greatest):
        rows, cols = np.indices((height, width))
        for parity in (0, 1):
            yield (rows + cols) % 2 == parity


def _ell(least: int, greatest: int) -> Iterator[Mask]:
    for box in _boxes(least, greatest):
        mask = np.zeros(box, dtype=np.bool_)
        mask[:, 0] = mask[-1, :] = True
        yield from _turned(mask)


def _tee(least: int, greatest: int) -> Iterator[Mask]:
    for bar in range(least, greatest + 1, 2):
        for depth in range(2, greatest + 1):
            mask = np.zeros((depth, bar), dtype=np.bool_)
            mask[0, :] = mask[:, bar // 2] = True
            yield from _turned(mask)


def _plus(least: int, greatest: int) -> Iterator[Mask]:
    for side in range(least, greatest + 1, 2):
        mask = np.zeros((side, side), dtype=np.bool_)
        mask[side // 2, :] = mask[:, side // 2] = True
        yield mask


def _zigzag(least: int, greatest: int) -> Iterator[Mask]:
    """Stairs: right, down, right, down; `least` and `greatest` bound the longer side."""
    for cells in range(2 * least - 2, 2 * greatest):
        steps = np.arange(cells)
        mask = np.zeros(((cells + 1) // 2, cells // 2 + 1), dtype=np.bool_)
        mask[steps // 2, (steps + 1) // 2] = True
        yield from _turned(mask)


RULES: tuple[Rule, ...] = (
    Rule("rectangle_filled", "every height and width, all cells", 2, 5, _filled),
    Rule("rectangle_hollow", "every height and width, a frame one cell thick", 3, 6, _hollow),
    Rule("line_horizontal", "one row", 3, 8, _horizontal),
    Rule("line_vertical", "one column", 3, 8, _vertical),
    Rule("line_diagonal", "from top left to bottom right", 3, 8, _diagonal),
    Rule("line_antidiagonal", "from top right to bottom left", 3, 8, _antidiagonal),
    Rule("checkerboard", "every height and width, both parities", 3, 5, _checkerboard),
    Rule("l_shape", "two arms of every two lengths that share an end, 4 corners", 2, 6, _ell),
    Rule("t_shape", "an odd bar, a stem from its middle; depth from 2; 4 turns", 3, 5, _tee),
    Rule("plus", "two equal odd lines that cross in the middle", 3, 5, _plus),
    Rule("zigzag", "stairs of single steps from 4 cells; longer side; all turns", 3, 5, _zigzag),
)

KINDS: tuple[str, ...] = tuple(rule.kind for rule in RULES)
RECTANGLES = KINDS[:2]
LINES = KINDS[2:6]
PATTERNS = KINDS[6:]


def _legal_shapes() -> tuple[Shape, ...]:
    shapes: list[Shape] = []
    for kind, rule in enumerate(RULES):
        masks = rule.masks(rule.least, rule.greatest)
        for mask in {(mask.shape, mask.tobytes()): mask for mask in masks}.values():
            frozen = np.array(mask)
            frozen.flags.writeable = False
            shapes.append(Shape(kind, frozen))
    return tuple(shapes)


SHAPES: tuple[Shape, ...] = _legal_shapes()
"""All legal shapes, grouped by kind in the order of `RULES`."""
