"""Share a data set out to train, val and test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.io import sha256, write_json, write_npz
from genlab.core.params import Params
from genlab.datasets.arc_grids import OBJECTS_FILE, OBJECTS_KIND, file_name, write_splits
from genlab.datasets.datasheet import describe, entropy_facts, picture_facts
from genlab.datasets.generated import read_generated
from genlab.grids.generator import take_objects

Grids = npt.NDArray[np.uint8]
Objects = npt.NDArray[np.void]
Indices = npt.NDArray[np.int64]

PICTURED = 64


@dataclass(frozen=True, eq=False)
class Shared:
    """What is to be said of a data set that was shared out: items a split, the content of
    data.json, some items of train, uint8 (n, ...), and what stands beside their picture.
    """

    counts: dict[str, int]
    facts: dict[str, Any]
    pictured: npt.NDArray[np.uint8]
    picture: dict[str, Any]


def share_grids(name: str, params: Params, folder: Path, data: Path, seed: int) -> Shared:
    """Share the grids of `folder` out, and write `data`; returns what is to be said of them.

    Writes simplified_dataset_COUNT.npz and objects.npz (keys train, val, test) and manifest.json.
    """
    made = read_generated(folder)
    count = len(made.grids)
    indices = split_indices(count, params.grids.val_share, params.grids.test_share, seed)
    splits = {split: made.grids[chosen] for split, chosen in indices.items()}
    tables = {split: take_objects(made.objects, chosen, count) for split, chosen in indices.items()}
    shared = shared_grids(splits)
    if shared:
        raise GenlabError(
            f"{made.folder}: {shared} grids stand twice; make it again with stages/generate.py"
        )
    facts: dict[str, Any] = {
        "count": count,
        "duplicates_dropped": made.manifest["duplicates_dropped"],
        "duplicates_across_splits": shared,
        **entropy_facts(tables["test"], made.program, len(splits["test"]), seed),
        "splits": {split: describe(splits[split], tables[split]) for split in splits},
    }
    file = data / file_name(count)
    write_splits(file, splits)
    write_npz(data / OBJECTS_FILE, tables, kind=OBJECTS_KIND)
    manifest: dict[str, Any] = {
        "kind": "split_grids",
        "dataset": name,
        "counts": {split: len(grids) for split, grids in splits.items()},
        "objects": {split: len(table) for split, table in tables.items()},
        "duplicates_across_splits": shared,
        "sha256": {path.name: sha256(path) for path in (file, data / OBJECTS_FILE)},
        "generated": made.manifest,
    }
    write_json(data / "manifest.json", manifest)
    return Shared(manifest["counts"], facts, splits["train"][:PICTURED], picture_facts(facts))


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


def split_groups(groups: Indices, shares: Mapping[str, float], seed: int) -> dict[str, Indices]:
    """Which items go where, in their order, with no group torn apart: `train`, then each of shares.

    The groups (int64 (n,)) are put in random order and cut where the shares of n end; a group that
    lies on a cut goes to the later split, what is left to train. Where every item is its own group,
    shares are exact to the item. A group of more than a tenth of the smallest of shares goes to
    train: the others are to stand for many groups. Raises a GenlabError where a split would be
    empty.
    """
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    large = sizes[order] > max(1.0, 0.1 * len(groups) * min(shares.values()))
    order = np.concatenate([order[~large], order[large]])
    ends = np.empty(len(sizes), dtype=np.int64)
    ends[order] = np.cumsum(sizes[order])
    edges = np.cumsum([round(len(groups) * share) for share in shares.values()])
    place = np.searchsorted(edges, ends[group])
    found = {"train": np.flatnonzero(place == len(edges))}
    found |= {name: np.flatnonzero(place == index) for index, name in enumerate(shares)}
    for name, items in found.items():
        if not len(items):
            raise GenlabError(
                f"split {name} would hold 0 of {len(groups)} items: change images.val_share or"
                " images.test_share in params.yaml"
            )
    return found


def shared_grids(splits: Mapping[str, Grids]) -> int:
    """How many grids stand more than once in all splits together: 0 in a sound data set."""
    seen: set[bytes] = set()
    total = 0
    for grids in splits.values():
        seen.update(grid.tobytes() for grid in grids)
        total += len(grids)
    return total - len(seen)
