"""The distribution that grids are drawn from: its parameters, placements and shape generators.

Every placement of every shape on a canvas is a bit mask, so that a collision test is one AND.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from genlab.grids.shapes import (
    KINDS,
    LINES,
    OBJECT_DTYPE,
    PATTERNS,
    RECTANGLES,
    SHAPES,
    Mask,
    Objects,
)

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int32]


def collide(first: Words, second: Words) -> npt.NDArray[np.bool_]:
    """Return whether two sets of cells intersect: uint64 (..., words), broadcast -> bool (...)."""
    common = first & second
    either = common[..., 0]
    for word in range(1, common.shape[-1]):
        either = either | common[..., word]
    return np.asarray(either != 0)


@dataclass(frozen=True, eq=False)
class Placements:
    """Every position of every shape on a canvas, sorted by shape, then row, then column.

    Shape s has the `count[s]` placements from `first[s]` on; a shape that is larger than the canvas
    has none. `objects`: OBJECT_DTYPE (placements,), with `grid` and `colour` 0. `cells` and `halo`
    are bit masks, uint64 (placements, words): the shape's cells, and these together with every cell
    nearer than `spacing` (Chebyshev distance). `offsets[s, :SHAPES[s].cells]`: the shape's cells in
    the flattened grid, relative to the corner of its bounding box.
    """

    size: int
    first: Ints
    count: Ints
    objects: Objects
    cells: Words
    halo: Words
    offsets: npt.NDArray[np.intp]

    @classmethod
    def on_canvas(cls, size: int, spacing: int) -> Placements:
        """Build the placements of all legal shapes on a canvas of size x size cells."""
        corners = [
            np.indices((max(0, size + 1 - s.height), max(0, size + 1 - s.width))).reshape(2, -1).T
            for s in SHAPES
        ]
        count = np.array([len(places) for places in corners], dtype=np.int32)
        objects = np.zeros(count.sum(), dtype=OBJECT_DTYPE)
        objects["row"], objects["col"] = np.concatenate(corners).T
        objects["shape"] = np.repeat(np.arange(len(SHAPES)), count)
        for name in ("kind", "height", "width", "cells"):
            objects[name] = np.repeat([getattr(shape, name) for shape in SHAPES], count)
        offsets = np.zeros((len(SHAPES), max(shape.cells for shape in SHAPES)), dtype=np.intp)
        for row, shape in zip(offsets, SHAPES, strict=True):
            row[: shape.cells] = np.argwhere(shape.mask) @ (size, 1)
        stamps = [(shape.mask, places) for shape, places in zip(SHAPES, corners, strict=True)]
        return cls(
            size=size,
            first=(np.cumsum(count) - count).astype(np.int32),
            count=count,
            objects=objects,
            cells=np.concatenate([_stamp(mask, places, size, 0) for mask, places in stamps]),
            halo=np.concatenate([_stamp(mask, places, size, spacing) for mask, places in stamps]),
            offsets=offsets,
        )

    def index(self, objects: Objects) -> Ints:
        """Return the index of each object's placement, int32 of the shape of `objects`."""
        columns = self.size + 1 - objects["width"].astype(np.int32)
        return np.asarray(self.first[objects["shape"]] + objects["row"] * columns + objects["col"])


def _stamp(mask: Mask, corners: npt.NDArray[np.int64], size: int, reach: int) -> Words:
    """Pack the cells within `reach` of the mask at each corner: bits, uint64 (corners, words)."""
    canvases = np.zeros((len(corners), size + 2 * reach, size + 2 * reach), dtype=np.bool_)
    rows, cols = np.nonzero(mask)
    canvas = np.arange(len(corners))[:, None]
    for down, right in np.ndindex(2 * reach + 1, 2 * reach + 1):
        canvases[canvas, corners[:, :1] + rows + down, corners[:, 1:] + cols + right] = True
    inside = canvases[:, reach : reach + size, reach : reach + size]
    flat = np.pad(inside.reshape(len(corners), size * size), ((0, 0), (0, -size * size % 64)))
    return np.packbits(flat, axis=1, bitorder="little").view(np.uint64)


@dataclass(frozen=True)
class GridDistribution:
    """Parameters of the distribution of grids.

    `kinds` maps names of `KINDS` to weights; a kind that is absent has weight 0.
    """

    size: int = 16
    min_objects: int = 1
    max_objects: int = 6
    kinds: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 1.0))
    spacing: int = 1

    def placements(self) -> Placements:
        """Return all placements of all shapes on this canvas with this spacing."""
        return _placements(self.size, self.spacing)


_placements = lru_cache(maxsize=8)(Placements.on_canvas)


class ShapeGenerator:
    """Weights of the shapes of some kinds.

    A kind is drawn by its weight, then one of its shapes uniformly: `weights[s]` is the weight of
    shape s, 0 for a shape that does not fit on the canvas.
    """

    kinds: Sequence[str] = KINDS

    def __init__(self, distribution: GridDistribution) -> None:
        self.weights = np.zeros(len(SHAPES))
        fits = distribution.placements().count > 0
        kind_of = np.array([shape.kind for shape in SHAPES])
        for kind in self.kinds:
            members = fits & (kind_of == KINDS.index(kind))
            self.weights[members] = distribution.kinds.get(kind, 0.0) / max(1, members.sum())


class RectangleGenerator(ShapeGenerator):
    """Filled and hollow rectangles."""

    kinds = RECTANGLES


class LineGenerator(ShapeGenerator):
    """Horizontal, vertical and diagonal lines."""

    kinds = LINES


class PatternGenerator(ShapeGenerator):
    """Checkerboards, L, T, plus and zigzag, in every rotation and reflection."""

    kinds = PATTERNS
