"""Split a dataset into train, val and test, and count duplicates across the splits."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError

Indices = npt.NDArray[np.int64]

SPLITS = ("train", "val", "test")
EXAMPLES = 64
"""Maximum number of training items on a data sheet."""
MIN_TEST_TO_COMPARE = 2000
"""Test images below which Fréchet distance, precision and recall depend on their number."""
MIN_TEST_FOR_FAILURES = 500
"""Test items below which the analysis of failures finds only strong effects."""
MIN_VAL_TO_CHOOSE = 200
"""Validation items below which the choice of checkpoint and sampler depends on the split."""


@dataclass(frozen=True, eq=False)
class SplitSummary:
    """The outcome of a split, for data.json and its data sheet.

    counts: number of items per split. facts: the content of data.json. examples: some training
    items, uint8 (n, ...). captions: the numbers that the data sheet shows beside them.
    """

    counts: dict[str, int]
    facts: dict[str, Any]
    examples: npt.NDArray[np.uint8]
    captions: dict[str, Any]


def split_indices(count: int, val_share: float, test_share: float, seed: int) -> dict[str, Indices]:
    """Cut a random permutation of 0..count-1 into train, val and test.

    val and test hold their share of `count`, rounded to whole items; train holds the rest. Raises a
    GenlabError where a split would be empty.
    """
    val = round(count * val_share)
    test = round(count * test_share)
    train = max(0, count - val - test)
    order = np.random.default_rng(seed).permutation(count)
    pieces = np.split(order, [train, train + val])
    return _require_filled(dict(zip(SPLITS, pieces, strict=True)), count, "grids")


def split_groups(groups: Indices, shares: Mapping[str, float], seed: int) -> dict[str, Indices]:
    """Split items so that no group is in two splits: `train`, then the names of `shares`.

    Items stay in their order. The groups (int64 (n,)) are put in random order and cut where the
    shares of n end; a group that lies on a cut goes to the later split, what remains to train. If
    every item is its own group, shares are exact to the item. A group of more than a tenth of the
    smallest share goes to train, so that the other splits hold many groups. Raises a GenlabError
    where a split would be empty.
    """
    _, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = np.random.default_rng(seed).permutation(len(sizes))
    large = sizes[order] > max(1.0, 0.1 * len(groups) * min(shares.values()))
    order = np.concatenate([order[~large], order[large]])
    ends = np.empty(len(sizes), dtype=np.int64)
    ends[order] = np.cumsum(sizes[order])
    edges = np.cumsum([round(len(groups) * share) for share in shares.values()])
    split_index = np.searchsorted(edges, ends[group])
    splits = {"train": np.flatnonzero(split_index == len(edges))}
    for index, name in enumerate(shares):
        splits[name] = np.flatnonzero(split_index == index)
    return _require_filled(splits, len(groups), "images")


def assign_splits(
    official: Indices, groups: Indices, shares: Mapping[str, float], seed: int
) -> dict[str, Indices]:
    """Choose the items of each split, where all, some or none have an official one.

    official: an index into SPLITS per item, -1 where it has none. A split without items is drawn
    from train and the items that have none, by its share of them; see `split_groups`.
    """
    rows = {split: np.flatnonzero(official == index) for index, split in enumerate(SPLITS)}
    pool = np.sort(np.concatenate([rows["train"], np.flatnonzero(official < 0)]))
    missing = {split: share for split, share in shares.items() if not len(rows[split])}
    if not missing:
        return {**rows, "train": pool}
    drawn = split_groups(groups[pool], missing, seed)
    return {**rows, **{split: pool[chosen] for split, chosen in drawn.items()}}


def number_splits(names: Sequence[str]) -> Indices:
    """Convert names of official splits to indices into SPLITS, -1 for any other: int64 (n,)."""
    number = {split: index for index, split in enumerate(SPLITS)}
    return np.array([number.get(name, -1) for name in names], dtype=np.int64)


def describe_limits(counts: Mapping[str, int], items: str) -> list[str]:
    """Describe which figures splits of these sizes are too small for, a sentence each."""
    test = counts["test"]
    val = counts["val"]
    limits = []
    if items == "images" and test < MIN_TEST_TO_COMPARE:
        limits.append(
            f"With {test} test images the Fréchet distance, precision and recall depend on their"
            " number: compare them among runs on this very split alone (less so from"
            f" {MIN_TEST_TO_COMPARE} on)."
        )
    if test < MIN_TEST_FOR_FAILURES:
        limits.append(
            f"Of {test} test {items}, hypotheses about failures find strong effects alone, and a"
            f" share of 1 % is {test / 100:.1f} of them: the near-duplicate rate says little."
        )
    if val < MIN_VAL_TO_CHOOSE:
        limits.append(
            f"{val} validation {items} choose checkpoint, sampler and temperature: another split"
            " may choose others."
        )
    return limits


def _require_filled(splits: dict[str, Indices], count: int, section: str) -> dict[str, Indices]:
    """Return the splits. Raises a GenlabError where one is empty."""
    for name, items in splits.items():
        if not len(items):
            raise GenlabError(
                f"split {name} would hold 0 of {count} items: use more items, or change"
                f" {section}.val_share or {section}.test_share in params.yaml",
                key=f"{section}.val_share",
                path="params.yaml",
            )
    return splits


def count_duplicates(splits: Mapping[str, Sequence[bytes]]) -> dict[str, int]:
    """Count duplicates among items, each represented by its bytes or their hash.

    Returns the surplus copies inside each split and, under `A_in_B`, how many items of A are also
    in B.
    """
    distinct = {name: set(items) for name, items in splits.items()}
    inside = {name: len(items) - len(distinct[name]) for name, items in splits.items()}
    across = {
        f"{later}_in_{earlier}": sum(item in distinct[earlier] for item in splits[later])
        for earlier, later in combinations(splits, 2)
    }
    return {**inside, **across}
