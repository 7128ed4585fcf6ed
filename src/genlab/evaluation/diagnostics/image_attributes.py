"""Measured attributes of images, and hypotheses about them: what a failure can be blamed on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import ndimage, stats

from genlab.core.stats import Floats
from genlab.evaluation.diagnostics.error_analysis import Column, Flags, Hypothesis

Images = npt.NDArray[np.uint8]

CHUNK = 1024
LEVELS = 255
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Weights of red, green and blue in the brightness that people see (ITU-R BT.601)."""
INK = 0.1
"""A pixel further than this from the ground, in a channel and units of the range, is ink."""
EDGE = 0.1
"""A pixel with a steeper gradient, in units of the range per pixel, lies on an edge."""
FINE = 0.25
"""Cycles per pixel above which detail is fine: half of what pixels can hold along an axis."""
MIN_PART = 0.005
"""Share of an image's pixels below which a component of its ink is a speck and no part."""

MEANING: dict[str, str] = {
    "brightness": "mean level",
    "contrast": "standard deviation of the levels over the pixels",
    "ink": f"share of the pixels that differ from the ground by more than {INK} in a channel; the "
    "ground is the most common level of the border, per channel",
    "fill": "ink's share of its bounding box; 0 without ink",
    "parts": f"components of the ink, also diagonal, of at least {MIN_PART:.1%} of the pixels",
    "texture": "mean gradient inside the ink, away from its outline, in levels per pixel",
    "fine_detail": f"share of the variance at more than {FINE} cycles per pixel",
    "edges": f"share of the pixels with a gradient above {EDGE} levels per pixel",
    "symmetry": "correlation with the image mirrored left to right; 1 for a uniform image",
    "train_distance": "distance to the nearest training image, in the classifier's features",
    "atypicality": "root mean squared distance to the mean test image of the class",
}
"""What each attribute is. Levels are grey or luma (BT.601) in [0, 1].

Ink and what rests on it is meant for things on a plain ground; of photographs it says how much of
them differs from the border.
"""

IN_PLANE = ndimage.generate_binary_structure(3, 1)
IN_PLANE[[0, 2]] = False  # four neighbours in an image, none in the images before and after
DIAGONAL = np.zeros((3, 3, 3), dtype=np.bool_)
DIAGONAL[1] = True

# Name, attribute, whether the upper or the lower quarter, and how such images differ.
_QUARTERS = (
    ("bright", "brightness", True, "brighter"),
    ("dark", "brightness", False, "darker"),
    ("high_contrast", "contrast", True, "of higher contrast"),
    ("low_contrast", "contrast", False, "of lower contrast"),
    ("much_ink", "ink", True, "with more ink"),
    ("little_ink", "ink", False, "with less ink"),
    ("textured", "texture", True, "more textured inside"),
    ("plain", "texture", False, "plainer inside"),
    ("fine_detail", "fine_detail", True, "with more fine detail"),
    ("blurred", "fine_detail", False, "with less fine detail"),
    ("many_edges", "edges", True, "with more edges"),
    ("asymmetric", "symmetry", False, "less symmetric"),
    ("sparse", "fill", False, "filling less of their box"),
    ("far_from_training", "train_distance", True, "further from the training images"),
    ("atypical", "atypicality", True, "further from their class's mean"),
)


def image_hypotheses(
    measured: pd.DataFrame,
    labels: Column,
    names: Sequence[str],
    *,
    subject: str = "images",
    verb: str = "are hard",
) -> list[Hypothesis]:
    """What may make an image fail: an attribute in the outer quarter of its class, or its class.

    measured: `measure_attributes`; only what they hold is claimed. labels: (n,), indices into
    `names`. subject and verb begin and end the sentences. Quarters are those of an image's own
    class, so that the comparison within classes has every class on both sides.
    """
    found = []
    for name, attribute, upper, words in _QUARTERS:
        if attribute in measured:
            values, share = measured[attribute], 0.75 if upper else 0.25
            limits = values.groupby(labels).transform(lambda own, q=share: np.quantile(own, q))
            flags = np.asarray(values > limits if upper else values < limits)
            sentence = f"{subject} {words} than three quarters of their class {verb}"
            found.append(Hypothesis(name, sentence, flags))
    several = np.asarray(measured["parts"] >= 2)
    found.append(Hypothesis("several_parts", f"{subject} of two or more parts {verb}", several))
    for index, name in enumerate(names):
        sentence = f"{subject} of the class {name} {verb}"
        found.append(Hypothesis(f"class_{name}", sentence, labels == index, within_stratum=False))
    return found


def measure_attributes(images: Images, labels: Column, centres: Floats) -> pd.DataFrame:
    """Attributes of each image, n rows: those of MEANING but `train_distance`.

    images: (n, h, w, c) uint8, c 1 or 3. labels: (n,) classes. centres: `class_means` to measure
    atypicality from.
    """
    parts = []
    for start in range(0, len(images), CHUNK):
        rows = slice(start, start + CHUNK)
        levels = images[rows].astype(np.float32) / np.float32(LEVELS)
        away = np.square(levels - centres[labels[rows]]).mean(axis=(1, 2, 3), dtype=np.float64)
        columns = {**_measure(images[rows], levels), "atypicality": np.sqrt(away)}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def class_means(images: Images, labels: Column, classes: int) -> Floats:
    """Mean image of each class, (classes, h, w, c) in [0, 1]; of all images for an empty class."""
    groups = (images[labels == label] for label in range(classes))
    means = [(group if len(group) else images).mean(axis=0, dtype=np.float64) for group in groups]
    return np.stack(means) / LEVELS


def _measure(images: Images, levels: npt.NDArray[np.float32]) -> dict[str, Column]:
    """Attributes of a chunk that need nothing but its pixels."""
    grey = levels @ LUMA if images.shape[-1] == 3 else levels[..., 0]
    pixels = (1, 2)
    slope = np.hypot(*np.gradient(grey, axis=pixels))
    ink = _find_ink(images)
    inside = ndimage.binary_erosion(ink, IN_PLANE)
    texture = (slope * inside).sum(axis=pixels, dtype=np.float64)
    # In whole double precision: a uniform image must come out uniform.
    centred = grey.astype(np.float64)
    centred -= centred.mean(axis=pixels, keepdims=True)
    shared = (centred * centred[:, :, ::-1]).sum(axis=pixels)
    power = np.abs(np.fft.fft2(grey - grey.mean(axis=pixels, keepdims=True))) ** 2
    down, across = (np.fft.fftfreq(side) for side in grey.shape[1:])
    fine = power[:, np.hypot(down[:, None], across) > FINE].sum(axis=1)
    return {
        "brightness": grey.mean(axis=pixels, dtype=np.float64),
        "contrast": grey.std(axis=pixels, dtype=np.float64),
        "ink": ink.mean(axis=pixels),
        "fill": _measure_fill(ink),
        "parts": _count_parts(ink),
        "texture": texture / np.maximum(inside.sum(axis=pixels), 1),
        "fine_detail": _share(fine, power.sum(axis=pixels), otherwise=0.0),
        "edges": (slope > EDGE).mean(axis=pixels),
        "symmetry": _share(shared, np.square(centred).sum(axis=pixels), otherwise=1.0),
    }


def _find_ink(images: Images) -> Flags:
    """Pixels away from the ground, (n, h, w); of equally common levels the smallest is ground."""
    sides = [images[:, 0], images[:, -1], images[:, 1:-1, 0], images[:, 1:-1, -1]]
    ground = np.asarray(stats.mode(np.concatenate(sides, axis=1), axis=1).mode)
    distance = np.abs(images.astype(np.int16) - ground[:, None, None])
    flags: Flags = distance.max(axis=-1) > INK * LEVELS
    return flags


def _measure_fill(ink: Flags) -> Floats:
    """Ink's share of its bounding box, (n,); 0 without ink."""
    numbered = ink * np.arange(1, len(ink) + 1)[:, None, None]
    boxes = ndimage.find_objects(numbered, len(ink))
    return np.array([0.0 if box is None else ink[box].mean() for box in boxes])


def _count_parts(ink: Flags) -> npt.NDArray[np.int64]:
    """Components of the ink that are no specks, (n,)."""
    labels, _ = ndimage.label(ink, DIAGONAL)
    image, _, _ = np.nonzero(ink)
    _, first, sizes = np.unique(labels[ink], return_index=True, return_counts=True)
    large = sizes >= MIN_PART * ink[0].size
    parts: npt.NDArray[np.int64] = np.bincount(image[first[large]], minlength=len(ink))
    return parts


def _share(part: Floats, whole: Floats, *, otherwise: float) -> Floats:
    """part / whole, `otherwise` where the whole is nothing but rounding."""
    share = np.full(len(whole), otherwise)
    np.divide(part, whole, out=share, where=whole > 1e-9)
    return share
