"""Read a user's own grids onto one canvas, and summarise their source."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.params.sections import MAX_GRID, SourceParams
from genlab.core.paths import resolve_path
from genlab.datasets.readers.conventions import arrays, tasks
from genlab.datasets.readers.conventions.folders import find_pictures
from genlab.datasets.readers.conventions.tasks import Tasks
from genlab.datasets.readers.files import Files, FolderContents, is_archive, open_files
from genlab.datasets.readers.opening import EXAMPLES
from genlab.datasets.readers.reading import check_unreadable
from genlab.datasets.readers.summary import describe
from genlab.grids.palette import COLOURS, PADDING
from genlab.grids.shapes import Grids

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OwnGrids:
    """Grids of a user's own dataset, on one canvas.

    grids: (n, side, side) uint8 colours; cells right of and below a smaller grid are PADDING.
    groups: equal numbers for grids of one task. retained_rows: rows of `grids` that make the
    dataset: all, or all but duplicates. larger: names of grids that do not fit on the canvas.
    """

    tasks: Tasks
    grids: Grids
    names: list[str]
    sides: list[tuple[int, int]]
    splits: list[str]
    groups: Numbers
    retained_rows: Numbers
    larger: list[str]

    @property
    def examples(self) -> Grids:
        """The first items, as a model takes them."""
        return self.grids[:EXAMPLES]

    @property
    def path(self) -> Path:
        """Path of the source."""
        return self.tasks.path

    @property
    def side(self) -> int:
        """Side of the canvas in cells."""
        return int(self.grids.shape[1])

    def summarise(self, max_names: int | None = None) -> dict[str, Any]:
        """Summarise the source for programs; at most `max_names` left-out names per reason."""
        cells = np.bincount(self.grids.ravel(), minlength=PADDING + 1)[:COLOURS]
        left_out = {
            **self.tasks.left_out,
            "larger than the canvas": self.larger,
            "unreadable": self.tasks.unreadable,
        }
        distinct = {grid.tobytes() for grid in self.grids}
        return {
            "path": str(self.tasks.path),
            "kind": "grids",
            "convention": self.tasks.convention,
            "count": len(self.grids),
            "tasks": len({grid.task for grid in self.tasks.grids}),
            "size": self.grids.shape[1],
            "padded": sum(min(side) < self.grids.shape[1] for side in self.sides),
            "sizes": [
                {"height": height, "width": width, "count": count}
                for (height, width), count in Counter(self.sides).most_common()
            ],
            "colours": {str(c): float(n / cells.sum()) for c, n in enumerate(cells)},
            "splits": dict(Counter(split for split in self.splits if split)),
            "left_out": {
                reason: {"count": len(names), "names": names[:max_names]}
                for reason, names in left_out.items()
            },
            "notes": [],
            "duplicates": {
                "all": len(self.grids) - len(distinct),
                "dropped": len(self.grids) - len(self.retained_rows),
            },
            "groups": len(np.unique(self.groups)),
        }

    def describe(self) -> list[str]:
        """Describe the source in lines of text."""
        return describe(self.summarise())


def find_kind(source: SourceParams) -> str:
    """Find out whether a source holds grids or images.

    Raises GenlabError, naming the key `kind`, for arrays that may be either.
    """
    if source.kind:
        return source.kind
    path = resolve_path(source.path)
    if path.is_file() and path.suffix.lower() in arrays.SUFFIXES:
        return _find_kind_of_arrays(path, source)
    if path.is_file() and not is_archive(path):
        return "grids" if path.suffix.lower() in tasks.SUFFIXES else "images"
    files = open_files(path)
    pictures, others = find_pictures(files)
    if pictures or not others:
        return "images"
    any_json = any(name.lower().endswith(tasks.JSON_SUFFIXES) for name in others)
    all_tasks = all(name.lower().endswith(tasks.SUFFIXES) for name in others)
    return "grids" if any_json or all_tasks else "images"


def _find_kind_of_arrays(path: Path, source: SourceParams) -> str:
    for array in arrays.load_by_split(path, source).values():
        may_be_grids = array.dtype.kind in "ui" and array.ndim == 3 and array.size
        if not may_be_grids or max(array.shape[1:]) > MAX_GRID or array.min() < 0:
            return "images"
        if not 1 < array.max() < COLOURS:  # 0 and 1 alone are pictures of two levels
            return "images"
    fix = "set kind to grids or images"
    message = f"{path}: whole numbers 0 to 9 on small sides may be grids or images"
    raise GenlabError(f"{message}: {fix}", key="source.kind", path=path, fix=fix)


def open_tasks(source: SourceParams) -> Tasks:
    """Read the tasks of a source."""
    path = resolve_path(source.path)
    if path.is_file() and path.suffix.lower() in arrays.SUFFIXES:
        return tasks.read_grid_array(path, arrays.load_by_split(path, source))
    if path.is_file() and not is_archive(path):
        single_file = Files.collect(path, [path.name], FolderContents(path.parent))
        return tasks.read_tasks(single_file)
    return tasks.read_tasks(open_files(path))


def read_grids(source: SourceParams) -> OwnGrids:
    """Read all grids of a source. Raises GenlabError where too many cannot be read."""
    source_tasks = open_tasks(source)
    count = len(source_tasks.grids) + len(source_tasks.unreadable)
    check_unreadable(source_tasks.path, source, source_tasks.unreadable, count, "grids or files")
    largest = max(max(grid.cells.shape) for grid in source_tasks.grids)
    side = source.size or largest + largest % 2
    fitting = [grid for grid in source_tasks.grids if max(grid.cells.shape) <= side]
    larger = [grid.name for grid in source_tasks.grids if max(grid.cells.shape) > side]
    if not fitting:
        message = (
            f"{source_tasks.path}: no grid fits on a canvas of {side}; the largest has {largest}"
        )
        raise GenlabError(message, key="source.size", path=source_tasks.path)
    canvases = np.full((len(fitting), side, side), PADDING, dtype=np.uint8)
    for canvas, grid in zip(canvases, fitting, strict=True):
        height, width = grid.cells.shape
        canvas[:height, :width] = grid.cells
    first: dict[bytes, int] = {}
    copies = np.array([first.setdefault(c.tobytes(), row) for row, c in enumerate(canvases)])
    drop = source.duplicates == "drop"
    task_numbers: dict[str, int] = {}
    for grid in fitting:
        task_numbers.setdefault(grid.task, len(task_numbers))
    return OwnGrids(
        tasks=source_tasks,
        grids=canvases,
        names=[grid.name for grid in fitting],
        sides=[(grid.cells.shape[0], grid.cells.shape[1]) for grid in fitting],
        splits=[grid.split for grid in fitting],
        # Equal grids of two tasks do not join these: small ones are equal by chance.
        groups=np.array([task_numbers[grid.task] for grid in fitting]),
        retained_rows=np.unique(copies) if drop else np.arange(len(fitting)),
        larger=larger,
    )
