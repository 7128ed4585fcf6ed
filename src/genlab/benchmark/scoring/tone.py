"""Estimate the tone that a tool gave to a whole picture, and undo it.

Image models change contrast, exposure, white balance and saturation. None of this changes a person,
so a picture is brought back to its template's tone before anything is compared. A tone is an affine
map of the three channels, then a monotone curve per channel. It is fitted outside of the heads, by
trimmed least squares, to small pictures, in which noise and a shift by some pixels hardly count.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import cv2
import numpy as np

from genlab.benchmark.scoring.comparison import fit_tone_curve
from genlab.benchmark.scoring.faces import Array, Image, rescale, resize
from genlab.benchmark.scoring.geometry import Mask

LONGEST = 128  # side of the pictures that are compared
SAME = 1.0  # median difference, 8-bit units, up to which the tone is the template's
# Maximum median difference that a fitted tone may leave: 8-bit units, or a fraction of the
# template's spread of colours where that is more.
MAX_RESIDUAL = 3.0
MAX_RELATIVE_RESIDUAL = 0.05
FLAT = 12.0  # spread of colours, 8-bit units, up to which a gain cannot be estimated
CLIPPED = 4.0  # distance from black and white, 8-bit units, within which a channel may be clipped
PRIOR = 2.0  # standard deviation of colours, 8-bit units, from which they outweigh the prior
TRIMMING_STEPS = 8
MIN_PIXELS = 200  # to estimate a tone
ToneLoss = Callable[[Image], Image]
"""Applies to another picture what a tone lost, such as clipped shadows."""


@dataclass(frozen=True, eq=False)
class Tone:
    """A map of colours. matrix: (3, 4) affine map; curves: applied to each channel after it."""

    matrix: Array
    curves: list[Callable[[Array], Array]]

    def apply(self, image: Image) -> Image:
        """Return `image`, uint8 RGB, in this tone."""
        mapped = cv2.transform(image, self.matrix)
        table = np.stack([curve(np.arange(256)) for curve in self.curves], axis=-1)
        table = np.clip(np.rint(table), 0, 255).astype(np.uint8)
        return cv2.LUT(mapped, table[None])

    @classmethod
    def between(cls, source: Image, target: Image) -> Tone:
        """Fit the tone that maps the colours of `source` to those of `target`."""
        source, target = (x.reshape(-1, 3).astype(np.float64) for x in (source, target))
        matrix = _affine(source, target)
        mapped = source @ matrix[:, :3].T + matrix[:, 3]
        return cls(matrix, [fit_tone_curve(mapped[:, c], target[:, c]) for c in range(3)])


def restore_tone(template: Image, image: Image, outside: Mask) -> tuple[Image, ToneLoss]:
    """Bring `image` to the tone of `template`.

    outside: (height, width) mask of the background, where both should show the same. Also returns a
    function that clips any other picture as this image's tone did, since clipped shadows and
    highlights cannot be restored. Where the tone is the template's already, or no tone explains the
    difference, the picture comes back unchanged and the function changes nothing.
    """
    scale = min(1.0, LONGEST / max(template.shape[:2]))
    small_template = rescale(template, scale)
    small_image = rescale(image, scale)
    mask = resize(outside.astype(np.uint8) * 255, small_template.shape[1::-1]) == 255
    target = small_template[mask][None]
    source = small_image[mask][None]
    difference = _difference(source, target)
    if source.shape[1] < MIN_PIXELS or difference <= SAME:
        return image, lambda picture: picture
    to_template = Tone.between(source, target)
    residual = _difference(to_template.apply(source), target)
    max_residual = max(MAX_RESIDUAL, MAX_RELATIVE_RESIDUAL * _spread(target[0]))
    if residual > min(difference / 2, max_residual):
        return image, lambda picture: picture
    to_image = Tone.between(target, source)
    return to_template.apply(image), lambda picture: to_template.apply(to_image.apply(picture))


def _difference(source: Image, target: Image) -> float:
    return float(np.median(cv2.absdiff(source, target).max(-1))) if source.size else 0.0


def _affine(source: Array, target: Array) -> Array:
    """Fit a (3, 4) affine map by trimmed least squares.

    The prior is one gain for all channels, to which the fit falls back on a grey picture.
    """
    unclipped_source, unclipped_target = (
        ((x > CLIPPED) & (x < 255 - CLIPPED)).all(1) for x in (source, target)
    )
    unclipped = unclipped_source & unclipped_target
    if unclipped.sum() >= MIN_PIXELS:
        source = source[unclipped]
        target = target[unclipped]
    spread = _spread(source)
    gain = _spread(target) / spread if spread > FLAT else 1.0
    inliers = np.ones(len(source), dtype=bool)
    for _ in range(TRIMMING_STEPS):
        a = source[inliers]
        b = target[inliers]
        mean_a = a.mean(0)
        mean_b = b.mean(0)
        a = a - mean_a
        b = b - mean_b
        prior = PRIOR**2 * len(a) * np.eye(3)
        linear = np.linalg.solve(a.T @ a + prior, a.T @ b + gain * prior).T
        matrix = np.column_stack([linear, mean_b - linear @ mean_a])
        residuals = np.abs(source @ linear.T + matrix[:, 3] - target).max(1)
        inliers = residuals <= max(2 * float(np.median(residuals)), 2.0)
    return matrix


def _spread(colours: Array) -> float:
    """Distance between the 10 % and the 90 % quantiles of the channels."""
    high, low = np.quantile(colours, (0.9, 0.1), axis=0)
    return float(np.linalg.norm(high - low))
