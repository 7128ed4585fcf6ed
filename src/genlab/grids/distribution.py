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
    """Parameters of the distribution. `kinds` maps names of `KINDS` to weights (absent: 0).

    Raises ValueError for a value out of range.
    """

    size: int = 16
    min_objects: int = 1
    max_objects: int = 6
    kinds: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 1.0))
    spacing: int = 1

    def __post_init__(self) -> None:
        if not 2 <= self.size <= 64:
            raise ValueError(f"size must be 2 to 64, got {self.size}")
        if not 1 <= self.min_objects <= self.max_objects:
            raise ValueError(
                "objects must be 1 <= min_objects <= max_objects, "
                f"got {self.min_objects} and {self.max_objects}"
            )
        if not 0 <= self.spacing < self.size:
            raise ValueError(f"spacing must be 0 to {self.size - 1}, got {self.spacing}")
        unknown = set(self.kinds) - set(KINDS)
        if unknown:
            raise ValueError(f"unknown kinds {sorted(unknown)}: known are {', '.join(KINDS)}")
        if any(not 0 <= weight < np.inf for weight in self.kinds.values()):
            raise ValueError(f"kinds: weights must be >= 0 and finite, got {dict(self.kinds)}")
        if not any(self.kinds.values()):
            raise ValueError("kinds: at least one weight must be above 0")

    def placements(self) -> Placements:
        """All placements of all shapes on this canvas with this spacing."""
        return _placements(self.size, self.spacing)


_placements = lru_cache(maxsize=8)(Placements.on_canvas)


class ShapeGenerator:
    """Draws shapes of some kinds: a kind by its weight, then one of its shapes uniformly.

    `weights[s]` is the weight of shape s. Raises ValueError for a kind with no shape that fits.
    """

    kinds: Sequence[str] = KINDS

    def __init__(self, distribution: GridDistribution) -> None:
        self.weights = np.zeros(len(SHAPES))
        fits = distribution.placements().count > 0
        kind_of = np.array([shape.kind for shape in SHAPES])
        for kind in self.kinds:
            weight = distribution.kinds.get(kind, 0.0)
            members = fits & (kind_of == KINDS.index(kind))
            if weight and not members.any():
                raise ValueError(
                    f"kinds: no {kind} fits a canvas of size {distribution.size}: "
                    "set its weight to 0"
                )
            self.weights[members] = weight / max(1, members.sum())


class RectangleGenerator(ShapeGenerator):
    """Filled and hollow rectangles."""

    kinds = RECTANGLES


class LineGenerator(ShapeGenerator):
    """Horizontal, vertical and diagonal lines."""

    kinds = LINES


class PatternGenerator(ShapeGenerator):
    """Checkerboards, L, T, plus and zigzag, in every rotation and reflection."""

    kinds = PATTERNS
