"""Shapes of a face: how one lies over another, its pixels, pose and expression."""

from __future__ import annotations

import math

import cv2
import numpy as np
import numpy.typing as npt

from genlab.benchmark.scoring.constants import POSE
from genlab.benchmark.scoring.faces import Face, Points, tilt_of

Mask = npt.NDArray[np.bool_]

FOREHEAD = 0.35  # how far a face goes above its brows, in heights from brow to chin
CHEEKS = ((1, 2, 3, 4, 48, 31), (15, 14, 13, 12, 54, 35))  # landmarks around each cheek
# Which landmark each becomes in a mirror.
MIRRORED = np.r_[
    16:-1:-1, 26:16:-1, 27:31, 35:30:-1, 45:41:-1, 47, 46, 39:35:-1, 41, 40,
    54:47:-1, 59:54:-1, 64:59:-1, 67:64:-1,
]  # fmt: skip


def side_turn(points: Points) -> float:
    """-1 to 1: where the nose's tip lies between both ends of the jaw, 0 in the middle."""
    along = points[42:48].mean(0) - points[36:42].mean(0)
    left, right = (abs(float((points[30] - points[end]) @ along)) for end in (1, 15))
    return (left - right) / max(left + right, 1e-9)


def mirrored(points: Points, width: int) -> Points:
    """The landmarks of a face in the mirrored picture, `width` pixels wide."""
    return np.asarray((points * [-1, 1] + [width - 1, 0])[MIRRORED], dtype=np.float64)


def similarity(source: Points, target: Points) -> Points:
    """The (2, 3) turn, scale and shift that takes points nearest to others (Umeyama 1991)."""
    centre, aim = source.mean(0), target.mean(0)
    a, b = source - centre, target - aim
    left, sizes, right = np.linalg.svd(b.T @ a)
    flip = np.array([1.0, np.sign(np.linalg.det(left @ right))])
    turn = left @ np.diag(flip) @ right
    matrix = turn * float((sizes * flip).sum() / (a**2).sum())
    return np.column_stack([matrix, aim - matrix @ centre])


def face_mask(points: Points, shape: tuple[int, ...], forehead: float = FOREHEAD) -> Mask:
    """(height, width): inside the jaw, and `forehead` heights from chin to brow above the brows."""
    brows, chin = points[17:27], points[8]
    up = brows.mean(0) - chin
    outline = np.concatenate([points[:17], brows, brows + forehead * up])
    hull = cv2.convexHull(np.rint(outline).astype(np.int32))
    mask = np.zeros(shape[:2], dtype=np.uint8)
    cv2.fillConvexPoly(mask, hull, 1)
    mask[[0, -1]] = 0
    mask[:, [0, -1]] = 0  # Poisson blending needs a border outside the mask
    return mask.astype(np.bool_)


def cheeks(points: Points, shape: tuple[int, ...]) -> Mask:
    """(height, width): both cheeks."""
    mask = np.zeros(shape[:2], dtype=np.uint8)
    for outline in CHEEKS:
        hull = cv2.convexHull(np.rint(points[list(outline)]).astype(np.int32))
        cv2.fillConvexPoly(mask, hull, 1)
    return mask.astype(np.bool_)


def expression(result: Face, template: Face) -> dict[str, float]:
    """Values in [0, 1]: place, scale, roll, turn, mouth, lids; and `score`, their geometric mean.

    Each is a Gaussian of the difference between both faces, 1 where there is none. The face's shape
    is not compared: it is the avatar's. Compared are the head's place, size, roll and turn, and how
    open mouth and eyes are.
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
