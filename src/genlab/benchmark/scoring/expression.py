"""Preservation of pose and expression, measured on the landmarks.

The face's shape is not compared: it is the avatar's. Compared are the head's place, size, roll and
turn, and how open mouth and eyes are.
"""

from __future__ import annotations

import math

import numpy as np

from genlab.benchmark.scoring.constants import POSE
from genlab.benchmark.scoring.faces import Face, Points, tilt_of
from genlab.benchmark.scoring.geometry import side_turn


def expression(result: Face, template: Face) -> dict[str, float]:
    """Values in [0, 1]: place, scale, roll, turn, mouth, lids; and `score`, their geometric mean.

    Each is a Gaussian of the difference between both faces, 1 where there is none.
    """
    eyes = max(template.eyes, 1e-9)
    faults = {
        "place": float(np.linalg.norm(_middle(result) - _middle(template))) / eyes,
        "scale": math.log(max(result.eyes, 1e-9) / eyes),
        "roll": (tilt_of(result.landmarks) - tilt_of(template.landmarks) + 180.0) % 360.0 - 180.0,
        "turn": side_turn(result.landmarks) - side_turn(template.landmarks),
        "mouth": _opening(result.landmarks, (61, 62, 63), (67, 66, 65), (48, 54))
        - _opening(template.landmarks, (61, 62, 63), (67, 66, 65), (48, 54)),
        "lids": _lids(result.landmarks) - _lids(template.landmarks),
    }
    values = {name: math.exp(-((fault / POSE[name]) ** 2) / 2) for name, fault in faults.items()}
    return {"score": math.prod(values.values()) ** (1 / len(values)), **values}


def _middle(face: Face) -> Points:
    return np.asarray(face.landmarks[17:].mean(0), dtype=np.float64)


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
