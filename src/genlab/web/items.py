"""Items of a dataset: splits, filters, samples with their nearest neighbours, pasted grids."""

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
from genlab.web.files import cache_by_file, open_json, require

Items = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]


EVALUATE = "dvc repro evaluate"
EVIDENCE = {
    "grids": ("predicted", "samples", "arc", "arc_predicted"),
    "own_grids": ("predicted", "samples", "sample_nearest", "sample_errors"),
    "images": ("predicted", "nats", "samples", "sample_nearest", "sample_errors"),
}
LARGE = 8  # cached arrays of datasets; one of Fashion-MNIST takes 24 MB
MAX_TEXT = 40_000  # characters of a pasted text


@dataclass(frozen=True, eq=False)
class Split:
    """A split of a dataset: items (n, ...), and a table of their content.

    parts: a row per object of a grid (`item`, `kind`, `colour`, `row`, `col`, `height`, `width`,
    `cells`), per component of a user's grid (`item`, `colour`, `cells`), or per image (`item`,
    `class`).
    """

    items: Items
    parts: pd.DataFrame

    def __len__(self) -> int:
        return len(self.items)

    @property
    def is_grids(self) -> bool:
        """Whether the items are grids rather than images."""
        return self.items.ndim == 3

    @property
    def counts(self) -> Indices:
        """Number of objects of each item, (n,)."""
        return np.bincount(self.parts["item"], minlength=len(self))

    def of(self, index: int) -> pd.DataFrame:
        """Return the rows of `parts` that belong to an item."""
        low, high = np.searchsorted(self.parts["item"], (index, index + 1))
        return self.parts.iloc[low:high]

    def describe(self, index: int) -> str:
        """Describe an item in words."""
        rows = self.of(index)
        if self.is_grids and "kind" not in rows:
            inside = self.items[index] != PADDING
            height = inside.any(axis=1).sum()
            width = inside.any(axis=0).sum()
            return f"{height} × {width}, {len(rows)} components"
        if self.is_grids:
            return ", ".join(rows["colour"].str.cat(rows["kind"], " ")) or "no object"
        return str(rows["class"].iloc[0])


_params = cache_by_file(load_params)


def find_dataset(root: Path, name: str) -> Dataset:
    """Return the description of a dataset of a project."""
    return _params(root / PARAMS_FILE).dataset(name)


def load_items(folder: Path, split: str) -> Split:
    """Load a split of the dataset in `folder`.

    Raises a GenlabError if the folder is missing or one of its files is broken.
    """
    require(folder)
    family = find_dataset(folder.parent.parent, folder.name).family
    if family == "own_grids":
        grids = _grids(find_data_file(folder), split)
        return Split(grids, tabulate_components(grids))
    if family == "grids":
        return Split(_grids(find_data_file(folder), split), _objects(folder / OBJECTS_FILE, split))
    with open_json(folder / MANIFEST_FILE, split_command(folder)):
        names = pd.Categorical.from_codes(*load_classes(folder, split))
    parts = pd.DataFrame({"item": np.arange(len(names)), "class": names})
    return Split(load_images(folder, split), parts)


@partial(cache_by_file, entries=LARGE)
def _objects(file: Path, split: str) -> pd.DataFrame:
    return tabulate(load_objects(file.parent, split))


def tabulate(objects: Objects) -> pd.DataFrame:
    """Return objects of grids as a table for `Split.parts`."""
    kinds = pd.Categorical.from_codes(objects["kind"], [to_words(kind) for kind in KINDS])
    colours = pd.Categorical.from_codes(objects["colour"], COLOUR_NAMES)
    numbers = {name: objects[name] for name in ("row", "col", "height", "width", "cells")}
    return pd.DataFrame({"item": objects["grid"], "kind": kinds, "colour": colours, **numbers})


def tabulate_components(grids: Items) -> pd.DataFrame:
    """Return components of a user's grids as a table for `Split.parts`, without kinds."""
    components = find_colour_components(grids)
    order = np.argsort(components.grid, kind="stable")
    colours = pd.Categorical.from_codes(components.colour[order], COLOUR_NAMES)
    return pd.DataFrame(
        {"item": components.grid[order], "colour": colours, "cells": components.cells[order]}
    )


_grids = cache_by_file(load_split, LARGE)


def choose_items(
    data: Split, values: Mapping[str, Sequence[str]], objects: Sequence[int] = ()
) -> Indices:
    """Filter items; returns their indices, (m,).

    values: accepted values by column of `parts`; an item passes if one of its parts has an accepted
    value in every column. objects: accepted numbers of objects. An empty sequence accepts all.
    """
    chosen = np.isin(data.counts, objects) if objects else np.ones(len(data), dtype=np.bool_)
    if any(values.values()):
        matches = np.ones(len(data.parts), dtype=np.bool_)
        for column, accepted in values.items():
            if accepted:
                matches &= data.parts[column].isin(accepted)
        chosen &= np.bincount(data.parts["item"][matches], minlength=len(data)) > 0
    return np.flatnonzero(chosen)


def read_evidence(root: Path, dataset: str) -> dict[str, npt.NDArray[Any]]:
    """Read the arrays of `evidence.npz`. Raises a GenlabError if the stage has not run yet."""
    path = root / "data" / "evaluated" / dataset / "evidence.npz"
    return _arrays(require(path, EVALUATE), EVIDENCE[find_dataset(root, dataset).family])


@partial(cache_by_file, entries=LARGE)
def _arrays(path: Path, keys: tuple[str, ...]) -> dict[str, npt.NDArray[Any]]:
    return read_npz(path, kind="evaluation", keys=keys, producer_command=EVALUATE)


def find_neighbours(root: Path, dataset: str, chosen: slice) -> list[tuple[Items, Items, str]]:
    """Return chosen samples with their nearest training items, and their distances in words.

    Grids are compared cell by cell here; images were compared by the stage in the features of a
    classifier.
    """
    evidence = read_evidence(root, dataset)
    samples = np.asarray(evidence["samples"][chosen], dtype=np.uint8)
    family = find_dataset(root, dataset).family
    if family != "grids":
        nearest = np.asarray(evidence["sample_nearest"][chosen], dtype=np.uint8)
        words = "{} cells differ" if family == "own_grids" else "distance {:.2f} in features"
        distances = [words.format(error) for error in evidence["sample_errors"][chosen]]
        return list(zip(samples, nearest, distances, strict=True))
    train = load_items(root / "data" / dataset, "train").items
    neighbours = []
    for sample in samples:
        index, cells = find_nearest_grid(sample, train)
        neighbours.append((sample, train[index], f"{cells} cells differ"))
    return neighbours


def find_nearest_grid(grid: Items, train: Items) -> tuple[int, int]:
    """Return index and number of differing cells of the grid in `train` nearest to `grid`.

    grid: (h, w); train: (n, h, w).
    """
    distances = np.count_nonzero(train != grid, axis=(1, 2))
    index = int(np.argmin(distances))
    return index, int(distances[index])


def format_grid(grid: Items) -> str:
    """Format a grid as rows of digits."""
    return "\n".join("".join(map(str, row)) for row in grid.tolist())


def parse_grid(text: str) -> Items:
    """Parse the first grid of a text: rows of digits, |012|345|, or the JSON rows of an ARC task.

    Raises a GenlabError of one line that names the row and its fault.
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
