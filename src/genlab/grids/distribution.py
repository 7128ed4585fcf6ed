"""The distribution that grids are drawn from: its parameters, and the shapes of each generator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from genlab.grids.placements import Placements
from genlab.grids.shapes import KINDS, LINES, PATTERNS, RECTANGLES, SHAPES


@dataclass(frozen=True)
class GridDistribution:
    """Parameters of the distribution. `kinds` maps names of `KINDS` to weights (absent: 0)."""

    size: int = 16
    min_objects: int = 1
    max_objects: int = 6
    kinds: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 1.0))
    spacing: int = 1

    def placements(self) -> Placements:
        """All placements of all shapes on this canvas with this spacing."""
        return _placements(self.size, self.spacing)


_placements = lru_cache(maxsize=8)(Placements.on_canvas)


class ShapeGenerator:
    """Draws shapes of some kinds: a kind by its weight, then one of its shapes uniformly.

    `weights[s]` is the weight of shape s, 0 for one that does not fit on the canvas.
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
