"""Measured attributes of images, and hypotheses about them: what a failure can be blamed on."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import ndimage, stats

from genlab.core.stats import Floats
from genlab.evaluation.diagnostics.attributes import Attributes, Column
from genlab.evaluation.diagnostics.error_analysis import Flags, Hypothesis

Images = npt.NDArray[np.uint8]

LEVELS = 255
LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)
"""Weights of red, green and blue in the brightness that people see (ITU-R BT.601)."""
INK = 0.1
"""A pixel further than this from the ground, in a channel and units of the range, is ink."""
EDGE = 0.1
"""A pixel with a steeper gradient, in units of the range a pixel, lies on an edge."""
FINE = 0.25
"""Cycles a pixel above which detail is fine: half of what pixels can hold along an axis."""
LEAST_PART = 0.005
"""Share of an image's pixels below which a component of its ink is a speck and no part."""

MEANING: dict[str, tuple[str, str]] = {
    "brightness": ("brightness", "mean level"),
    "contrast": ("contrast", "standard deviation of the levels over the pixels, in levels"),
    "ink": (
        "ink",
        f"share of the pixels that differ from the ground by more than {INK} in a channel; the "
        "ground is the most common colour of the border",
    ),
    "fill": ("fill of the box", "ink's share of its bounding box; 0 without ink"),
    "parts": (
        "parts",
        f"components of the ink, diagonal neighbours joined; those below {100 * LEAST_PART} % of "
        "the pixels don't count",
    ),
    "texture": (
        "texture",
        "mean gradient inside the ink, away from its outline, in levels a pixel; 0 where the ink "
        "has no inside",
    ),
    "fine_detail": (
        "fine detail",
        f"share of the variance at more than {FINE} cycles a pixel; 0 for a uniform image",
    ),
    "edges": ("edges", f"share of the pixels with a gradient above {EDGE} levels a pixel"),
    "symmetry": (
        "symmetry",
        "correlation with the image mirrored left to right, -1 to 1; 1 for a uniform image",
    ),
    "colourfulness": (
        "colourfulness",
        "spread of red-green and yellow-blue plus 0.3 times their mean, in levels "
        "(Hasler and Süsstrunk 2003, M3)",
    ),
    "train_distance": (
        "distance from the training images",
        "distance to the nearest of them, root mean squared over the pixels, in levels",
    ),
    "atypicality": (
        "distance from the class's mean",
        "root mean squared over the pixels to the mean test image of the class, in levels",
    ),
}
"""What people call each attribute, and what it is. Levels are grey or luma (BT.601) in [0, 1].

Ink and what rests on it is meant for things on a plain ground; of photographs it says how much of
them differs from the border.
"""

CHUNK = 1024

IN_PLANE = ndimage.generate_binary_structure(3, 1)
IN_PLANE[[0, 2]] = False  # four neighbours in an image, none in the images before and after
DIAGONAL = np.zeros((3, 3, 3), dtype=np.bool_)
DIAGONAL[1] = True


def image_attributes(
    images: Images,
    labels: npt.ArrayLike,
    names: Sequence[str],
    nearest_train: npt.ArrayLike | None = None,
    *,
    centres: Floats | None = None,
) -> dict[str, Column]:
    """Attributes of each image, {name: (n,)}.

    images: (n, h, w, c) uint8, c 1 or 3; may be memory-mapped. labels: (n,) indices into `names`.
    nearest_train: (n,) distance of each to its nearest training image (`memorisation.nearest`).
    centres: `class_means` to measure atypicality from, by default those of these images.

    MEANING tells what each is and in what unit, beside `class`, the label. `colourfulness` is
    measured of colour images alone, `train_distance` is `nearest_train` where that is given.

    Raises ValueError where images, labels and names don't fit.
    """
    found = _checked(images, labels, names)
    means = class_means(images, found, len(names)) if centres is None else centres
    parts = []
    for start in range(0, len(images), CHUNK):
        rows = slice(start, start + CHUNK)
        levels = images[rows].astype(np.float32) / np.float32(LEVELS)
        away = np.square(levels - means[found[rows]]).mean(axis=(1, 2, 3), dtype=np.float64)
        parts.append({**_measured(images[rows], levels), "atypicality": np.sqrt(away)})
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if nearest_train is not None:
        columns["train_distance"] = np.asarray(nearest_train, dtype=np.float64)
        if columns["train_distance"].shape != found.shape:
            raise ValueError("nearest_train must be (n,), one distance an image")
    return {"class": found, **columns}


def class_means(images: Images, labels: npt.NDArray[np.int64], classes: int) -> Floats:
    """Mean image of each class, (classes, h, w, c) in [0, 1]; of all images for an empty class."""
    sums = np.zeros((classes, *images.shape[1:]))
    counts = np.bincount(labels, minlength=classes)
    for start in range(0, len(images), CHUNK):
        chunk, classed = images[start : start + CHUNK], labels[start : start + CHUNK]
        for label in np.unique(classed):
            sums[label] += chunk[classed == label].sum(axis=0, dtype=np.int64)
    means: Floats = sums / np.maximum(counts, 1)[:, None, None, None]
    means[counts == 0] = sums.sum(axis=0) / len(images)
    return means / LEVELS


# Attribute, whether the upper or the lower quarter, name, and how such images differ.
_QUARTERS = (
    ("brightness", True, "bright", "brighter"),
    ("brightness", False, "dark", "darker"),
    ("contrast", True, "high_contrast", "of higher contrast"),
    ("contrast", False, "low_contrast", "of lower contrast"),
    ("ink", True, "much_ink", "with more ink"),
    ("ink", False, "little_ink", "with less ink"),
    ("texture", True, "textured", "more textured inside"),
    ("texture", False, "plain", "plainer inside"),
    ("fine_detail", True, "fine_detail", "with more fine detail"),
    ("fine_detail", False, "blurred", "with less fine detail"),
    ("edges", True, "many_edges", "with more edges"),
    ("symmetry", False, "asymmetric", "less symmetric"),
    ("fill", False, "sparse", "filling less of their box"),
    ("colourfulness", True, "colourful", "more colourful"),
    ("train_distance", True, "far_from_training", "further from the training images"),
    ("atypicality", True, "atypical", "further from their class's mean"),
)


def image_hypotheses(
    names: Sequence[str], measured: Attributes, *, subject: str = "images", verb: str = "are hard"
) -> tuple[Hypothesis, ...]:
    """What may make an image fail: an attribute in the outer quarter of its class, or its class.

    names: of the classes. measured: `image_attributes`; only what they hold is claimed. subject
    and verb begin and end the sentences. Quarters are those of an image's own class, so that the
    comparison within classes has every class on both sides.
    """
    quarters = [
        Hypothesis(name, f"{subject} {words} than three quarters of their class {verb}", quarter)
        for attribute, upper, name, words in _QUARTERS
        if attribute in measured
        for quarter in [_Quarter(attribute, upper)]
    ]
    several = Hypothesis(
        "several_parts", f"{subject} of two or more parts {verb}", lambda a: a["parts"] >= 2
    )
    classes = [
        Hypothesis(f"class_{name}", f"{subject} of the class {name} {verb}", _OfClass(index), False)
        for index, name in enumerate(names)
    ]
    return (*quarters, several, *classes)


class _Quarter:
    """Flags of the images in the upper or lower quarter of their class by an attribute."""

    def __init__(self, attribute: str, upper: bool) -> None:
        self.attribute, self.upper = attribute, upper

    def __call__(self, attributes: Attributes) -> Flags:
        values, classes = attributes[self.attribute], attributes["class"]
        flags = np.zeros(len(values), dtype=np.bool_)
        for label in np.unique(classes):
            own = classes == label
            if self.upper:
                flags[own] = values[own] > np.quantile(values[own], 0.75)
            else:
                flags[own] = values[own] < np.quantile(values[own], 0.25)
        return flags


class _OfClass:
    """Flags of the images of one class."""

    def __init__(self, label: int) -> None:
        self.label = label

    def __call__(self, attributes: Attributes) -> Flags:
        flags: Flags = attributes["class"] == self.label
        return flags


def _measured(images: Images, levels: npt.NDArray[np.float32]) -> dict[str, Column]:
    """Attributes of a chunk that need nothing but its pixels."""
    grey = levels @ LUMA if images.shape[-1] == 3 else levels[..., 0]
    pixels = (1, 2)
    slope = np.hypot(*np.gradient(grey, axis=pixels))
    ink = _ink(images)
    inside = ndimage.binary_erosion(ink, IN_PLANE)
    columns: dict[str, Column] = {
        "brightness": grey.mean(axis=pixels, dtype=np.float64),
        "contrast": grey.std(axis=pixels, dtype=np.float64),
        "ink": ink.mean(axis=pixels),
        "fill": _fill(ink),
        "parts": _parts(ink),
        "texture": (slope * inside).sum(axis=pixels, dtype=np.float64)
        / np.maximum(inside.sum(axis=pixels), 1),
        "fine_detail": _fine_detail(grey),
        "edges": (slope > EDGE).mean(axis=pixels),
        "symmetry": _symmetry(grey),
    }
    if images.shape[-1] == 3:
        columns["colourfulness"] = _colourfulness(levels)
    return columns


def _ink(images: Images) -> Flags:
    """Pixels away from the ground, (n, h, w); of equally common colours the smallest is ground."""
    # A colour becomes one number, so that the most common one is the mode of numbers.
    places = 256 ** np.arange(images.shape[-1])
    colours = images @ places
    rim = np.concatenate(
        [colours[:, 0], colours[:, -1], colours[:, 1:-1, 0], colours[:, 1:-1, -1]], axis=1
    )
    common = stats.mode(rim, axis=1).mode
    ground = (common[:, None] // places % 256).astype(np.int16)
    distance = np.abs(images.astype(np.int16) - ground[:, None, None])
    flags: Flags = distance.max(axis=-1) > INK * LEVELS
    return flags


def _fill(ink: Flags) -> Floats:
    """Ink's share of its bounding box, (n,); 0 without ink."""
    rows, cols = (_extent(np.asarray(ink.any(axis=axis))) for axis in (2, 1))
    fill: Floats = ink.sum(axis=(1, 2)) / np.maximum(rows * cols, 1)
    return fill


def _extent(taken: Flags) -> npt.NDArray[np.int64]:
    """Places from the first to the last one taken, (n, k) to (n,); 0 where none is."""
    between = np.logical_or.accumulate(taken, axis=1)
    between &= np.logical_or.accumulate(taken[:, ::-1], axis=1)[:, ::-1]
    extent: npt.NDArray[np.int64] = between.sum(axis=1)
    return extent


def _parts(ink: Flags) -> npt.NDArray[np.int64]:
    """Components of the ink that are no specks, (n,)."""
    labels, count = ndimage.label(ink, DIAGONAL)
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    image_of = np.zeros(count + 1, dtype=np.int64)
    image_of[labels[ink]] = np.nonzero(ink)[0]
    large = sizes >= LEAST_PART * ink[0].size
    large[0] = False
    parts: npt.NDArray[np.int64] = np.bincount(image_of[large], minlength=len(ink))
    return parts


def _fine_detail(grey: npt.NDArray[np.float32]) -> Floats:
    power = np.abs(np.fft.fft2(grey - grey.mean(axis=(1, 2), keepdims=True))) ** 2
    down, across = (np.fft.fftfreq(side) for side in grey.shape[1:])
    fine = np.hypot(down[:, None], across) > FINE
    share: Floats = _over(power[:, fine].sum(axis=1), power.sum(axis=(1, 2)), otherwise=0.0)
    return share


def _symmetry(grey: npt.NDArray[np.float32]) -> Floats:
    # In whole double precision: a uniform image must come out uniform.
    centred = grey.astype(np.float64)
    centred -= centred.mean(axis=(1, 2), keepdims=True)
    shared = (centred * centred[:, :, ::-1]).sum(axis=(1, 2))
    return _over(shared, np.square(centred).sum(axis=(1, 2)), otherwise=1.0)


def _over(part: Floats, whole: Floats, *, otherwise: float) -> Floats:
    """part / whole, `otherwise` where the whole is nothing but rounding."""
    share = np.full(len(whole), otherwise)
    np.divide(part, whole, out=share, where=whole > 1e-9)
    return share


def _colourfulness(levels: npt.NDArray[np.float32]) -> Floats:
    red, green, blue = (levels[..., channel].astype(np.float64) for channel in range(3))
    opponents = np.stack([red - green, (red + green) / 2 - blue])
    spread = np.sqrt(opponents.var(axis=(2, 3)).sum(axis=0))
    colourfulness: Floats = spread + 0.3 * np.sqrt(
        np.square(opponents.mean(axis=(2, 3))).sum(axis=0)
    )
    return colourfulness


def _checked(images: Images, labels: npt.ArrayLike, names: Sequence[str]) -> npt.NDArray[np.int64]:
    """The labels as integers (n,)."""
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] not in (1, 3):
        raise ValueError(f"images must be uint8 (n, h, w, 1 or 3), got {images.shape}")
    found = np.asarray(labels, dtype=np.int64)
    if not len(images) or found.shape != (len(images),):
        raise ValueError(f"labels must be one an image, got {found.shape} for {len(images)}")
    if found.min() < 0 or found.max() >= len(names):
        raise ValueError(
            f"labels must be 0 to {len(names) - 1}, got {found.min()} to {found.max()}"
        )
    return found
