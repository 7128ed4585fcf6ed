"""The data sets that the pipeline knows, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from genlab.core.console import GenlabError
from genlab.datasets import arc_grids


@dataclass(frozen=True)
class Dataset:
    """One data set. `shape` is that of one item, `classes` the number of values of a cell.

    `generate(program, count, seed, workers)` makes items from nothing.
    """

    name: str
    title: str
    kind: Literal["grids", "images"]
    shape: tuple[int, ...]
    classes: int
    generate: Callable[..., Any]


DATASETS: dict[str, Dataset] = {
    "arc_grids": Dataset(
        name="arc_grids",
        title="Generated grids in the language of ARC: a few plain shapes on black",
        kind="grids",
        shape=(16, 16),
        classes=10,
        generate=arc_grids.make,
    ),
}


def dataset(name: str) -> Dataset:
    """The data set called `name`. Raises a GenlabError that lists the known ones."""
    if name not in DATASETS:
        known = ", ".join(sorted(DATASETS))
        raise GenlabError(f"no dataset is called {name!r}; known: {known} (option --dataset)")
    return DATASETS[name]
