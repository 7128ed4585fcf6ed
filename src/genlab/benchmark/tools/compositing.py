"""Lay one person's picture over another's."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from genlab.benchmark.scoring.faces import Image, Points
from genlab.benchmark.scoring.geometry import face_mask, mirrored, side_turn


def mix(over: npt.NDArray[Any], under: npt.NDArray[Any], share: npt.NDArray[Any]) -> Image:
    """`over` where `share` (height, width, 1) in [0, 1] is 1, `under` where it is 0."""
    mixed = share * over + (1 - share) * under
    return np.asarray(np.rint(np.clip(mixed, 0, 255)), dtype=np.uint8)


def jaw_width(points: Points) -> float:
    """Width of a face between both ends of the jaw."""
    return float(np.ptp(points[:17, 0]))


def soft_face(points: Points, image: Image, forehead: float) -> npt.NDArray[Any]:
    """(height, width, 1) in [0, 1]: the face with these landmarks, soft at its border."""
    mask = face_mask(points, image.shape, forehead).astype(np.float32)
    return np.asarray(cv2.GaussianBlur(mask, (0, 0), 0.03 * jaw_width(points)))[..., None]


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


def lab_to_rgb(lab: npt.NDArray[Any]) -> Image:
    """RGB of a CIELAB picture, coded as OpenCV codes 8-bit pictures."""
    rounded = np.clip(np.rint(lab), 0, 255).astype(np.uint8)
    return np.asarray(cv2.cvtColor(rounded, cv2.COLOR_LAB2RGB), dtype=np.uint8)
