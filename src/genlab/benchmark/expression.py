"""Is the template's pose and expression kept? Read off the landmarks, feature by feature.

Shape is left out on purpose: the avatar's nose may be longer. What should stay is where the head
is, how large, how it leans and turns, and how open mouth and eyes are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from genlab.benchmark.constants import CONSTANTS
from genlab.benchmark.faces import Face, Points
from genlab.benchmark.geometry import side_turn

_C: Any = CONSTANTS


def expression(result: Face, template: Face) -> dict[str, float]:
    """Marks in [0, 1]: place, scale, roll, turn, mouth, lids; and `score`, their geometric mean.

    Each is a Gaussian of the difference between both faces, 1 where there is none.
    """
    eyes = max(template.eyes, 1e-9)
    faults = {
        "place": float(np.linalg.norm(_middle(result) - _middle(template))) / eyes,
        "scale": math.log(max(result.eyes, 1e-9) / eyes),
        "roll": (_roll(result.landmarks) - _roll(template.landmarks) + 180.0) % 360.0 - 180.0,
        "turn": side_turn(result.landmarks) - side_turn(template.landmarks),
        "mouth": _opening(result.landmarks, (61, 62, 63), (67, 66, 65), (48, 54))
        - _opening(template.landmarks, (61, 62, 63), (67, 66, 65), (48, 54)),
        "lids": _lids(result.landmarks) - _lids(template.landmarks),
    }
    marks = {name: math.exp(-((fault / _C[name]) ** 2) / 2) for name, fault in faults.items()}
    return {"score": math.prod(marks.values()) ** (1 / len(marks)), **marks}


def _middle(face: Face) -> Points:
    return np.asarray(face.landmarks[17:].mean(0), dtype=np.float64)


def _roll(points: Points) -> float:
    right, down = points[42:48].mean(0) - points[36:42].mean(0)
    return math.degrees(math.atan2(down, right))


def _opening(
    points: Points, upper: tuple[int, ...], lower: tuple[int, ...], ends: tuple[int, int]
) -> float:
    gap = np.linalg.norm(points[list(upper)] - points[list(lower)], axis=1).mean()
    return float(gap / max(float(np.linalg.norm(points[ends[0]] - points[ends[1]])), 1e-9))


def _lids(points: Points) -> float:
    return (
        _opening(points, (37, 38), (41, 40), (36, 39))
        + _opening(points, (43, 44), (47, 46), (42, 45))
    ) / 2
