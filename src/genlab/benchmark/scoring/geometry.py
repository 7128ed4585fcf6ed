"""Shapes of a face: how one lies over another, its pixels, pose and expression; maps of pictures.

A map is a (2, 3) matrix.
"""

import math
from collections.abc import Sequence

import cv2
import numpy as np
from scipy.spatial import Delaunay

from genlab.benchmark.scoring.constants import POSE
from genlab.benchmark.scoring.faces import Array, Face, Points, eye_line, eye_tilt

Mask = Array  # bool
Field = Array  # float32, a plane or CIELAB
Matrix = Array  # (2, 3) float32

IDENTITY_MAP = np.eye(2, 3, dtype=np.float32)  # the map that moves nothing
FOREHEAD = 0.35  # how far a face goes above its brows, in heights from brow to chin
INNER = np.arange(17, 68)  # brows, nose, eyes and mouth: the jaw is set less surely
CHEEKS = ([1, 2, 3, 4, 48, 31], [15, 14, 13, 12, 54, 35])  # landmarks around each cheek
# Upper and lower lip with the corners of the mouth, and the same of both eyes.
MOUTH = ([61, 62, 63], [67, 66, 65], [48, 54])
LIDS = (([37, 38], [41, 40], [36, 39]), ([43, 44], [47, 46], [42, 45]))
# Which landmark each becomes in a mirror.
MIRRORED = np.r_[
    16:-1:-1, 26:16:-1, 27:31, 35:30:-1, 45:41:-1, 47, 46, 39:35:-1, 41, 40,
    54:47:-1, 59:54:-1, 64:59:-1, 67:64:-1,
]  # fmt: skip


def head_turn(points: Points) -> float:
    """-1 to 1: where the nose's tip lies between both ends of the jaw, 0 in the middle."""
    along = eye_line(points)
    left, right = (abs(float((points[30] - points[end]) @ along)) for end in (1, 15))
    return (left - right) / max(left + right, 1e-9)


def mirror_landmarks(points: Points, width: int) -> Points:
    """The landmarks of a face in the mirrored picture, `width` pixels wide."""
    return (points * [-1, 1] + [width - 1, 0])[MIRRORED]


def transform(points: Points, matrix: Points) -> Points:
    """Points mapped by a matrix."""
    return points @ matrix[:, :2].T + matrix[:, 2]


def fit_similarity(source: Points, target: Points) -> Points:
    """The turn, scale and shift that takes points nearest to others (Umeyama 1991)."""
    centre, aim = source.mean(0), target.mean(0)
    a, b = source - centre, target - aim
    left, sizes, right = np.linalg.svd(b.T @ a)
    flip = np.array([1.0, np.sign(np.linalg.det(left @ right))])
    turn = left @ np.diag(flip) @ right
    matrix = turn * float((sizes * flip).sum() / (a**2).sum())
    return np.column_stack([matrix, aim - matrix @ centre])


def register_images(
    onto: Field, plane: Field, start: Matrix, motion: int, least: float, where: Mask
) -> Matrix:
    """The map from pixels of `onto` to those of `plane` (ECC, Evangelidis & Psarakis 2008).

    motion: of OpenCV; least: change of the correlation at which it stops. `start` where it does
    not converge, as on pictures that have nothing in common.
    """
    stop = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 30, least)
    mask = where.astype(np.uint8)
    try:
        return cv2.findTransformECC(onto, plane, start.copy(), motion, stop, mask, 5)[1]
    except cv2.error:
        return start


def resample(
    picture: Array, matrix: Array, size: Sequence[int], border: int = cv2.BORDER_CONSTANT
) -> Array:
    """A picture of `size` (width, height) whose pixels `matrix` maps to those of `picture`."""
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return cv2.warpAffine(picture, matrix, size, flags=flags, borderMode=border)


def face_mask(points: Points, shape: Sequence[int], forehead: float = FOREHEAD) -> Mask:
    """(height, width): inside the jaw, and `forehead` heights from chin to brow above the brows."""
    brows, chin = points[17:27], points[8]
    up = brows.mean(0) - chin
    mask = hull_mask(np.concatenate([points[:17], brows, brows + forehead * up]), shape)
    mask[[0, -1]] = False
    mask[:, [0, -1]] = False  # Poisson blending needs a border outside the mask
    return mask


def cheek_mask(points: Points, shape: Sequence[int]) -> Mask:
    """(height, width): both cheeks."""
    left, right = (hull_mask(points[cheek], shape) for cheek in CHEEKS)
    return left | right


def hull_mask(points: Points, shape: Sequence[int]) -> Mask:
    """(height, width): the convex hull of points."""
    mask = np.zeros(shape[:2], dtype=np.uint8)
    cv2.fillConvexPoly(mask, cv2.convexHull(np.rint(points).astype(np.int32)), 1)
    return mask > 0


def grow_mask(mask: Mask, pixels: int) -> Mask:
    """`mask` with a rim of `pixels`; without one where it is negative."""
    size = 2 * abs(pixels) + 1
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))
    change = cv2.dilate if pixels > 0 else cv2.erode
    return change(mask.astype(np.uint8), kernel) > 0


def shape_share(result: Points, template: Points, views: Sequence[Points]) -> float:
    """0 where the features have exactly the template's shape, 1 where they have the avatar's.

    The bending against each: of a triangulation of the inner landmarks, the greater logarithm of
    the two stretches of every triangle, weighted by area.
    """
    from_template = bending(template, result)
    from_avatar = min(bending(view, result) for view in views)
    return from_template / max(from_template + from_avatar, 1e-9)


def bending(before: Points, after: Points) -> float:
    """Mean |log stretch| of the triangles between the inner landmarks; 0 for a mere shift."""
    a, b = before[INNER], after[INNER]
    # A similarity is no bending: both are brought to one size.
    a, b = a - a.mean(0), b - b.mean(0)
    a, b = a / max(float(a.std()), 1e-9), b / max(float(b.std()), 1e-9)
    corners = Delaunay(a).simplices
    sides = np.stack([a[corners[:, i]] - a[corners[:, 0]] for i in (1, 2)], axis=-1)
    bent = np.stack([b[corners[:, i]] - b[corners[:, 0]] for i in (1, 2)], axis=-1)
    area = np.abs(np.linalg.det(sides))
    whole = area > 1e-4
    maps = bent[whole] @ np.linalg.inv(sides[whole])
    stretch = np.maximum(np.linalg.svd(maps, compute_uv=False), 0.05)
    return float(np.average(np.abs(np.log(stretch)).max(-1), weights=area[whole]))


def compare_expression(result: Face, template: Face) -> dict[str, float]:
    """Values in [0, 1]: place, scale, roll, turn, mouth, lids; and `score`, their geometric mean.

    Each is a Gaussian of the difference between both faces, 1 where there is none. The face's shape
    is not compared: it is the avatar's. Compared are the head's place, size, roll and turn, and how
    open mouth and eyes are.
    """
    eyes = max(template.eyes, 1e-9)
    now, before = result.landmarks, template.landmarks
    faults = {
        "place": float(np.linalg.norm(now[17:].mean(0) - before[17:].mean(0))) / eyes,
        "scale": math.log(max(result.eyes, 1e-9) / eyes),
        "roll": (eye_tilt(now) - eye_tilt(before) + 180.0) % 360.0 - 180.0,
        "turn": head_turn(now) - head_turn(before),
        "mouth": _opening(now, *MOUTH) - _opening(before, *MOUTH),
        "lids": _lids(now) - _lids(before),
    }
    values = {name: math.exp(-((fault / POSE[name]) ** 2) / 2) for name, fault in faults.items()}
    return {"score": math.prod(values.values()) ** (1 / len(values)), **values}


def _opening(points: Points, upper: list[int], lower: list[int], ends: list[int]) -> float:
    gap = np.linalg.norm(points[upper] - points[lower], axis=1).mean()
    one, other = points[ends]
    return float(gap / max(float(np.linalg.norm(one - other)), 1e-9))


def _lids(points: Points) -> float:
    return sum(_opening(points, *eye) for eye in LIDS) / 2
