"""Items of a dataset: its splits, filters, samples with their neighbours, pasted grids."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from genlab.core.errors import GenlabError
from genlab.core.io import read_npz
from genlab.core.params import PARAMS_FILE, load_params
from genlab.core.params.catalogue import Dataset
from genlab.datasets.arc_grids import OBJECTS_FILE, find_data_file, load_objects, load_split
from genlab.datasets.images import load_classes, load_images
from genlab.datasets.manifests import MANIFEST_FILE, split_command
from genlab.datasets.readers.conventions.tasks import GridFault, parse_rows, parse_text
from genlab.evaluation.metrics.own_grids import find_colour_components
from genlab.evaluation.reports.formats import to_words
from genlab.grids.palette import COLOUR_NAMES, PADDING
from genlab.grids.shapes import KINDS, Objects
from genlab.web.files import fresh, reading, require

Items = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
Wanted = Mapping[str, Sequence[str]]

EVALUATE = "dvc repro evaluate"
EVIDENCE = {
    "grids": ("predicted", "samples", "arc", "arc_predicted"),
    "own_grids": ("predicted", "samples", "sample_nearest", "sample_errors"),
    "images": ("predicted", "nats", "samples", "sample_nearest", "sample_errors"),
}
LARGE = 8  # arrays of a dataset that are kept in memory: 24 MB for a version of Fashion-MNIST's
MAX_TEXT = 40_000  # characters of a pasted text


@dataclass(frozen=True, eq=False)
class Split:
    """A split of a dataset: items (n, ...), and a table of what is in them.

    parts: a row per object of a grid (`item`, `kind`, `colour`, `row`, `col`, `height`, `width`,
    `cells`), per component of one's own grid (`item`, `colour`, `cells`), or per image (`item`,
    `class`).
    """

    items: Items
    parts: pd.DataFrame

    def __len__(self) -> int:
        return len(self.items)

    @property
    def is_grids(self) -> bool:
        """Whether the items are grids, not images."""
        return self.items.ndim == 3

    @property
    def counts(self) -> Indices:
        """Objects of each item, (n,)."""
        return np.bincount(self.parts["item"], minlength=len(self))

    def of(self, index: int) -> pd.DataFrame:
        """The rows of `parts` of one item."""
        low, high = np.searchsorted(self.parts["item"], (index, index + 1))
        return self.parts.iloc[low:high]

    def describe(self, index: int) -> str:
        """What an item shows, in words."""
        rows = self.of(index)
        if self.is_grids and "kind" not in rows:
            own = self.items[index] != PADDING
            height, width = own.any(axis=1).sum(), own.any(axis=0).sum()
            return f"{height} × {width}, {len(rows)} components"
        if self.is_grids:
            return ", ".join(rows["colour"].str.cat(rows["kind"], " ")) or "no object"
        return str(rows["class"].iloc[0])


_params = fresh(load_params)


def find_dataset(root: Path, name: str) -> Dataset:
    """What a dataset of a project states of itself."""
    return _params(root / PARAMS_FILE).dataset(name)


def load_items(folder: Path, split: str) -> Split:
    """A split of the dataset in `folder`.

    Raises a GenlabError where the folder is missing or a file of it is broken.
    """
    require(folder)
    family = find_dataset(folder.parent.parent, folder.name).family
    if family == "own_grids":
        grids = _grids(find_data_file(folder), split)
        return Split(grids, tabulate_components(grids))
    if family == "grids":
        return Split(_grids(find_data_file(folder), split), _objects(folder / OBJECTS_FILE, split))
    with reading(folder / MANIFEST_FILE, split_command(folder)):
        names = pd.Categorical.from_codes(*load_classes(folder, split))
    parts = pd.DataFrame({"item": np.arange(len(names)), "class": names})
    return Split(load_images(folder, split), parts)


@partial(fresh, entries=LARGE)
def _objects(file: Path, split: str) -> pd.DataFrame:
    return tabulate(load_objects(file.parent, split))


def tabulate(objects: Objects) -> pd.DataFrame:
    """Objects of grids as `Split.parts`."""
    kinds = pd.Categorical.from_codes(objects["kind"], [to_words(kind) for kind in KINDS])
    colours = pd.Categorical.from_codes(objects["colour"], COLOUR_NAMES)
    numbers = {name: objects[name] for name in ("row", "col", "height", "width", "cells")}
    return pd.DataFrame({"item": objects["grid"], "kind": kinds, "colour": colours, **numbers})


def tabulate_components(grids: Items) -> pd.DataFrame:
    """Components of grids of one's own as `Split.parts`, without kinds."""
    found = find_colour_components(grids)
    order = np.argsort(found.grid, kind="stable")
    colours = pd.Categorical.from_codes(found.colour[order], COLOUR_NAMES)
    parts = {"item": found.grid[order], "colour": colours, "cells": found.cells[order]}
    return pd.DataFrame(parts)


_grids = fresh(load_split, LARGE)


def choose_items(data: Split, wanted: Wanted, objects: Sequence[int] = ()) -> Indices:
    """Items with a part that has one of the `wanted` values in every column, (m,).

    wanted: values by column of `parts`. objects: numbers of objects. None lets all through.
    """
    chosen = np.isin(data.counts, objects) if objects else np.ones(len(data), dtype=np.bool_)
    if any(wanted.values()):
        fits = np.ones(len(data.parts), dtype=np.bool_)
        for column, values in wanted.items():
            fits &= data.parts[column].isin(values) if values else True
        chosen &= np.bincount(data.parts["item"][fits], minlength=len(data)) > 0
    return np.flatnonzero(chosen)


def read_evidence(root: Path, dataset: str) -> dict[str, npt.NDArray[Any]]:
    """The arrays of `evidence.npz`. Raises a GenlabError before the stage has run."""
    path = root / "data" / "evaluated" / dataset / "evidence.npz"
    return _arrays(require(path, EVALUATE), EVIDENCE[find_dataset(root, dataset).family])


@partial(fresh, entries=LARGE)
def _arrays(path: Path, keys: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    return read_npz(path, kind="evaluation", keys=keys, producer_command=EVALUATE)


def find_neighbours(root: Path, dataset: str, chosen: slice) -> list[tuple[Items, Items, str]]:
    """Chosen samples, each with its nearest training item and the distance between them in words.

    Grids are compared cell by cell, images by the stage in the features of a classifier.
    """
    found = read_evidence(root, dataset)
    samples = np.asarray(found["samples"][chosen], dtype=np.uint8)
    if (family := find_dataset(root, dataset).family) != "grids":
        nearest = np.asarray(found["sample_nearest"][chosen], dtype=np.uint8)
        words = "{} cells differ" if family == "own_grids" else "distance {:.2f} in features"
        said = [words.format(far) for far in found["sample_errors"][chosen]]
        return list(zip(samples, nearest, said, strict=True))
    train = load_items(root / "data" / dataset, "train").items
    pairs = [(sample, *nearest_grid(sample, train)) for sample in samples]
    return [(sample, train[index], f"{cells} cells differ") for sample, index, cells in pairs]


def nearest_grid(grid: Items, train: Items) -> tuple[int, int]:
    """(index, differing cells) of the grid of `train` (n, h, w) that differs least from `grid`."""
    distances = np.count_nonzero(train != grid, axis=(1, 2))
    index = int(np.argmin(distances))
    return index, int(distances[index])


def to_text(grid: Items) -> str:
    """A grid as rows of digits, to be copied."""
    return "\n".join("".join(map(str, row)) for row in grid.tolist())


def parse_grid(text: str) -> Items:
    """The first grid of a pasted text: rows of digits, |012|345|, or the JSON rows of an ARC task.

    Raises a GenlabError of one line that names the row and what stands there.
    """
    if len(text) > MAX_TEXT:
        raise GenlabError(f"the text has {len(text)} characters; at most {MAX_TEXT} are read")
    try:
        rows = json.loads(text) if text.lstrip().startswith("[") else next(parse_text(text), [])
        if not rows:
            raise GenlabError("the grid is empty; paste rows of digits, or rows in JSON: [[0, 1]]")
        return parse_rows(rows)
    except GridFault as fault:
        raise GenlabError(f"the grid: {fault}") from fault
    except (ValueError, RecursionError) as error:
        raise GenlabError(f"the text is not valid JSON ({error}); correct it") from error
