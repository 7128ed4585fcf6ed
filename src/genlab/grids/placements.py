"""Every place where a shape can stand on the canvas, as bit masks that collide by one AND."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from genlab.grids.shapes import SHAPES, Mask, Shape

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int32]


def pack(canvases: npt.NDArray[np.bool_]) -> Words:
    """Cells as bits: bool (n, height, width) -> uint64 (n, words), cell i in bit i of the words."""
    flat = canvases.reshape(len(canvases), canvases.shape[1] * canvases.shape[2])
    spare = -flat.shape[1] % 64
    bits = np.packbits(np.pad(flat, ((0, 0), (0, spare))), axis=1, bitorder="little")
    return np.ascontiguousarray(bits).view("<u8").astype(np.uint64, copy=False)


def collide(first: Words, second: Words) -> npt.NDArray[np.bool_]:
    """Whether two sets of cells share one: uint64 (..., words) twice, broadcast -> bool (...)."""
    common = first & second
    met = common[..., 0]
    for word in range(1, common.shape[-1]):
        met = met | common[..., word]
    return np.asarray(met != 0)


@dataclass(frozen=True, eq=False)
class Placements:
    """Placements in shape order, then row, then column: shape s has `count[s]` from `first[s]` on.

    A shape that is larger than the canvas has no placement. `cells` and `halo` are uint64
    (placements, words): the shape's cells, and those with every cell nearer than `spacing` to them
    (Chebyshev). `offsets[s, :size_of[s]]` are the shape's cells in the flat grid, counted from the
    cell at its corner.
    """

    size: int
    spacing: int
    first: Ints
    count: Ints
    shape: Ints
    row: Ints
    col: Ints
    cells: Words
    halo: Words
    offsets: npt.NDArray[np.intp]
    size_of: Ints

    @classmethod
    def on_canvas(cls, size: int, spacing: int) -> Placements:
        """All placements of all legal shapes on a canvas of size x size cells."""
        corners = [_corners(shape, size) for shape in SHAPES]
        count = np.array([len(places) for places in corners], dtype=np.int32)
        row, col = np.concatenate(corners).astype(np.int32).T
        size_of = np.array([shape.cells for shape in SHAPES], dtype=np.int32)
        offsets = np.zeros((len(SHAPES), size_of.max()), dtype=np.intp)
        for row_of, shape in zip(offsets, SHAPES, strict=True):
            rows, cols = np.nonzero(shape.mask)
            row_of[: shape.cells] = rows * size + cols
        reach = [(s.mask, places) for s, places in zip(SHAPES, corners, strict=True)]
        return cls(
            size=size,
            spacing=spacing,
            first=_starts(count),
            count=count,
            shape=np.repeat(np.arange(len(SHAPES), dtype=np.int32), count),
            row=np.ascontiguousarray(row),
            col=np.ascontiguousarray(col),
            cells=np.concatenate([_stamp(mask, places, size, 0) for mask, places in reach]),
            halo=np.concatenate([_stamp(mask, places, size, spacing) for mask, places in reach]),
            offsets=offsets,
            size_of=size_of,
        )

    def index(self, shape: Ints, row: Ints, col: Ints) -> Ints:
        """The placement of a shape whose bounding box has its corner at (row, col)."""
        columns = self.size + 1 - np.array([each.width for each in SHAPES], dtype=np.int32)
        return np.asarray(self.first[shape] + row * columns[shape] + col, dtype=np.int32)


def _starts(counts: Ints) -> Ints:
    return (np.cumsum(counts) - counts).astype(np.int32)


def _corners(shape: Shape, size: int) -> npt.NDArray[np.int64]:
    rows, cols = max(0, size + 1 - shape.height), max(0, size + 1 - shape.width)
    return np.indices((rows, cols)).reshape(2, -1).T


def _stamp(mask: Mask, corners: npt.NDArray[np.int64], size: int, reach: int) -> Words:
    """The mask, grown by `reach` cells, stamped at each corner and cut off at the canvas' edge."""
    height, width = mask.shape
    grown = np.zeros((height + 2 * reach, width + 2 * reach), dtype=np.bool_)
    for down in range(2 * reach + 1):
        for right in range(2 * reach + 1):
            grown[down : down + height, right : right + width] |= mask
    rows, cols = np.nonzero(grown)
    padded = np.zeros((len(corners), size + 2 * reach, size + 2 * reach), dtype=np.bool_)
    which = np.arange(len(corners))[:, None]
    padded[which, corners[:, :1] + rows, corners[:, 1:] + cols] = True
    return pack(padded[:, reach : reach + size, reach : reach + size])
