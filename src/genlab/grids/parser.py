"""Take grids apart into legal shapes, or say which cells belong to none.

A component is a set of coloured cells that hang together, diagonally too. It is an object where it
has one colour and its mask is one of `SHAPES`; otherwise its cells are stray. Where objects keep a
free cell around them (`spacing` 1 or more), components are objects, so a generated grid has exactly
one reading: the objects it was made of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from genlab.grids.palette import BLACK, COLOURS
from genlab.grids.shapes import LONGEST, OBJECT_DTYPE, SHAPES

Grids = npt.NDArray[np.uint8]
Objects = npt.NDArray[np.void]
Flags = npt.NDArray[np.bool_]

_KEYS = np.array([shape.key for shape in SHAPES], dtype=np.uint64)
_BY_KEY = np.argsort(_KEYS)
_SORTED_KEYS = _KEYS[_BY_KEY]
_KIND = np.array([shape.kind for shape in SHAPES], dtype=np.uint8)

# Neighbours in the same grid alone: diagonals hang together, grids of a batch never do.
_NEIGHBOURS = np.stack([np.zeros((3, 3)), np.ones((3, 3)), np.zeros((3, 3))]).astype(np.bool_)


class Components(NamedTuple):
    """All components of a batch, by grid and then by their first cell in reading order.

    `objects`: OBJECT_DTYPE (m,); `kind`, `colour` and `shape` mean something only where `valid`,
    bool (m,), is true. `labels`: int (n, height, width), 0 on black cells, else 1 + the index of
    the cell's component.
    """

    objects: Objects
    valid: Flags
    labels: npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class ParsedGrid:
    """One grid's legal objects, OBJECT_DTYPE (k,), and its stray cells, bool (height, width)."""

    objects: Objects
    stray: Flags

    @property
    def whole(self) -> bool:
        """Whether every coloured cell belongs to a legal object."""
        return not self.stray.any()


def parse(grids: Grids) -> list[ParsedGrid]:
    """Parse grids, uint8 (n, height, width): one `ParsedGrid` each, in order.

    `objects["grid"]` is the grid's index in the batch. Raises ValueError for another shape or
    type, and for a colour that is none.
    """
    found = find_components(grids)
    stray = (found.labels > 0) & ~np.concatenate([[False], found.valid])[found.labels]
    objects = found.objects[found.valid]
    bounds = np.searchsorted(objects["grid"], np.arange(len(grids) + 1))
    return [
        ParsedGrid(objects[low:high], cells)
        for low, high, cells in zip(bounds[:-1], bounds[1:], stray, strict=True)
    ]


def is_valid(grids: Grids, min_objects: int = 1, max_objects: int = 6) -> Flags:
    """Which grids are legal, bool (n,): no stray cell, and an object count within range."""
    found = find_components(grids)
    of_all = np.bincount(found.objects["grid"], minlength=len(grids))
    of_legal = np.bincount(found.objects["grid"][found.valid], minlength=len(grids))
    in_range = (min_objects <= of_legal) & (of_legal <= max_objects)
    return np.asarray((of_all == of_legal) & in_range)


def object_table(parsed: Sequence[ParsedGrid]) -> Objects:
    """All legal objects of a parsed batch as one table: OBJECT_DTYPE (m,), sorted by grid."""
    return np.concatenate([np.empty(0, dtype=OBJECT_DTYPE), *(grid.objects for grid in parsed)])


def find_components(grids: Grids) -> Components:
    """Every component of grids, uint8 (n, height, width), and its legal shape where it has one."""
    _check(grids)
    labels = np.empty(grids.shape, dtype=np.int32)
    ndimage.label(grids != BLACK, _NEIGHBOURS, output=labels)
    where = np.flatnonzero(labels)
    label = labels.reshape(-1)[where]
    order = np.argsort(label, kind="stable")
    where, label = where[order], label[order]
    start = np.flatnonzero(np.diff(label, prepend=0))
    objects, one_colour, key = _measure(grids, where, start)
    slot = np.minimum(np.searchsorted(_SORTED_KEYS, key), len(_SORTED_KEYS) - 1)
    shape = _BY_KEY[slot]
    objects["shape"], objects["kind"] = shape, _KIND[shape]
    return Components(objects, one_colour & (_SORTED_KEYS[slot] == key), labels)


def _measure(
    grids: Grids, where: npt.NDArray[np.int64], start: npt.NDArray[np.int64]
) -> tuple[Objects, Flags, npt.NDArray[np.uint64]]:
    """Box, cells, colour and key of components whose cells, flat, begin at `start` in `where`."""
    objects = np.zeros(len(start), dtype=OBJECT_DTYPE)
    if not len(start):
        return objects, np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.uint64)
    grid, row, col = np.unravel_index(where, grids.shape)
    colour = grids.reshape(-1)[where]
    top, left = np.minimum.reduceat(row, start), np.minimum.reduceat(col, start)
    height = np.maximum.reduceat(row, start) + 1 - top
    width = np.maximum.reduceat(col, start) + 1 - left
    cells = np.diff(start, append=len(where))
    down, right = row - np.repeat(top, cells), col - np.repeat(left, cells)
    # Cells beyond the longest legal side have no bit; such a component keeps the key 0: no shape's.
    bit = np.uint64(1) << ((LONGEST * down + right) % 64).astype(np.uint64)
    small = (height <= LONGEST) & (width <= LONGEST)
    key = np.where(small, np.bitwise_or.reduceat(bit, start), np.uint64(0))
    lowest, highest = np.minimum.reduceat(colour, start), np.maximum.reduceat(colour, start)
    columns = (grid[start], lowest, top, left, height, width, cells)
    names = ("grid", "colour", "row", "col", "height", "width", "cells")
    for name, column in zip(names, columns, strict=True):
        objects[name] = column
    return objects, lowest == highest, key


def _check(grids: Grids) -> None:
    if grids.ndim != 3 or grids.dtype != np.uint8:
        raise ValueError(f"grids must be uint8 (n, height, width), got {grids.dtype} {grids.shape}")
    if max(grids.shape[1:]) > 255:
        raise ValueError(f"grids may have sides up to 255 cells, got {grids.shape[1:]}")
    if grids.size and grids.max() >= COLOURS:
        raise ValueError(f"colours are 0 to {COLOURS - 1}, got {grids.max()}")
