"""The data, split by split: what is in it, what a filter lets through, what an item is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from genlab.datasets.arc_grids import OBJECTS_FILE, find_data_file, load_objects, load_split
from genlab.datasets.images import load_images, load_labels
from genlab.datasets.manifests import MANIFEST_FILE, split_command
from genlab.evaluation.reports.formats import words
from genlab.grids.palette import COLOUR_NAMES
from genlab.grids.shapes import KINDS
from genlab.web import shapes
from genlab.web.components.files import Missing, fresh, json_at

Items = npt.NDArray[np.uint8]
Indices = npt.NDArray[np.int64]
Row = dict[str, object]

SPLITS = ("train", "val", "test")
BRIGHTNESS_BINS = 16


@dataclass(frozen=True, eq=False)
class Grids:
    """A split of grids, uint8 (n, size, size), and its table of objects, sorted by grid."""

    grids: Items
    objects: npt.NDArray[np.void]

    def __len__(self) -> int:
        return len(self.grids)

    @property
    def counts(self) -> Indices:
        """Objects of each grid, (n,)."""
        return np.bincount(self.objects["grid"], minlength=len(self.grids))

    def of(self, index: int) -> npt.NDArray[np.void]:
        """The objects of one grid."""
        low, high = np.searchsorted(self.objects["grid"], (index, index + 1))
        return self.objects[low:high]


@dataclass(frozen=True, eq=False)
class Images:
    """A split of images, uint8 (n, height, width, channels), mapped, with names of the labels."""

    images: Items
    labels: Indices
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.images)


def grids_of(folder: Path, split: str) -> Grids:
    """A split of the grid dataset in `folder`.

    Raises Missing where the folder is not there, a GenlabError where a file of it is broken.
    """
    _require(folder)
    file = find_data_file(folder)
    return Grids(_grids(file, split), _objects(folder / OBJECTS_FILE, split))


def images_of(folder: Path, split: str) -> Images:
    """A split of the image dataset in `folder`; raises as `grids_of` does."""
    _require(folder)
    manifest = json_at(
        folder / MANIFEST_FILE, shapes.Manifest, producer_command=split_command(folder)
    )
    return Images(
        load_images(folder, split),
        _labels(folder / "labels.npz", split),
        tuple(manifest["labels"]),
    )


def choose_grids(
    data: Grids,
    kinds: Sequence[str] = (),
    colours: Sequence[str] = (),
    objects: tuple[int, int] | None = None,
) -> Indices:
    """Grids in which one object is of one of `kinds` and of one of `colours`, (m,).

    An empty sequence lets all through; objects: least and greatest number of objects.
    """
    fits = np.ones(len(data.objects), dtype=np.bool_)
    if kinds:
        fits &= np.isin(data.objects["kind"], [KINDS.index(kind) for kind in kinds])
    if colours:
        fits &= np.isin(data.objects["colour"], [COLOUR_NAMES.index(name) for name in colours])
    chosen = np.ones(len(data), dtype=np.bool_)
    if kinds or colours:
        chosen = np.bincount(data.objects["grid"][fits], minlength=len(data)) > 0
    if objects is not None:
        chosen &= (objects[0] <= data.counts) & (data.counts <= objects[1])
    return np.flatnonzero(chosen)


def choose_images(data: Images, classes: Sequence[str] = ()) -> Indices:
    """Images of one of `classes`, (m,); all where none is named."""
    if not classes:
        return np.arange(len(data))
    return np.flatnonzero(np.isin(data.labels, [data.names.index(name) for name in classes]))


def page_of(chosen: Indices, page: int, size: int) -> Indices:
    """The items of page 1, 2, ... of `size` each; the last page where `page` lies beyond it."""
    last = max(1, -(-len(chosen) // size))
    start = (min(max(page, 1), last) - 1) * size
    return chosen[start : start + size]


def describe_grid(data: Grids, index: int) -> str:
    """A grid in words, for those who don't see it."""
    found = [f"{COLOUR_NAMES[o['colour']]} {words(KINDS[o['kind']])}" for o in data.of(index)]
    return f"grid {index}: {', '.join(found) or 'no object'}"


def to_text(grid: Items) -> str:
    """A grid as rows of digits, to be copied."""
    return "\n".join("".join(map(str, row)) for row in grid.tolist())


def object_rows(objects: npt.NDArray[np.void]) -> list[Row]:
    """Objects as rows of a table: kind, colour, place, size, cells."""
    return [
        {
            "name": words(KINDS[each["kind"]]),
            "colour": f"{COLOUR_NAMES[each['colour']]} ({each['colour']})",
            "place": f"{each['row']}, {each['col']}",
            "size": f"{each['height']} × {each['width']}",
            "cells": int(each["cells"]),
        }
        for each in objects
    ]


def grid_shares(data: Grids, chosen: Indices) -> dict[str, dict[str, float]]:
    """Distributions over the chosen grids: shares by kind, colour, objects a grid, cells."""
    member = np.zeros(len(data), dtype=np.bool_)
    member[chosen] = True
    objects = data.objects[member[data.objects["grid"]]]
    return {
        "shape kind": _shares(objects["kind"], [words(kind) for kind in KINDS]),
        "colour": _shares(objects["colour"] - 1, list(COLOUR_NAMES[1:])),
        "objects a grid": _counted(data.counts[chosen]),
        "cells an object": _counted(objects["cells"]),
    }


def image_shares(data: Images, chosen: Indices) -> dict[str, dict[str, float]]:
    """Distributions over the chosen images: shares by class and by mean brightness."""
    some = chosen[:: max(1, len(chosen) // 2000)]
    means = np.array([float(data.images[i].mean()) for i in some])
    edges = np.linspace(0, 255, BRIGHTNESS_BINS + 1)
    counts = np.histogram(means, edges)[0] / max(1, len(some))
    middles = [f"{(low + high) / 2:.0f}" for low, high in pairwise(edges)]
    return {
        "class": _shares(data.labels[chosen], list(data.names)),
        "mean brightness, 0 to 255": dict(zip(middles, counts.tolist(), strict=True)),
    }


def _shares(values: npt.NDArray[np.integer], names: list[str]) -> dict[str, float]:
    counts = np.bincount(values, minlength=len(names))
    return dict(zip(names, (counts / max(1, counts.sum())).tolist(), strict=True))


def _counted(values: npt.NDArray[np.integer]) -> dict[str, float]:
    found, counts = np.unique(values, return_counts=True)
    return {str(v): float(c / counts.sum()) for v, c in zip(found, counts, strict=True)}


def _require(folder: Path) -> None:
    if not folder.is_dir():
        raise Missing(f"{folder} is not there yet", "make repro")


@fresh(keep=6)
def _grids(file: Path, split: str) -> Items:
    return load_split(file, split)


@fresh(keep=6)
def _objects(file: Path, split: str) -> npt.NDArray[np.void]:
    return load_objects(file.parent, split)


@fresh(keep=6)
def _labels(file: Path, split: str) -> Indices:
    return load_labels(file.parent, split)
