"""Open a source of grids: on one canvas, with what was understood."""

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

Grids = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class OwnGrids:
    """Grids of one's own dataset, on one canvas.

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
        """Some items as a model takes them."""
        return self.grids[:EXAMPLES]

    @property
    def path(self) -> Path:
        """Where they lie."""
        return self.tasks.path

    @property
    def side(self) -> int:
        """Side of the canvas in cells."""
        return int(self.grids.shape[1])

    def summarise(self, named: int | None = None) -> dict[str, Any]:
        """What was understood, for programs. named: most names of what was left out, by reason."""
        cells = np.bincount(self.grids.ravel(), minlength=PADDING + 1)[:COLOURS]
        left_out = {
            **self.tasks.left_out,
            "larger than the canvas": self.larger,
            "unreadable": self.tasks.unreadable,
        }
        copies = {grid.tobytes() for grid in self.grids}
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
                reason: {"count": len(names), "names": names[:named]}
                for reason, names in left_out.items()
            },
            "notes": [],
            "duplicates": {
                "all": len(self.grids) - len(copies),
                "dropped": len(self.grids) - len(self.retained_rows),
            },
            "groups": len(np.unique(self.groups)),
        }

    def describe(self) -> list[str]:
        """What was understood, in lines."""
        return describe(self.summarise())


def find_kind(source: SourceParams) -> str:
    """Find out whether a source holds grids or images.

    Raises GenlabError, naming the key `kind`, for arrays that may be either.
    """
    if source.kind:
        return source.kind
    path = resolve_path(source.path)
    if path.is_file() and path.suffix.lower() in arrays.SUFFIXES:
        return _kind_of_arrays(path, source)
    if path.is_file() and not is_archive(path):
        return "grids" if path.suffix.lower() in tasks.SUFFIXES else "images"
    files = open_files(path)
    pictures, others = find_pictures(files)
    named = [name for name in others if name.lower().endswith(tasks.JSON_SUFFIXES)]
    if pictures or not others:
        return "images"
    texts = all(name.lower().endswith(tasks.SUFFIXES) for name in others)
    return "grids" if named or texts else "images"


def _kind_of_arrays(path: Path, source: SourceParams) -> str:
    parts = arrays.load_parts(path, source)
    for array in parts.values():
        colours = array.dtype.kind in "ui" and array.ndim == 3 and array.size
        if not colours or max(array.shape[1:]) > MAX_GRID or array.min() < 0:
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
        return tasks.read_grid_array(path, arrays.load_parts(path, source))
    if path.is_file() and not is_archive(path):
        alone = Files.collect(path, [path.name], FolderContents(path.parent))
        return tasks.read_tasks(alone)
    return tasks.read_tasks(open_files(path))


def read_grids(source: SourceParams) -> OwnGrids:
    """Read a source of grids whole. Raises GenlabError where too many cannot be read."""
    found = open_tasks(source)
    count = len(found.grids) + len(found.unreadable)
    check_unreadable(found.path, source, found.unreadable, count, "grids or files")
    largest = max(max(grid.grid.shape) for grid in found.grids)
    side = source.size or largest + largest % 2
    fitting = [grid for grid in found.grids if max(grid.grid.shape) <= side]
    larger = [grid.name for grid in found.grids if max(grid.grid.shape) > side]
    if not fitting:
        message = f"{found.path}: no grid fits on a canvas of {side}; the largest has {largest}"
        raise GenlabError(message, key="source.size", path=found.path)
    canvas = np.full((len(fitting), side, side), PADDING, dtype=np.uint8)
    for row, grid in enumerate(fitting):
        height, width = grid.grid.shape
        canvas[row, :height, :width] = grid.grid
    first: dict[bytes, int] = {}
    copies = np.array([first.setdefault(g.tobytes(), row) for row, g in enumerate(canvas)])
    number: dict[str, int] = {}
    return OwnGrids(
        tasks=found,
        grids=canvas,
        names=[grid.name for grid in fitting],
        sides=[(grid.grid.shape[0], grid.grid.shape[1]) for grid in fitting],
        splits=[grid.split for grid in fitting],
        # Equal grids of two tasks do not join these: small ones are equal by chance.
        groups=np.array([number.setdefault(grid.task, len(number)) for grid in fitting]),
        retained_rows=np.unique(copies) if source.duplicates == "drop" else np.arange(len(fitting)),
        larger=larger,
    )
