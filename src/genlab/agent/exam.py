"""What a model is asked in a quick evaluation, and how its answers are marked.

Three parts, apart for good: a model trains on the first, is chosen by its marks on the second, and
meets the third once, for the final report. Labels of the second and third never enter the sandbox:
a model hands in logits, and what they are worth is computed here, out of its reach.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.special import log_softmax

from genlab.agent.space import Input
from genlab.core.errors import GenlabError
from genlab.datasets.arc_grids import find_data_file, load_objects, load_split
from genlab.datasets.images import load_images, load_labels

Items = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Logits = npt.NDArray[np.floating[Any]]

COLOURS = 10
LEVEL = 0.95
DUMMY_SIDE, DUMMY_COUNT = 16, 1200


@dataclass(frozen=True)
class Part:
    """items: (n, channels, height, width) uint8; labels: (n,) from 0."""

    items: Items
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Exam:
    """The parts that selection may see. scale: what an item is divided by for the model."""

    dataset: str
    classes: int
    scale: float
    train: Part
    validation: Part

    @property
    def shape(self) -> Input:
        """Channels, height, width of an item."""
        channels, height, width = self.train.items.shape[1:]
        return channels, height, width


@dataclass(frozen=True)
class Marks:
    """What logits are worth on a part of n items; low, high: Wilson's interval of the accuracy."""

    accuracy: float
    low: float
    high: float
    loss: float  # nats an item
    n: int


def exam(dataset: str, data: Path, subset: int, validation: int, seed: int) -> Exam:
    """The parts of `dataset` that selection sees, `subset` and `validation` items, by `seed`.

    data: the folder that holds the folder of each dataset. Raises GenlabError where the dataset is
    unknown or not there.
    """
    read = _reader(dataset)
    train, val = (read(data, split) for split in ("train", "val"))
    rng = np.random.default_rng(seed)
    train, val = (_some(part, count, rng) for part, count in ((train, subset), (val, validation)))
    classes = int(max(train.labels.max(), val.labels.max())) + 1
    return Exam(dataset, classes, _scale(dataset), train, val)


def check(dataset: str, data: Path) -> None:
    """Raises GenlabError where the dataset is unknown or not there."""
    _reader(dataset)(data, "val")


def final_part(dataset: str, data: Path) -> Part:
    """The test part: opened once, for the final report."""
    return _reader(dataset)(data, "test")


def mark(logits: Logits, labels: Labels) -> Marks:
    """Accuracy and cross-entropy of logits (n, classes).

    Raises ValueError where they are not finite or not of that shape: no answer is no answer, and is
    not marked as a wrong one.
    """
    if logits.ndim != 2 or len(logits) != len(labels) or logits.shape[1] <= labels.max():
        raise ValueError(f"logits are {logits.shape}, not {len(labels)} x {labels.max() + 1}")
    if not np.isfinite(logits).all():
        raise ValueError("logits are not finite")
    right = int((logits.argmax(1) == labels).sum())
    interval = stats.binomtest(right, len(labels)).proportion_ci(LEVEL, method="wilson")
    told = log_softmax(logits.astype(np.float64), axis=1)
    loss = -float(told[np.arange(len(labels)), labels].mean())
    return Marks(right / len(labels), float(interval.low), float(interval.high), loss, len(labels))


def _some(part: Part, count: int, rng: np.random.Generator) -> Part:
    """`count` items of a part, or all where there are no more."""
    chosen = np.sort(rng.permutation(len(part))[:count])
    return Part(np.ascontiguousarray(part.items[chosen]), part.labels[chosen])


def _images(name: str) -> Callable[[Path, str], Part]:
    def read(data: Path, split: str) -> Part:
        images = load_images(data / name, split)
        return Part(images.transpose(0, 3, 1, 2), load_labels(data / name, split))

    return read


def _grids(data: Path, split: str) -> Part:
    """Grids as a channel a colour; the class is the number of objects, from 1 on."""
    grids = load_split(find_data_file(data / "arc_grids"), split)
    objects = load_objects(data / "arc_grids", split)
    counts = np.bincount(objects["grid"], minlength=len(grids)).astype(np.int64)
    one_hot = (grids[:, None] == np.arange(COLOURS)[None, :, None, None]).astype(np.uint8)
    return Part(one_hot, counts - 1)


def _dummy(data: Path, split: str) -> Part:
    """Noise with stripes whose direction is the class: learnt in a moment, by any network."""
    rng = np.random.default_rng([0, {"train": 0, "val": 1, "test": 2}[split]])
    labels = rng.integers(0, 4, DUMMY_COUNT)
    items = rng.integers(0, 120, (DUMMY_COUNT, 1, DUMMY_SIDE, DUMMY_SIDE)).astype(np.uint8)
    rows, columns = np.indices((DUMMY_SIDE, DUMMY_SIDE))
    stripes = np.stack([rows, columns, rows + columns, rows - columns])
    phases = rng.integers(0, 4, DUMMY_COUNT)
    bright = (stripes[labels] + phases[:, None, None]) % 4 < 2
    items[:, 0] += 120 * bright.astype(np.uint8)
    return Part(items, labels)


READERS: dict[str, Callable[[Path, str], Part]] = {
    "fashion_mnist": _images("fashion_mnist"),
    "mnist": _images("mnist"),
    "cifar10": _images("cifar10"),
    "arc_grids": _grids,
    "dummy": _dummy,
}


def _reader(dataset: str) -> Callable[[Path, str], Part]:
    if dataset not in READERS:
        raise GenlabError(f"dataset must be one of {', '.join(READERS)}, got {dataset!r}")
    return READERS[dataset]


def _scale(dataset: str) -> float:
    return 1.0 if dataset == "arc_grids" else 255.0
