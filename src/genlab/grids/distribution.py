"""The parameters of the generating program, and which shapes it draws how often."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from genlab.grids.placements import Ints, Placements
from genlab.grids.shapes import KINDS, LINES, PATTERNS, RECTANGLES, SHAPES


@dataclass(frozen=True)
class GridDistribution:
    """The parameters of the program. `kinds` maps names of `KINDS` to weights (absent: 0).

    Raises ValueError for a value out of range, and for a kind with no shape that fits the canvas.
    """

    size: int = 16
    min_objects: int = 1
    max_objects: int = 6
    kinds: Mapping[str, float] = field(default_factory=lambda: dict.fromkeys(KINDS, 1.0))
    spacing: int = 1
    overlap: bool = False

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
        """All places of all shapes on this canvas with this spacing."""
        return _placements(self.size, self.spacing)


@lru_cache(maxsize=8)
def _placements(size: int, spacing: int) -> Placements:
    return Placements.on_canvas(size, spacing)


class ShapeGenerator:
    """Draws shapes of some kinds: a kind by its weight, then one of its shapes uniformly."""

    kinds: Sequence[str] = KINDS

    def __init__(self, program: GridDistribution) -> None:
        self.weights = np.zeros(len(SHAPES))
        fits = program.placements().count > 0
        kind_of = np.array([shape.kind for shape in SHAPES])
        for kind in self.kinds:
            weight = program.kinds.get(kind, 0.0)
            members = fits & (kind_of == KINDS.index(kind))
            if weight and not members.any():
                raise ValueError(
                    f"kinds: no {kind} fits a canvas of size {program.size}: set its weight to 0"
                )
            if weight:
                self.weights[members] = weight / members.sum()


class RectangleGenerator(ShapeGenerator):
    """Filled and hollow rectangles."""

    kinds = RECTANGLES


class LineGenerator(ShapeGenerator):
    """Horizontal, vertical and diagonal lines."""

    kinds = LINES


class PatternGenerator(ShapeGenerator):
    """Checkerboards, L, T, plus and zigzag, in every rotation and reflection."""

    kinds = PATTERNS


def alias_table(probabilities: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], Ints]:
    """Walker's alias method (Vose 1991): slot i, drawn uniformly, yields i with chance keep[i] and
    alias[i] otherwise, so that a draw costs two look-ups whatever the number of outcomes.
    """
    keep = probabilities * len(probabilities)
    alias = np.arange(len(keep), dtype=np.int32)
    poor = [int(i) for i in np.flatnonzero(keep < 1)]
    rich = [int(i) for i in np.flatnonzero(keep >= 1)]
    while poor and rich:
        low, high = poor.pop(), rich[-1]
        alias[low] = high
        keep[high] -= 1 - keep[low]
        if keep[high] < 1:
            poor.append(rich.pop())
    # What rounding leaves over is full; an impossible outcome always finds a rich one before.
    keep[poor + rich] = 1
    return keep, alias
