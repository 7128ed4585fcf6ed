"""Lay one person's picture over another's."""

from __future__ import annotations

import cv2
import numpy as np

from genlab.benchmark.scoring.faces import Array, Image, Points
from genlab.benchmark.scoring.geometry import Field, face_mask, mirrored, side_turn


def mix(over: Array, under: Array, share: Array) -> Image:
    """`over` where `share` (height, width, 1) in [0, 1] is 1, `under` where it is 0."""
    mixed: Image = np.clip(share * over + (1 - share) * under, 0, 255)
    return np.rint(mixed).astype(np.uint8)


def jaw_width(points: Points) -> float:
    """Width of a face between both ends of the jaw."""
    return float(np.ptp(points[:17, 0]))


def soft_face(points: Points, image: Image, forehead: float) -> Field:
    """(height, width, 1) in [0, 1]: the face with these landmarks, soft at its border."""
    mask = face_mask(points, image.shape, forehead).astype(np.float32)
    return cv2.GaussianBlur(mask, (0, 0), 0.03 * jaw_width(points))[..., None]


def turn_alike(
    image: Image, points: Points, target: Points, margin: float = 0.0
) -> tuple[Image, Points]:
    """A picture and its landmarks, mirrored where they then look more like `target` does.

    margin: by how much nearer in turn the mirrored picture must be.
    """
    there, here = side_turn(target), side_turn(points)
    if abs(there - here) <= abs(there + here) + margin:
        return image, points
    return np.ascontiguousarray(image[:, ::-1]), mirrored(points, image.shape[1])


def lab_to_rgb(lab: Field) -> Image:
    """RGB of a CIELAB picture, coded as OpenCV codes 8-bit pictures."""
    rounded = np.clip(np.rint(lab), 0, 255).astype(np.uint8)
    return cv2.cvtColor(rounded, cv2.COLOR_LAB2RGB)
