"""The legal shapes of the grid language: `RULES` defines every kind, `SHAPES` lists all masks.

A shape is a mask cropped to its bounding box. Every mask is one 8-connected component, and no mask
belongs to two kinds; the parser relies on both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np
import numpy.typing as npt

Mask = npt.NDArray[np.bool_]
Grids = npt.NDArray[np.uint8]
Objects = npt.NDArray[np.void]

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
"""One row per object, sorted by `grid`; within a grid in the order in which they were drawn."""

LONGEST = 8
"""Maximum side of a shape, so that a mask packs into the 64 bits of `Shape.key`."""


@dataclass(frozen=True)
class Rule:
    """Definition of one kind of shape.

    min_side, max_side: bounds of the longer side, in cells. masks: yields every mask of the kind
    with sides in a range.
    """

    kind: str
    definition: str
    min_side: int
    max_side: int
    masks: Callable[[range], Iterator[Mask]]


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
        return sum(1 << (LONGEST * int(row) + int(col)) for row, col in np.argwhere(self.mask))


def _filled(sides: range) -> Iterator[Mask]:
    for box in product(sides, repeat=2):
        yield np.ones(box, dtype=np.bool_)


def _hollow(sides: range) -> Iterator[Mask]:
    for height, width in product(sides, repeat=2):
        hole = np.zeros((height - 2, width - 2), dtype=np.bool_)
        yield np.pad(hole, 1, constant_values=True)


def _lines(mask: Callable[[int], Mask]) -> Callable[[range], Iterator[Mask]]:
    """Make a mask generator that yields one line of each length."""
    return lambda sides: map(mask, sides)


def _checkerboard(sides: range) -> Iterator[Mask]:
    for box in product(sides, repeat=2):
        odd = np.indices(box).sum(axis=0) % 2 == 1
        yield ~odd
        yield odd


def _ell(sides: range) -> Iterator[Mask]:
    for box in product(sides, repeat=2):
        mask = np.zeros(box, dtype=np.bool_)
        mask[:, 0] = mask[-1, :] = True
        yield from _symmetries(mask)


def _tee(sides: range) -> Iterator[Mask]:
    for bar, depth in product(sides[::2], range(2, sides.stop)):
        mask = np.zeros((depth, bar), dtype=np.bool_)
        mask[0, :] = mask[:, bar // 2] = True
        yield from _symmetries(mask)


def _plus(sides: range) -> Iterator[Mask]:
    for side in sides[::2]:
        mask = np.zeros((side, side), dtype=np.bool_)
        mask[side // 2, :] = mask[:, side // 2] = True
        yield mask


def _zigzag(sides: range) -> Iterator[Mask]:
    """Stairs: right, down, right, down, with a longer side within `sides`."""
    for cells in range(2 * sides.start - 2, 2 * sides.stop - 2):
        steps = np.arange(cells)
        mask = np.zeros(((cells + 1) // 2, cells // 2 + 1), dtype=np.bool_)
        mask[steps // 2, (steps + 1) // 2] = True
        yield from _symmetries(mask)


def _symmetries(mask: Mask) -> Iterator[Mask]:
    """Yield all eight rotations and reflections, repeats included."""
    for turns in range(4):
        rotated = np.rot90(mask, turns)
        yield rotated
        yield np.fliplr(rotated)


RULES: tuple[Rule, ...] = (
    Rule("rectangle_filled", "every height and width, all cells", 2, 5, _filled),
    Rule("rectangle_hollow", "every height and width, a frame one cell thick", 3, 6, _hollow),
    Rule("line_horizontal", "one row", 3, 8, _lines(lambda n: np.full((1, n), True))),
    Rule("line_vertical", "one column", 3, 8, _lines(lambda n: np.full((n, 1), True))),
    Rule("line_diagonal", "from top left", 3, 8, _lines(lambda n: np.eye(n, dtype=np.bool_))),
    Rule("line_antidiagonal", "from top right", 3, 8, _lines(lambda n: np.eye(n)[::-1] > 0)),
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


def _list_shapes() -> Iterator[Shape]:
    for kind, rule in enumerate(RULES):
        masks = map(np.array, rule.masks(range(rule.min_side, rule.max_side + 1)))
        distinct = {(mask.shape, mask.tobytes()): mask for mask in masks}
        for mask in distinct.values():
            mask.flags.writeable = False
            yield Shape(kind, mask)


SHAPES: tuple[Shape, ...] = tuple(_list_shapes())
"""All legal shapes, grouped by kind in the order of `RULES`."""
