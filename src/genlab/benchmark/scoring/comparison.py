"""Differences between two pictures: of their edges, their colour and their structure.

Gradients at three scales locate hair, outline and features; the blurred colour says what colour
they have. Pictures are CIELAB, (height, width, 3) float32, and `align` brings one onto the other
before they are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cv2
import numpy as np

from genlab.benchmark.scoring.faces import Array
from genlab.benchmark.scoring.geometry import (
    IDENTITY_MAP,
    Field,
    Mask,
    grow_mask,
    register_images,
    resample,
    transform,
)

SCALES = (1.5, 3.0, 5.0)  # sigmas of the gradients, pixels of the frame
COLOUR_SCALE = 6.0  # sigma of the blurred colour, pixels of the frame
COLOUR_RANGE = 40.0  # difference of blurred colour that counts as 1, 8-bit CIELAB units
GRADIENT = 0.7  # weight of the gradients; the rest is the colour's
MAX_SHIFT = 6.0  # pixels of the frame up to which a shifted picture is aligned
MAX_OFFSET = 12.0  # by which a picture's median colour is adjusted, 8-bit units
EDGE_REACH = 2  # pixels of the frame by which an unchanged edge may move
MAX_GAIN = 5.0  # by which gradients are scaled before they are compared
KNOTS = 12  # of a tone curve
WINDOW = 3.0  # sigma of the windows in which structures are compared
SAME = 0.6  # correlation from which two structures count as the same
FLAT = 2.5  # standard deviation of light in a window, 8-bit units, below which it is flat
FAINT = 0.6  # gradient, 8-bit units per pixel, that counts as none


def align(picture: Field, onto: Field, where: Mask, motion: int = cv2.MOTION_TRANSLATION) -> Field:
    """Align a picture with `onto` over a mask, in position and in colour.

    motion: OpenCV's motion model. A shift beyond MAX_SHIFT is not followed.
    """
    light_onto, light = (np.ascontiguousarray(x[..., 0]) for x in (onto, picture))
    matrix = register_images(light_onto, light, IDENTITY_MAP, motion, 1e-3, where)
    centre = np.argwhere(where)[:, ::-1].mean(0) if where.any() else np.zeros(2)
    if np.linalg.norm(transform(centre, matrix) - centre) > MAX_SHIFT:
        matrix = IDENTITY_MAP
    moved = resample(picture, matrix, onto.shape[1::-1], cv2.BORDER_REPLICATE)
    offset = np.median((onto - moved)[where], axis=0) if where.any() else np.zeros(3)
    return (moved + np.clip(offset, -MAX_OFFSET, MAX_OFFSET)).astype(np.float32)


def picture_distance(first: Field, second: Field, where: Mask) -> float:
    """Distance of two pictures over a mask: 0 for equal ones, about 0.8 for unrelated ones."""
    if not where.any():
        return 0.0
    gradients, colour = _differences(first, second)
    shares = []
    for difference, size in gradients:
        total = max(float(size[where].sum()), 1e-6)
        shares.append(float(difference[where].sum() / total))
    return GRADIENT * float(np.mean(shares)) + (1 - GRADIENT) * float(colour[where].mean())


def structure_distance(source: Field, result: Field, where: Mask) -> float:
    """Distance of two pictures' edges over a mask: 0 for equal ones, about 0.5 for unrelated ones.

    The source first gets the result's tone, and at each scale the mean sizes of the gradients are
    matched; the scale with the smallest difference counts. So a relit, blurred, sharpened or noisy
    copy still has its edges at some scale, and another subject has them at none.
    """
    if not where.any():
        return 0.0
    light, light_result = (np.ascontiguousarray(x[..., 0]) for x in (source, result))
    light = fit_tone_curve(light[where], light_result[where])(light).astype(np.float32)
    shares = []
    for sigma in SCALES:
        a, b = (_gradient(x, sigma)[where] for x in (light, light_result))
        mean_a, mean_b = (
            max(float(np.linalg.norm(x, axis=-1).mean()), FAINT / sigma) for x in (a, b)
        )
        gain = float(np.clip(mean_b / mean_a, 1 / MAX_GAIN, MAX_GAIN))
        difference = float(np.linalg.norm(gain * a - b, axis=-1).mean())
        shares.append(max(difference - FAINT / sigma, 0) / (gain * mean_a + mean_b))
    return min(shares)


def fit_tone_curve(source: Array, target: Array) -> Callable[[Array], Array]:
    """Fit the monotone curve that maps `source` to `target`, values of the same pixels.

    It interpolates between the medians of KNOTS groups of equal size.
    """
    groups = np.array_split(np.argsort(source, kind="stable"), KNOTS)
    x, first = np.unique([np.median(source[group]) for group in groups], return_index=True)
    y = np.array([np.median(target[group]) for group in groups])
    y = np.maximum.accumulate(y)[first]
    return lambda values: values + np.interp(values, x, y - x)


def difference_map(first: Field, second: Field) -> Field:
    """Where two pictures differ, (height, width) in [0, 1]."""
    gradients, colour = _differences(first, second)
    shares = []
    for difference, size in gradients:
        blurred = cv2.blur(np.stack([difference, size], -1), (9, 9))
        shares.append(blurred[..., 0] / np.maximum(blurred[..., 1], 2 * FAINT))
    combined: Field = GRADIENT * np.mean(shares, axis=0) + (1 - GRADIENT) * colour
    return np.clip(combined, 0, 1)


def _differences(first: Field, second: Field) -> tuple[list[tuple[Field, Field]], Field]:
    """Differences of gradients and of blurred colour.

    Returns, per scale, the norm of the difference of the gradients and the sum of their norms; and
    the difference of blurred colour, in [0, 1].
    """
    gradients = []
    for sigma in SCALES:
        a, b = (_gradient(x[..., 0], sigma) for x in (first, second))
        difference = np.maximum(_norm(a - b) - FAINT / sigma, 0)
        gradients.append((difference, _norm(a) + _norm(b) + FAINT / sigma))
    blurred = cv2.GaussianBlur(first - second, (0, 0), COLOUR_SCALE)
    colour = np.linalg.norm(blurred, axis=-1)
    return gradients, np.minimum(colour / COLOUR_RANGE, 1)


def _edge_strength(picture: Field) -> Field:
    return _norm(_gradient(picture[..., 0], 1.2))


def _norm(gradient: Field) -> Field:
    return cv2.magnitude(gradient[..., 0], gradient[..., 1])


def _gradient(light: Field, sigma: float) -> Field:
    smooth = cv2.GaussianBlur(np.ascontiguousarray(light), (0, 0), sigma)
    across = cv2.Sobel(smooth, cv2.CV_32F, 1, 0, scale=1 / 8)
    down = cv2.Sobel(smooth, cv2.CV_32F, 0, 1, scale=1 / 8)
    return np.stack([across, down], axis=-1)


def likeness(source: Field, result: Field, where: Mask) -> float:
    """Median correlation of two pictures' light in small windows over a mask, in [-1, 1].

    It stays near 1 where the tone changes smoothly; another photograph has about 0.2.
    """
    covariance, deviations = _window_moments(source, result)
    structured = where & (deviations > 1.0)  # flat windows have no correlation
    if not structured.any():
        return 0.0
    return float(np.median((covariance / deviations)[structured]))


def _window_moments(first: Field, second: Field) -> tuple[Field, Field]:
    """Covariance of the light in windows, and the product of its standard deviations."""
    a, b = (np.ascontiguousarray(x[..., 0], dtype=np.float32) for x in (first, second))

    def mean(values: Field) -> Field:
        return np.asarray(cv2.GaussianBlur(values, (0, 0), WINDOW))

    variances = [np.maximum(mean(x * x) - mean(x) ** 2, 1e-3) for x in (a, b)]
    return mean(a * b) - mean(a) * mean(b), np.sqrt(variances[0] * variances[1])


def find_replaced(face: Mask, result: Field, before: Field) -> Mask:
    """Find the region around a face whose structure was replaced, (height, width).

    A region that was relit, recoloured or sharpened correlates with what was there before; another
    head, or another photograph's background, does not. Flat regions count as unchanged.
    """
    covariance, deviations = _window_moments(result, before)
    changed = (covariance < SAME * deviations) & (deviations > FLAT**2)
    return _keep_connected(changed | face, face, 6)


def find_changed(face: Mask, result: Field, before: Field) -> Mask:
    """Find the region around a face in which a picture changed, (height, width).

    A pixel within the range of its former neighbours counts as unchanged, which tolerates blur and
    a small shift.
    """
    changed = cv2.GaussianBlur(range_excess(result, before, EDGE_REACH), (0, 0), 1.5) > 8
    return _keep_connected(changed | face, face, 8)


def _keep_connected(region: Mask, face: Mask, gap: int) -> Mask:
    """Close gaps, remove specks, and keep what is connected with a face."""
    closed = grow_mask(grow_mask(region, gap), -gap)
    opened = grow_mask(grow_mask(closed, -4), 4)
    _, labels = cv2.connectedComponents(opened.astype(np.uint8))
    return opened & np.isin(labels, np.unique(labels[face]))


def measure_border(
    result: Field, changed: Mask, photographs: Sequence[Field], clipping: tuple[float, float]
) -> tuple[float, Field]:
    """Measure new edges along the border of the changed region.

    photographs: pictures whose edges are no fault; clipping: the lowest and the highest light
    beyond which the result's tone has clipped all edges. Returns the fraction of the border that
    has new edges, and their strength, (height, width).
    """
    light = result[..., 0]
    darkest, lightest = clipping
    ring = grow_mask(changed, 3) & ~grow_mask(changed, -3) & (light > darkest) & (light < lightest)
    edges = _edge_strength(result)
    expected = np.max([cv2.dilate(_edge_strength(x), np.ones((9, 9))) for x in photographs], axis=0)
    new_edges = np.maximum(edges - 1.15 * expected - 2.0, 0) * ring
    widened = cv2.dilate((new_edges > 0.5).astype(np.uint8), np.ones((5, 5), dtype=np.uint8)) > 0
    return float((widened & ring).sum() / max(int(ring.sum()), 1)), new_edges


def range_excess(a: Field, b: Field, reach: int) -> Field:
    """How far `a` lies outside the range of `b` within `reach` pixels, (height, width)."""
    window = np.ones((2 * reach + 1, 2 * reach + 1), dtype=np.uint8)
    above = np.maximum(a - cv2.dilate(b, window), 0)
    below = np.maximum(cv2.erode(b, window) - a, 0)
    excess: Field = np.linalg.norm(above + below, axis=-1)
    return excess
