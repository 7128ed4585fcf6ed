"""Preservation of everything but the swapped heads; bodies and clothes are background.

A tool that paints the picture again may shift it by some pixels: the picture is registered on the
template first (phase correlation, then ECC), and a pixel counts as kept where its value lies within
those around it.
"""

from dataclasses import dataclass

import cv2
import numpy as np

from genlab.benchmark.scoring.comparison import range_excess
from genlab.benchmark.scoring.constants import RAMPS
from genlab.benchmark.scoring.faces import Face, Image, rescale
from genlab.benchmark.scoring.geometry import (
    IDENTITY_MAP,
    Field,
    Mask,
    Matrix,
    register_images,
    resample,
)
from genlab.benchmark.scoring.head import rgb_to_lab

LONGEST = 512  # side of the pictures that are compared
SAME = 1.5  # mean difference in 8-bit units below which nothing needs to be registered
FURTHEST = 0.08  # most that a picture may be shifted and keep its due, of its longer side


@dataclass(frozen=True)
class BackgroundScore:
    """What of a template was kept outside the heads.

    everywhere: mean over all pixels outside the heads, in [0, 1]; around: that within a face's
    width of them, where a careless paste spills over; shift: pixels by which the picture was moved;
    lost: (height, width) in [0, 1], where the background is not kept, at the size of the
    comparison; matrix: the registration.
    """

    everywhere: float
    around: float
    shift: float
    lost: Field
    matrix: Matrix

    @property
    def score(self) -> float:
        """Mean of both values."""
        return (self.everywhere + self.around) / 2


def compare_background(
    template: Image, image: Image, heads: list[Face], matrix: Matrix | None = None
) -> BackgroundScore:
    """What of `template` was kept outside of `heads`.

    template, image: uint8 RGB of one size; matrix: the registration where it is known.
    """
    scale = min(1.0, LONGEST / max(template.shape[:2]))
    small, other = rescale(template, scale), rescale(image, scale)
    outside, close = background_zones(small.shape, heads, scale)
    if not outside.any():
        return BackgroundScore(
            1.0, 1.0, 0.0, np.zeros(small.shape[:2], dtype=np.float32), IDENTITY_MAP
        )
    if matrix is None:
        matrix = register_background(small, other, outside)
    size = small.shape[1::-1]
    ones = np.ones(small.shape[:2], dtype=np.uint8)
    seen = cv2.warpAffine(ones, matrix, size, flags=cv2.WARP_INVERSE_MAP) > 0
    kept = _kept(small, resample(other, matrix, size))
    lost = ((1 - kept) * (outside & seen)).astype(np.float32)
    everywhere = float(kept[outside & seen].mean()) if (outside & seen).any() else 0.0
    around = float(kept[close & seen].mean()) if (close & seen).any() else everywhere
    shift = float(np.hypot(matrix[0, 2], matrix[1, 2])) / scale
    return BackgroundScore(everywhere, around, shift, lost, matrix)


def register_background(template: Image, image: Image, outside: Mask) -> Matrix:
    """The affine map from pixels of `template` to those of `image`; the identity where they agree
    already, or where none is found that is small."""
    a, b = (cv2.cvtColor(x, cv2.COLOR_RGB2GRAY).astype(np.float32) for x in (template, image))
    smallest = float(np.abs(a - b)[outside].mean())
    if smallest < SAME:
        return IDENTITY_MAP
    window = cv2.createHanningWindow(a.shape[::-1], cv2.CV_32F)
    (right, down), _ = cv2.phaseCorrelate(a, b, window)
    furthest = FURTHEST * max(a.shape)
    start = IDENTITY_MAP.copy()
    if np.hypot(right, down) <= furthest:
        start[:, 2] = right, down
    best = IDENTITY_MAP
    for matrix in (start, register_images(a, b, start, cv2.MOTION_AFFINE, 1e-4, outside)):
        off = np.abs(matrix - IDENTITY_MAP)
        if off[:, :2].max() > 0.1 or off[:, 2].max() > furthest:
            continue
        laid = resample(b, matrix, a.shape[::-1], cv2.BORDER_REPLICATE)
        error = float(np.abs(a - laid)[outside].mean())
        if error < smallest:
            best, smallest = matrix, error
    return best


def background_zones(shape: tuple[int, ...], heads: list[Face], scale: float) -> tuple[Mask, Mask]:
    """Outside of all heads, and the part of it within a face's width of one."""
    around = np.zeros(shape[:2], dtype=np.uint8)
    inside = np.zeros(shape[:2], dtype=np.uint8)
    for face in heads:
        points = face.landmarks * scale
        wide = float(np.ptp(points[:17, 0]))
        up = points[27] - points[8]
        middle = points[8] + 0.85 * up  # hair reaches about as far above the eyes as the chin below
        turn = float(np.degrees(np.arctan2(up[0], -up[1])))
        tall = float(np.linalg.norm(up))
        for mask, grown in ((inside, 0.0), (around, 0.5)):
            axes = (round((0.75 + grown) * wide), round(1.15 * tall + grown * wide))
            cv2.ellipse(mask, (round(middle[0]), round(middle[1])), axes, turn, 0, 360, 1, -1)
    outside = inside == 0
    return outside, outside & (around > 0)


def _kept(template: Image, image: Image) -> Field:
    """(height, width) in [0, 1]: how far each pixel of one picture is found in the other.

    A pixel that lies between the minimum and the maximum of its neighbours in the other picture has
    only moved a little; the rest is the distance in CIELAB.
    """
    a, b = (rgb_to_lab(cv2.GaussianBlur(x, (0, 0), 0.8)) for x in (template, image))
    off = np.maximum(range_excess(a, b, 1), range_excess(b, a, 1))
    worst, best = RAMPS["background"]
    return np.clip((off - worst) / (best - worst), 0, 1)
