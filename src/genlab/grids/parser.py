"""Parse grids into legal objects and stray cells.

A component is a set of coloured cells that are 8-connected. It is an object if it has one colour
and its mask is one of `SHAPES`; otherwise its cells are stray. With `spacing` of at least 1,
components are objects, so a generated grid parses in exactly one way: into the objects it was made
of.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from genlab.grids.palette import BLACK
from genlab.grids.shapes import LONGEST, OBJECT_DTYPE, SHAPES, Grids, Objects

Flags = npt.NDArray[np.bool_]

_KEYS = np.array([shape.key for shape in SHAPES], dtype=np.uint64)
_BY_KEY = np.argsort(_KEYS)
_SORTED_KEYS = _KEYS[_BY_KEY]
_KIND = np.array([shape.kind for shape in SHAPES], dtype=np.uint8)

# 8-connected within a grid; no connection between the grids of a batch.
_NEIGHBOURS = np.stack([np.zeros((3, 3)), np.ones((3, 3)), np.zeros((3, 3))]).astype(np.bool_)


class Components(NamedTuple):
    """All components of a batch, by grid and then by their first cell in reading order.

    `objects`: OBJECT_DTYPE (m,); `kind`, `colour` and `shape` are defined only where `valid`, bool
    (m,), is true. `labels`: int (n, height, width), 0 on black cells, else 1 + the index of the
    cell's component.
    """

    objects: Objects
    valid: Flags
    labels: npt.NDArray[np.int32]

    @property
    def legal(self) -> Objects:
        """Components that are objects: OBJECT_DTYPE (k,), sorted by grid."""
        return self.objects[self.valid]

    @property
    def stray(self) -> Flags:
        """Coloured cells that belong to no object: bool (n, height, width)."""
        stray: Flags = (self.labels > 0) & ~np.append(False, self.valid)[self.labels]
        return stray


def is_valid(grids: Grids, min_objects: int = 1, max_objects: int = 6) -> Flags:
    """Return which grids are valid, bool (n,): no stray cell, a number of objects within range."""
    components = find_components(grids)
    component_counts = np.bincount(components.objects["grid"], minlength=len(grids))
    object_counts = np.bincount(components.legal["grid"], minlength=len(grids))
    in_range = (min_objects <= object_counts) & (object_counts <= max_objects)
    return np.asarray((component_counts == object_counts) & in_range)


def find_components(grids: Grids) -> Components:
    """Find every component of grids, uint8 (n, height, width), and its shape if it is an object."""
    labels = np.empty(grids.shape, dtype=np.int32)
    ndimage.label(grids != BLACK, _NEIGHBOURS, output=labels)
    coloured = np.flatnonzero(labels)
    label = labels.reshape(-1)[coloured]
    order = np.argsort(label, kind="stable")
    start = np.flatnonzero(np.diff(label[order], prepend=0))
    objects, one_colour, key = _measure(grids, coloured[order], start)
    slot = np.minimum(np.searchsorted(_SORTED_KEYS, key), len(_SORTED_KEYS) - 1)
    objects["shape"] = _BY_KEY[slot]
    objects["kind"] = _KIND[objects["shape"]]
    return Components(objects, one_colour & (_SORTED_KEYS[slot] == key), labels)


def _measure(
    grids: Grids, cells: npt.NDArray[np.int64], start: npt.NDArray[np.int64]
) -> tuple[Objects, Flags, npt.NDArray[np.uint64]]:
    """Measure components: their objects, whether each has one colour, and the key of its mask.

    cells: indices of coloured cells in the flattened grids, component by component. start: position
    of each component's first cell in `cells`.
    """
    objects = np.zeros(len(start), dtype=OBJECT_DTYPE)
    if not len(start):
        return objects, np.zeros(0, dtype=np.bool_), np.zeros(0, dtype=np.uint64)
    grid, row, col = np.unravel_index(cells, grids.shape)
    colour = grids.reshape(-1)[cells]
    top = np.minimum.reduceat(row, start)
    left = np.minimum.reduceat(col, start)
    height = np.maximum.reduceat(row, start) + 1 - top
    width = np.maximum.reduceat(col, start) + 1 - left
    cell_counts = np.diff(start, append=len(cells))
    down = row - np.repeat(top, cell_counts)
    right = col - np.repeat(left, cell_counts)
    # A component larger than any shape does not fit the 64 bits: its key is 0, no shape's.
    bit = np.uint64(1) << ((LONGEST * down + right) % 64).astype(np.uint64)
    small = (height <= LONGEST) & (width <= LONGEST)
    key = np.where(small, np.bitwise_or.reduceat(bit, start), np.uint64(0))
    lowest = np.minimum.reduceat(colour, start)
    objects["grid"] = grid[start]
    objects["colour"] = lowest
    objects["row"] = top
    objects["col"] = left
    objects["height"] = height
    objects["width"] = width
    objects["cells"] = cell_counts
    return objects, lowest == np.maximum.reduceat(colour, start), key
