"""Share a data set out to train, val and test."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from genlab.core.console import GenlabError

Grids = npt.NDArray[np.uint8]
Objects = npt.NDArray[np.void]
Indices = npt.NDArray[np.int64]


def split_indices(count: int, val_share: float, test_share: float, seed: int) -> dict[str, Indices]:
    """Which items go where: a permutation of 0..count-1, cut into train, val and test.

    val and test hold their share of `count`, rounded to whole items; train holds the rest. Raises a
    GenlabError where a split would be empty.
    """
    val, test = round(count * val_share), round(count * test_share)
    train = count - val - test
    for name, items in (("train", train), ("val", val), ("test", test)):
        if items < 1:
            raise GenlabError(
                f"split {name} would hold {items} of {count} items with val_share {val_share:g} and"
                f" test_share {test_share:g}: raise count or change the shares in params.yaml"
            )
    order = np.random.default_rng(seed).permutation(count)
    parts = np.split(order, [train, train + val])
    return dict(zip(("train", "val", "test"), parts, strict=True))


def take_objects(objects: Objects, chosen: Indices, count: int) -> Objects:
    """The objects of the chosen grids of `count`, renumbered to their place in `chosen`.

    `objects` is OBJECT_DTYPE sorted by grid; so is the result, with each grid's own order kept.
    """
    number = np.bincount(objects["grid"], minlength=count)
    start = (np.cumsum(number) - number)[chosen]
    size = number[chosen]
    ends = np.cumsum(size)
    rows = np.arange(size.sum()) + np.repeat(start - (ends - size), size)
    table: Objects = objects[rows]
    table["grid"] = np.repeat(np.arange(len(chosen)), size)
    return table


def shared_grids(splits: Mapping[str, Grids]) -> int:
    """How many grids stand more than once in all splits together: 0 in a sound data set."""
    seen: set[bytes] = set()
    total = 0
    for grids in splits.values():
        seen.update(grid.tobytes() for grid in grids)
        total += len(grids)
    return total - len(seen)
