"""What evaluate left for people to look at: reconstructions, samples, nearest training items."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from genlab.core.io import read_npz
from genlab.datasets.registry import find_dataset
from genlab.web import browse
from genlab.web.components.files import fresh, require

Items = npt.NDArray[np.uint8]
EVALUATE = "dvc repro evaluate"
GRID_KEYS = ("samples", "arc", "arc_predicted")
IMAGE_KEYS = ("predicted", "nats", "samples", "sample_nearest", "sample_errors")


@dataclass(frozen=True)
class Neighbour:
    """A sample, its nearest training item, and how far apart they are, in words."""

    index: int
    sample: Items
    nearest: Items
    distance: str


def evidence(root: Path, dataset: str) -> dict[str, npt.NDArray[np.generic]]:
    """The arrays of `evidence.npz`; raises Missing before evaluate has run."""
    path = root / "data" / "evaluated" / dataset / "evidence.npz"
    require(path, f"{dataset} has not been evaluated here yet", EVALUATE)
    return _evidence(path, IMAGE_KEYS if find_dataset(dataset).kind == "images" else GRID_KEYS)


@fresh(keep=2)
def _evidence(path: Path, keys: tuple[str, ...]) -> dict[str, npt.NDArray[np.generic]]:
    return read_npz(path, kind="evaluation", keys=keys, producer_command=EVALUATE)


def neighbours(root: Path, dataset: str, first: int, count: int) -> list[Neighbour]:
    """Samples `first` and on, each beside the training item that is nearest to it.

    Grids are compared cell by cell; images in the features of the classifier, by evaluate.
    """
    found = evidence(root, dataset)
    rows = range(first, min(first + count, len(found["samples"])))
    if find_dataset(dataset).kind == "images":
        return [
            Neighbour(
                row,
                found["samples"][row],
                found["sample_nearest"][row],
                f"distance {float(found['sample_errors'][row]):.2f} in features",
            )
            for row in rows
        ]
    train = browse.grids_of(root / "data" / dataset, "train").grids
    samples = [np.asarray(found["samples"][row], dtype=np.uint8) for row in rows]
    near = [nearest_grid(sample, train) for sample in samples]
    return [
        Neighbour(row, sample, train[place], _cells(distance))
        for row, sample, (place, distance) in zip(rows, samples, near, strict=True)
    ]


def nearest_grid(grid: Items, train: Items) -> tuple[int, int]:
    """(index, differing cells) of the grid of `train` (n, h, w) that differs least from `grid`."""
    distances = np.count_nonzero(train != grid, axis=(1, 2))
    place = int(np.argmin(distances))
    return place, int(distances[place])


def _cells(distance: int) -> str:
    if distance == 0:
        return "a copy of a training grid"
    return f"{distance} cell{'s' * (distance != 1)} apart"
