"""The tone that a tool gave to a whole picture, estimated outside of the heads and taken back.

Image models return other contrast, exposure, white balance and saturation. None of it changes a
person, so a picture is brought back to its template's tone before anything is compared: an affine
map of the three channels, then a monotone curve per channel, fitted by trimmed least squares to
small pictures, in which a shift by some pixels and noise hardly count.
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
LEFT = (3.0, 0.05)  # most that a tone may leave: 8-bit units, and share of the template's spread
FLAT = 12.0  # spread of colours, 8-bit units, up to which a gain cannot be estimated
CLIPPED = 4.0  # 8-bit units from black and white within which a channel may be cut
PRIOR = 2.0  # standard deviation, 8-bit units, from which colours decide instead of the prior
STEPS = 8  # of trimming
ToneLoss = Callable[[Image], Image]
FEWEST = 200  # pixels from which a tone is estimated


@dataclass(frozen=True, eq=False)
class Tone:
    """A map of colours. matrix: (3, 4) affine; curves: of each channel, after it."""

    matrix: Array
    curves: list[Callable[[Array], Array]]

    def apply(self, image: Image) -> Image:
        """`image`, uint8 RGB, in this tone."""
        mapped = cv2.transform(image, self.matrix)
        table = np.stack([curve(np.arange(256)) for curve in self.curves], axis=-1)
        table = np.clip(np.rint(table), 0, 255).astype(np.uint8)
        return cv2.LUT(mapped, table[None])

    @classmethod
    def between(cls, source: Image, target: Image) -> Tone:
        """The tone that takes a picture's colours nearest to those of another."""
        source, target = (x.reshape(-1, 3).astype(np.float64) for x in (source, target))
        matrix = _affine(source, target)
        mapped = source @ matrix[:, :3].T + matrix[:, 3]
        return cls(matrix, [fit_tone_curve(mapped[:, c], target[:, c]) for c in range(3)])


def restore_tone(template: Image, image: Image, outside: Mask) -> tuple[Image, ToneLoss]:
    """`image` in the tone of `template`, and a function that loses what this tone lost.

    A tone cuts off shadows and lights for good; the function does so to any other picture. outside:
    (height, width), where the picture is to be the template's. Where the tone is the template's, or
    no tone explains the difference, the picture comes back as it is and nothing is lost.
    """
    scale = min(1.0, LONGEST / max(template.shape[:2]))
    small, other = rescale(template, scale), rescale(image, scale)
    known = resize(outside.astype(np.uint8) * 255, small.shape[1::-1]) == 255
    target, source = small[known][None], other[known][None]
    before = _difference(source, target)
    if source.shape[1] < FEWEST or before <= SAME:
        return image, lambda picture: picture
    back = Tone.between(source, target)
    left = _difference(back.apply(source), target)
    if left > min(before / 2, max(LEFT[0], LEFT[1] * _spread(target[0]))):
        return image, lambda picture: picture
    given = Tone.between(target, source)
    return back.apply(image), lambda picture: back.apply(given.apply(picture))


def _difference(source: Image, target: Image) -> float:
    return float(np.median(cv2.absdiff(source, target).max(-1))) if source.size else 0.0


def _affine(source: Array, target: Array) -> Array:
    """(3, 4): least squares of the pixels that agree best; a grey picture gets one gain."""
    whole = [((x > CLIPPED) & (x < 255 - CLIPPED)).all(1) for x in (source, target)]
    used = whole[0] & whole[1]
    if used.sum() < FEWEST:
        used = np.ones(len(source), dtype=bool)
    source, target = source[used], target[used]
    spread = _spread(source)
    gain = _spread(target) / spread if spread > FLAT else 1.0
    kept = np.ones(len(source), dtype=bool)
    for _ in range(STEPS):
        a, b = source[kept], target[kept]
        middle, aim = a.mean(0), b.mean(0)
        a, b = a - middle, b - aim
        rigid = PRIOR**2 * len(a) * np.eye(3)
        turn = np.linalg.solve(a.T @ a + rigid, a.T @ b + gain * rigid).T
        matrix = np.column_stack([turn, aim - turn @ middle])
        off = np.abs(source @ turn.T + matrix[:, 3] - target).max(1)
        kept = off <= max(2 * float(np.median(off)), 2.0)
    return matrix


def _spread(colours: Array) -> float:
    high, low = np.quantile(colours, (0.9, 0.1), axis=0)
    return float(np.linalg.norm(high - low))
