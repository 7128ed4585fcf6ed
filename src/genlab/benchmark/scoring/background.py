"""Preservation of everything but the swapped heads; bodies and clothes are background.

A tool that repaints the whole picture may shift it by some pixels. So the picture is first
registered on the template (phase correlation, then ECC), and a pixel counts as preserved where its
value lies within the range of its neighbours in the other picture.
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
MAX_SHIFT = 0.08  # up to which a shifted picture is registered, as a fraction of its longer side


@dataclass(frozen=True)
class BackgroundScore:
    """How far the background of a template is preserved.

    everywhere: mean over all pixels outside the heads, in [0, 1]; around: mean within a face's
    width of the heads, where a careless paste spills over; shift: pixels by which the picture was
    moved; lost: (height, width) in [0, 1], where the background is not preserved, at the size of
    the comparison; matrix: the registration.
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
    """Measure how far the background of `template`, outside of `heads`, is preserved in `image`.

    template, image: uint8 RGB of one size; matrix: the registration, computed where None.
    """
    scale = min(1.0, LONGEST / max(template.shape[:2]))
    template = rescale(template, scale)
    image = rescale(image, scale)
    outside, close = background_zones(template.shape, heads, scale)
    if not outside.any():
        nothing_lost = np.zeros(template.shape[:2], dtype=np.float32)
        return BackgroundScore(1.0, 1.0, 0.0, nothing_lost, IDENTITY_MAP)
    if matrix is None:
        matrix = register_background(template, image, outside)
    size = template.shape[1::-1]
    ones = np.ones(template.shape[:2], dtype=np.uint8)
    covered = cv2.warpAffine(ones, matrix, size, flags=cv2.WARP_INVERSE_MAP) > 0
    outside &= covered
    close &= covered
    preserved = _measure_preserved(template, resample(image, matrix, size))
    lost = ((1 - preserved) * outside).astype(np.float32)
    everywhere = float(preserved[outside].mean()) if outside.any() else 0.0
    around = float(preserved[close].mean()) if close.any() else everywhere
    shift = float(np.hypot(matrix[0, 2], matrix[1, 2])) / scale
    return BackgroundScore(everywhere, around, shift, lost, matrix)


def register_background(template: Image, image: Image, outside: Mask) -> Matrix:
    """Fit the affine map from pixels of `template` to those of `image`.

    Returns the identity where the pictures agree already, or where no small map improves on it.
    """
    a, b = (cv2.cvtColor(x, cv2.COLOR_RGB2GRAY).astype(np.float32) for x in (template, image))
    smallest_error = float(np.abs(a - b)[outside].mean())
    if smallest_error < SAME:
        return IDENTITY_MAP
    window = cv2.createHanningWindow(a.shape[::-1], cv2.CV_32F)
    (right, down), _ = cv2.phaseCorrelate(a, b, window)
    max_shift = MAX_SHIFT * max(a.shape)
    start = IDENTITY_MAP.copy()
    if np.hypot(right, down) <= max_shift:
        start[:, 2] = right, down
    best = IDENTITY_MAP
    for matrix in (start, register_images(a, b, start, cv2.MOTION_AFFINE, 1e-4, outside)):
        change = np.abs(matrix - IDENTITY_MAP)
        if change[:, :2].max() > 0.1 or change[:, 2].max() > max_shift:
            continue
        moved = resample(b, matrix, a.shape[::-1], cv2.BORDER_REPLICATE)
        error = float(np.abs(a - moved)[outside].mean())
        if error < smallest_error:
            best = matrix
            smallest_error = error
    return best


def background_zones(shape: tuple[int, ...], heads: list[Face], scale: float) -> tuple[Mask, Mask]:
    """Masks of the background: outside of all heads, and the part within a face's width of one."""
    around = np.zeros(shape[:2], dtype=np.uint8)
    inside = np.zeros(shape[:2], dtype=np.uint8)
    for face in heads:
        points = face.landmarks * scale
        width = float(np.ptp(points[:17, 0]))
        up = points[27] - points[8]
        centre = points[8] + 0.85 * up  # hair reaches about as far above the eyes as the chin below
        angle = float(np.degrees(np.arctan2(up[0], -up[1])))
        height = float(np.linalg.norm(up))
        for mask, margin in ((inside, 0.0), (around, 0.5)):
            axes = (round((0.75 + margin) * width), round(1.15 * height + margin * width))
            cv2.ellipse(mask, (round(centre[0]), round(centre[1])), axes, angle, 0, 360, 1, -1)
    outside = inside == 0
    return outside, outside & (around > 0)


def _measure_preserved(template: Image, image: Image) -> Field:
    """How far each pixel is preserved, (height, width) in [0, 1].

    A pixel within the range of its neighbours in the other picture counts as preserved, since it
    only moved a little; beyond that range the distance in CIELAB counts.
    """
    a, b = (rgb_to_lab(cv2.GaussianBlur(x, (0, 0), 0.8)) for x in (template, image))
    difference = np.maximum(range_excess(a, b, 1), range_excess(b, a, 1))
    worst, best = RAMPS["background"]
    return np.clip((difference - worst) / (best - worst), 0, 1)
