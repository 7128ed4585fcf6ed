"""ARC tasks as people exchange them: JSON files of tasks, lists of pairs, text, integer arrays.

One file per task, one file of many tasks (Kaggle's challenges and solutions), a bare list of pairs
(RE-ARC), rows of digits or |012|345|. All inputs and outputs are grids of colours 0 to 9 of at most
30 x 30.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.params.sections import MAX_GRID
from genlab.core.picture import UnreadablePictureError
from genlab.datasets.readers.files import Files
from genlab.datasets.readers.split_names import ALL, SPLIT_WORDS
from genlab.grids.palette import COLOURS

Grid = npt.NDArray[np.uint8]

JSON_SUFFIXES = (".json",)
SUFFIXES = (*JSON_SUFFIXES, ".txt")
SPLITS = {**SPLIT_WORDS, "evaluation": "test", "eval": "test"}


class TaskGrid(NamedTuple):
    """A grid: cells (height, width), its task, its name, and its official split or ALL."""

    cells: Grid
    task: str
    name: str
    split: str


@dataclass
class Tasks:
    """Grids of the tasks of one source. unreadable: a line per grid or file that is left out."""

    path: Path
    convention: str
    grids: list[TaskGrid] = field(default_factory=list)
    left_out: dict[str, list[str]] = field(default_factory=dict)
    unreadable: list[str] = field(default_factory=list)


class GridFault(ValueError):  # noqa: N818 - it is counted rather than raised
    """A grid that cannot be read; the message says why."""


def parse_rows(rows: Any) -> Grid:
    """Make a grid of rows of whole numbers. Raises GridFault, naming row and value."""
    if not isinstance(rows, list) or not rows or not all(isinstance(r, list) and r for r in rows):
        raise GridFault("is no list of rows")
    width = len(rows[0])
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise GridFault(f"row {number} has {len(row)} cells, row 1 has {width}")
        for cell in row:
            if type(cell) is not int or not 0 <= cell < COLOURS:
                raise GridFault(f"row {number} holds {json.dumps(cell)[:20]}; colours are 0 to 9")
    if max(len(rows), width) > MAX_GRID:
        raise GridFault(f"has {len(rows)} x {width} cells, more than {MAX_GRID} x {MAX_GRID}")
    return np.array(rows, dtype=np.uint8)


def parse_text(text: str) -> Iterator[list[list[int]]]:
    """Parse grids of rows of digits; an empty line ends one, and bars end rows: |012|345|.

    Raises GridFault for anything else.
    """
    rows: list[list[int]] = []
    for line in [*text.splitlines(), ""]:
        content = line.strip().strip("|").strip()
        if not content and rows:
            yield rows
            rows = []
        for row in content.split("|") if content else ():
            foreign = re.search(r"[^0-9\s,;]", row)
            if foreign:
                raise GridFault(f"row {len(rows) + 1} holds {foreign[0]!r}; colours are 0 to 9")
            rows.append([int(cell) for cell in re.findall(r"[0-9]", row)])


def find_grids(content: Any, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (task, name, rows) of the grids of a JSON file. Raises GridFault for other content."""
    stem = PurePosixPath(name).stem
    if isinstance(content, dict) and {"train", "test"} & content.keys():
        yield from _list_task(content, stem)
    elif isinstance(content, dict) and content:
        for task, entry in content.items():
            if isinstance(entry, dict):
                yield from _list_task(entry, task)
            elif isinstance(entry, list):  # Kaggle's solutions: grids in the order of the tests
                for number, rows in enumerate(entry):
                    yield task, f"{task} solution {number}", rows
            else:
                raise GridFault(f"key {task[:40]!r} is no task")
    elif isinstance(content, list) and content:
        if _is_rows(content):
            yield stem, stem, content
        elif all(isinstance(pair, dict) and "input" in pair for pair in content):
            yield from _list_pairs(content, stem, "pair")
        elif all(isinstance(task, dict) for task in content):
            for number, task in enumerate(content):
                yield from _list_task(task, str(task.get("id", f"{stem}[{number}]")))
        else:
            for number, rows in enumerate(content):
                yield f"{stem}[{number}]", f"{stem}[{number}]", rows
    else:
        raise GridFault("holds no tasks")


def _is_rows(content: Sequence[Any]) -> bool:
    """Whether a list is itself a grid."""
    return isinstance(content[0], list) and bool(content[0]) and type(content[0][0]) is int


def _list_task(task: Mapping[str, Any], name: str) -> Iterator[tuple[str, str, Any]]:
    if not {"train", "test"} & task.keys():
        raise GridFault(f"task {name} has neither train nor test")
    for role in ("train", "test"):
        pairs = task.get(role) or []
        if not isinstance(pairs, list):
            raise GridFault(f"{role} of task {name} is no list of pairs")
        yield from _list_pairs(pairs, name, role)


def _list_pairs(pairs: Sequence[Any], task: str, role: str) -> Iterator[tuple[str, str, Any]]:
    for number, pair in enumerate(pairs):
        if not isinstance(pair, dict):
            raise GridFault(f"{role} {number} of task {task} is no pair")
        for side in ("input", "output"):
            if pair.get(side):  # the output of a test may be absent, null or empty
                yield task, f"{task} {role} {number} {side}", pair[side]


def read_file(data: bytes, name: str) -> Iterator[tuple[str, str, Any]]:
    """Yield (task, name, rows) of a file's grids.

    Raises GridFault, and ValueError for data that are no text or no JSON.
    """
    text = data.decode("utf-8-sig")
    if name.lower().endswith(JSON_SUFFIXES):
        yield from find_grids(json.loads(text), name)
        return
    stem = PurePosixPath(name).stem
    for number, rows in enumerate(parse_text(text)):
        yield f"{stem}[{number}]", f"{stem}[{number}]", rows


def find_task_split(name: str) -> str:
    """Return the split that a folder or a word of a file's name means, ALL where none does."""
    path = PurePosixPath(name)
    for word in [*path.parts[:-1], *re.split(r"[-_. ]", path.stem)]:
        if word.lower() in SPLITS:
            return SPLITS[word.lower()]
    return ALL


def read_tasks(files: Files) -> Tasks:
    """Read all task files of a folder or an archive; other files are left out and named.

    Splits are official where every file's path names one. Raises GenlabError where there is no grid
    at all.
    """
    task_files = [name for name in files.names if name.lower().endswith(SUFFIXES)]
    tasks = Tasks(files.path, "ARC tasks")
    splits = {name: find_task_split(name) for name in task_files}
    official = bool(task_files) and all(splits.values())
    for name in task_files:
        split = splits[name] if official else ALL
        try:
            for task, grid_name, rows in read_file(files.read(name), name):
                try:
                    cells = parse_rows(rows)
                except GridFault as fault:
                    tasks.unreadable.append(f"{name}: {grid_name} {fault}")
                    continue
                tasks.grids.append(TaskGrid(cells, task, grid_name, split))
        # Of text, of JSON, of what it holds, of the archive.
        except (ValueError, RecursionError, OSError, UnreadablePictureError) as error:
            tasks.unreadable.append(f"{name}: {' '.join(str(error).split())[:160]}")
    others = sorted(set(files.names) - set(task_files))
    left_out = {"debris of systems and tools": files.debris, "no tasks": others}
    tasks.left_out = {reason: names for reason, names in left_out.items() if names}
    if not tasks.grids:
        first = f": {tasks.unreadable[0]}" if tasks.unreadable else ""
        raise GenlabError(f"{files.path}: holds no grids of ARC tasks{first}", path=files.path)
    return tasks


def read_grid_array(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> Tasks:
    """Read grids of integer arrays (n, height, width), by split; each grid is its own task.

    Raises GenlabError for other shapes and for values that are no colours.
    """
    tasks = Tasks(path, "an array of grids")
    for split, array in arrays.items():
        fits = array.ndim == 3 and array.dtype.kind in "ui" and max(array.shape[1:]) <= MAX_GRID
        if not fits or not array.size or array.min() < 0 or array.max() >= COLOURS:
            content = f"{array.dtype} {array.shape}"
            rule = f"grids are whole numbers 0 to 9, (n, height, width) up to {MAX_GRID}"
            raise GenlabError(f"{path}: {rule}, got {content}", path=path)
        for row, cells in enumerate(array.astype(np.uint8)):
            name = f"{split or 'grids'}[{row}]"
            tasks.grids.append(TaskGrid(cells, name, name, split))
    return tasks
