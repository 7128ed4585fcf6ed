"""Geometry of faces and pictures: maps between them, masks, shape, pose and expression.

Maps are affine, as (2, 3) matrices. Landmarks are (68, 2) arrays of (x, y), in dlib's order.
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

IDENTITY_MAP = np.eye(2, 3, dtype=np.float32)
FOREHEAD = 0.35  # how far a face reaches above its brows, in heights from chin to brow
INNER = np.arange(17, 68)  # brows, nose, eyes and mouth: landmarks of the jaw are less certain
CHEEKS = ([1, 2, 3, 4, 48, 31], [15, 14, 13, 12, 54, 35])  # landmarks around each cheek
# Upper and lower lip with the corners of the mouth, and the same of both eyes.
MOUTH = ([61, 62, 63], [67, 66, 65], [48, 54])
LIDS = (([37, 38], [41, 40], [36, 39]), ([43, 44], [47, 46], [42, 45]))
# The landmark that each one becomes in a mirror.
MIRRORED = np.r_[
    16:-1:-1, 26:16:-1, 27:31, 35:30:-1, 45:41:-1, 47, 46, 39:35:-1, 41, 40,
    54:47:-1, 59:54:-1, 64:59:-1, 67:64:-1,
]  # fmt: skip


def head_turn(points: Points) -> float:
    """Turn of a head to the side, from -1 to 1, and 0 for a frontal face.

    It is the position of the nose's tip between both ends of the jaw.
    """
    along = eye_line(points)
    left, right = (abs(float((points[30] - points[jaw_end]) @ along)) for jaw_end in (1, 15))
    return (left - right) / max(left + right, 1e-9)


def mirror_landmarks(points: Points, width: int) -> Points:
    """Return the landmarks of a face in the mirrored picture, which is `width` pixels wide."""
    return (points * [-1, 1] + [width - 1, 0])[MIRRORED]


def transform(points: Points, matrix: Points) -> Points:
    """Map points by a (2, 3) matrix."""
    return points @ matrix[:, :2].T + matrix[:, 2]


def fit_similarity(source: Points, target: Points) -> Points:
    """Fit the rotation, scale and shift that map `source` nearest to `target` (Umeyama 1991)."""
    source_mean = source.mean(0)
    target_mean = target.mean(0)
    a = source - source_mean
    b = target - target_mean
    left, sizes, right = np.linalg.svd(b.T @ a)
    flip = np.array([1.0, np.sign(np.linalg.det(left @ right))])
    rotation = left @ np.diag(flip) @ right
    matrix = rotation * float((sizes * flip).sum() / (a**2).sum())
    return np.column_stack([matrix, target_mean - matrix @ source_mean])


def register_images(
    onto: Field, plane: Field, start: Matrix, motion: int, tolerance: float, where: Mask
) -> Matrix:
    """Fit the map from pixels of `onto` to those of `plane` (ECC, Evangelidis & Psarakis 2008).

    motion: OpenCV's motion model; tolerance: change of the correlation at which the search stops.
    Returns `start` where it does not converge, as on pictures that have nothing in common.
    """
    stop = (cv2.TERM_CRITERIA_EPS | cv2.TERM_CRITERIA_COUNT, 30, tolerance)
    mask = where.astype(np.uint8)
    try:
        return cv2.findTransformECC(onto, plane, start.copy(), motion, stop, mask, 5)[1]
    except cv2.error:
        return start


def resample(
    picture: Array, matrix: Array, size: Sequence[int], border: int = cv2.BORDER_CONSTANT
) -> Array:
    """Return a picture of `size` (width, height), whose pixels `matrix` maps into `picture`."""
    flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
    return cv2.warpAffine(picture, matrix, size, flags=flags, borderMode=border)


def face_mask(points: Points, shape: Sequence[int], forehead: float = FOREHEAD) -> Mask:
    """Mask of a face, (height, width): from the jaw up to a part of the forehead.

    forehead: how far it reaches above the brows, in heights from chin to brow.
    """
    brows = points[17:27]
    up = brows.mean(0) - points[8]
    mask = hull_mask(np.concatenate([points[:17], brows, brows + forehead * up]), shape)
    mask[[0, -1]] = False
    mask[:, [0, -1]] = False  # Poisson blending needs a border outside the mask
    return mask


def cheek_mask(points: Points, shape: Sequence[int]) -> Mask:
    """Mask of both cheeks, (height, width)."""
    left, right = (hull_mask(points[cheek], shape) for cheek in CHEEKS)
    return left | right


def hull_mask(points: Points, shape: Sequence[int]) -> Mask:
    """Mask of the convex hull of points, (height, width)."""
    mask = np.zeros(shape[:2], dtype=np.uint8)
    cv2.fillConvexPoly(mask, cv2.convexHull(np.rint(points).astype(np.int32)), 1)
    return mask > 0


def grow_mask(mask: Mask, pixels: int) -> Mask:
    """Dilate a mask by a number of pixels, or erode it where the number is negative."""
    size = 2 * abs(pixels) + 1
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))
    change = cv2.dilate if pixels > 0 else cv2.erode
    return change(mask.astype(np.uint8), kernel) > 0


def shape_share(result: Points, template: Points, views: Sequence[Points]) -> float:
    """How much of the avatar's face shape a result has: 0 the template's shape, 1 the avatar's.

    It compares the bending from the template with that from the nearer of the avatar's `views`.
    """
    from_template = measure_bending(template, result)
    from_avatar = min(measure_bending(view, result) for view in views)
    return from_template / max(from_template + from_avatar, 1e-9)


def measure_bending(before: Points, after: Points) -> float:
    """Mean deformation of the inner landmarks; 0 for a mere shift, rotation or scale.

    The deformation of a triangle of their triangulation is the larger |log stretch| of its two
    principal directions; triangles are weighted by area.
    """
    a = _standardise(before[INNER])
    b = _standardise(after[INNER])
    corners = Delaunay(a).simplices
    sides_before = np.stack([a[corners[:, i]] - a[corners[:, 0]] for i in (1, 2)], axis=-1)
    sides_after = np.stack([b[corners[:, i]] - b[corners[:, 0]] for i in (1, 2)], axis=-1)
    area = np.abs(np.linalg.det(sides_before))
    regular = area > 1e-4
    maps = sides_after[regular] @ np.linalg.inv(sides_before[regular])
    stretch = np.maximum(np.linalg.svd(maps, compute_uv=False), 0.05)
    return float(np.average(np.abs(np.log(stretch)).max(-1), weights=area[regular]))


def _standardise(points: Points) -> Points:
    """Move points to mean 0 and one size: shift and scale are no bending."""
    points = points - points.mean(0)
    return points / max(float(points.std()), 1e-9)


def compare_expression(result: Face, template: Face) -> dict[str, float]:
    """Compare pose and expression of two faces.

    Compared are the head's place, scale, roll and turn, and how open mouth and lids are; the shape
    of the face is not, since it is the avatar's. Each value in [0, 1] is a Gaussian of the
    difference, 1 where there is none; `score` is their geometric mean.
    """
    eyes = max(template.eyes, 1e-9)
    after = result.landmarks
    before = template.landmarks
    differences = {
        "place": float(np.linalg.norm(after[17:].mean(0) - before[17:].mean(0))) / eyes,
        "scale": math.log(max(result.eyes, 1e-9) / eyes),
        "roll": (eye_tilt(after) - eye_tilt(before) + 180.0) % 360.0 - 180.0,
        "turn": head_turn(after) - head_turn(before),
        "mouth": _opening(after, *MOUTH) - _opening(before, *MOUTH),
        "lids": _eye_opening(after) - _eye_opening(before),
    }
    values = {
        name: math.exp(-((difference / POSE[name]) ** 2) / 2)
        for name, difference in differences.items()
    }
    return {"score": math.prod(values.values()) ** (1 / len(values)), **values}


def _opening(points: Points, upper: list[int], lower: list[int], corners: list[int]) -> float:
    """Mean gap between an upper and a lower lip or lid, in distances between the corners."""
    gap = np.linalg.norm(points[upper] - points[lower], axis=1).mean()
    first, second = points[corners]
    return float(gap / max(float(np.linalg.norm(first - second)), 1e-9))


def _eye_opening(points: Points) -> float:
    return sum(_opening(points, *eye) for eye in LIDS) / 2
