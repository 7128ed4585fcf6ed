"""Measured attributes of images, and hypotheses about which of them make an image fail."""

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
"""Weights of red, green and blue in the perceived brightness (ITU-R BT.601)."""
EDGE = 0.1
"""A pixel with a steeper gradient, in units of the range per pixel, lies on an edge."""
FINE = 0.25
"""Cycles per pixel above which detail is fine: half of the highest frequency along an axis."""

MEANING: dict[str, str] = {
    "brightness": "mean level",
    "contrast": "standard deviation of the levels over the pixels",
    "fine_detail": f"share of the variance at more than {FINE} cycles per pixel",
    "edges": f"share of the pixels with a gradient above {EDGE} levels per pixel",
    "symmetry": "correlation with the image mirrored left to right; 1 for a uniform image",
    "train_distance": "distance to the nearest training image, in the classifier's features",
    "atypicality": "root mean squared distance to the mean test image of the class",
}
"""Meaning of each attribute. Levels are grey or luma (BT.601) in [0, 1]."""

# Name, attribute, whether it is the upper or the lower quarter, and how such images differ.
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
    """Hypotheses about images: an attribute in the outer quarter of its class, or the class itself.

    measured: result of `measure_attributes`, which may lack columns. labels: (n,), indices into
    `names`. subject, verb: begin and end of the sentences. Quarters are computed per class, so that
    every class has images with and without an attribute.
    """
    hypotheses = []
    for name, attribute, upper, words in _QUARTERS:
        if attribute in measured:
            values = measured[attribute]
            quantile = 0.75 if upper else 0.25
            limits = values.groupby(labels).transform(
                lambda column, q=quantile: np.quantile(column, q)
            )
            flags = np.asarray(values > limits if upper else values < limits)
            sentence = f"{subject} {words} than three quarters of their class {verb}"
            hypotheses.append(Hypothesis(name, sentence, flags))
    for index, name in enumerate(names):
        sentence = f"{subject} of the class {name} {verb}"
        flags = labels == index
        hypotheses.append(Hypothesis(f"class_{name}", sentence, flags, within_stratum=False))
    return hypotheses


def measure_attributes(images: Images, labels: Column, centres: Floats) -> pd.DataFrame:
    """Measure the attributes of MEANING, except `train_distance`, in a row per image.

    images: (n, h, w, c) uint8, c 1 or 3. labels: (n,) classes. centres: `class_means`, which
    atypicality is measured from.
    """
    chunks = []
    for start in range(0, len(images), CHUNK):
        rows = slice(start, start + CHUNK)
        levels = images[rows].astype(np.float32) / np.float32(LEVELS)
        squared = np.square(levels - centres[labels[rows]])
        atypicality = np.sqrt(squared.mean(axis=(1, 2, 3), dtype=np.float64))
        chunks.append(pd.DataFrame({**_measure(levels), "atypicality": atypicality}))
    return pd.concat(chunks, ignore_index=True)


def class_means(images: Images, labels: Column, classes: int) -> Floats:
    """Mean image of each class, (classes, h, w, c) in [0, 1]; an empty class has that of all."""
    groups = (images[labels == label] for label in range(classes))
    means = [(group if len(group) else images).mean(axis=0, dtype=np.float64) for group in groups]
    return np.stack(means) / LEVELS


def _measure(levels: npt.NDArray[np.float32]) -> dict[str, Column]:
    """Attributes of a chunk of images that depend only on its pixels, (n, h, w, c) in [0, 1]."""
    grey = levels @ LUMA if levels.shape[-1] == 3 else levels[..., 0]
    pixels = (1, 2)
    slope = np.hypot(*np.gradient(grey, axis=pixels))
    # In double precision, so that a uniform image has no variance.
    centred = grey.astype(np.float64)
    centred -= centred.mean(axis=pixels, keepdims=True)
    covariance = (centred * centred[:, :, ::-1]).sum(axis=pixels)
    power = np.abs(np.fft.fft2(grey - grey.mean(axis=pixels, keepdims=True))) ** 2
    down, across = (np.fft.fftfreq(side) for side in grey.shape[1:])
    fine = power[:, np.hypot(down[:, None], across) > FINE].sum(axis=1)
    return {
        "brightness": grey.mean(axis=pixels, dtype=np.float64),
        "contrast": grey.std(axis=pixels, dtype=np.float64),
        "fine_detail": _divide(fine, power.sum(axis=pixels), otherwise=0.0),
        "edges": (slope > EDGE).mean(axis=pixels),
        "symmetry": _divide(covariance, np.square(centred).sum(axis=pixels), otherwise=1.0),
    }


def _divide(numerator: Floats, denominator: Floats, *, otherwise: float) -> Floats:
    """Divide, with `otherwise` where the denominator is a rounding error."""
    quotient = np.full(len(denominator), otherwise)
    np.divide(numerator, denominator, out=quotient, where=denominator > 1e-9)
    return quotient
