"""Measured attributes of images, and hypotheses about them: what a failure can be blamed on."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from genlab.core.stats import Floats
from genlab.datasets.images import Images
from genlab.evaluation.failures.error_analysis import Column, Hypothesis

CHUNK = 1024
LEVELS = 255
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Weights of red, green and blue in the brightness that people see (ITU-R BT.601)."""
EDGE = 0.1
"""A pixel with a steeper gradient, in units of the range per pixel, lies on an edge."""
FINE = 0.25
"""Cycles per pixel above which detail is fine: half of what pixels can hold along an axis."""

MEANING: dict[str, str] = {
    "brightness": "mean level",
    "contrast": "standard deviation of the levels over the pixels",
    "fine_detail": f"share of the variance at more than {FINE} cycles per pixel",
    "edges": f"share of the pixels with a gradient above {EDGE} levels per pixel",
    "symmetry": "correlation with the image mirrored left to right; 1 for a uniform image",
    "train_distance": "distance to the nearest training image, in the classifier's features",
    "atypicality": "root mean squared distance to the mean test image of the class",
}
"""What each attribute is. Levels are grey or luma (BT.601) in [0, 1]."""

# Name, attribute, whether the upper or the lower quarter, and how such images differ.
_QUARTERS = (
    ("bright", "brightness", True, "brighter"),
    ("dark", "brightness", False, "darker"),
    ("high_contrast", "contrast", True, "of higher contrast"),
    ("low_contrast", "contrast", False, "of lower contrast"),
    ("fine_detail", "fine_detail", True, "with more fine detail"),
    ("blurred", "fine_detail", False, "with less fine detail"),
    ("many_edges", "edges", True, "with more edges"),
    ("asymmetric", "symmetry", False, "less symmetric"),
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
        columns = {**_measure(levels), "atypicality": np.sqrt(away)}
        parts.append(pd.DataFrame(columns))
    return pd.concat(parts, ignore_index=True)


def class_means(images: Images, labels: Column, classes: int) -> Floats:
    """Mean image of each class, (classes, h, w, c) in [0, 1]; of all images for an empty class."""
    groups = (images[labels == label] for label in range(classes))
    means = [(group if len(group) else images).mean(axis=0, dtype=np.float64) for group in groups]
    return np.stack(means) / LEVELS


def _measure(levels: npt.NDArray[np.float32]) -> dict[str, Column]:
    """Attributes of a chunk that need nothing but its pixels."""
    grey = levels @ LUMA if levels.shape[-1] == 3 else levels[..., 0]
    pixels = (1, 2)
    slope = np.hypot(*np.gradient(grey, axis=pixels))
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
        "fine_detail": _share(fine, power.sum(axis=pixels), otherwise=0.0),
        "edges": (slope > EDGE).mean(axis=pixels),
        "symmetry": _share(shared, np.square(centred).sum(axis=pixels), otherwise=1.0),
    }


def _share(part: Floats, whole: Floats, *, otherwise: float) -> Floats:
    """part / whole, `otherwise` where the whole is nothing but rounding."""
    share = np.full(len(whole), otherwise)
    np.divide(part, whole, out=share, where=whole > 1e-9)
    return share
