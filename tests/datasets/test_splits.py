import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from refusals import refused

from genlab.core.errors import GenlabError
from genlab.datasets.splits import count_duplicates, split_groups, split_indices


@pytest.mark.parametrize(
    ("count", "sizes"),
    [(100_000, (80_000, 10_000, 10_000)), (2000, (1600, 200, 200)), (10, (8, 1, 1))],
)
def test_shares_are_exact_and_every_item_goes_to_one_split(count, sizes):
    indices = split_indices(count, 0.1, 0.1, seed=0)
    assert tuple(len(items) for items in indices.values()) == sizes
    assert list(indices) == ["train", "val", "test"]
    assert np.array_equal(np.sort(np.concatenate(list(indices.values()))), np.arange(count))
    assert not np.array_equal(indices["train"], split_indices(count, 0.1, 0.1, seed=1)["train"])


@pytest.mark.parametrize(
    "split",
    [
        lambda: split_indices(100, 0.0, 0.1, seed=0),
        lambda: split_indices(100, 0.5, 0.5, seed=0),
        lambda: split_groups(np.zeros(50, dtype=np.int64), {"val": 0.1}, 0),
    ],
)
def test_an_empty_split_is_refused(split):
    with refused(0, path="params.yaml"):
        split()


@given(st.lists(st.integers(0, 60), min_size=100, max_size=300), st.integers(0, 2**31 - 1))
def test_no_group_is_in_two_splits_and_every_item_in_one(labels, seed):
    groups = np.array(labels)
    try:
        splits = split_groups(groups, {"val": 0.2, "test": 0.2}, seed)
    except GenlabError:
        return  # a split would be empty: tested apart
    assert np.array_equal(np.sort(np.concatenate(list(splits.values()))), np.arange(len(groups)))
    assert sum(len(set(groups[items])) for items in splits.values()) == len(set(labels))


def test_items_without_groups_are_split_exactly_and_in_order():
    splits = split_groups(np.arange(60_000), {"val": 0.1}, seed=0)
    assert [len(splits[name]) for name in ("train", "val")] == [54_000, 6_000]
    assert (np.diff(splits["val"]) > 0).all()


def test_a_group_that_would_fill_a_split_goes_to_train():
    groups = np.concatenate([np.zeros(30, dtype=np.int64), np.arange(1, 271)])
    for seed in range(20):
        splits = split_groups(groups, {"val": 0.1, "test": 0.1}, seed)
        assert set(range(30)) <= set(splits["train"].tolist())


def test_duplicates_are_counted_inside_and_across_splits():
    duplicates = count_duplicates(
        {"train": [b"a", b"b", b"b", b"b"], "val": [b"c"], "test": [b"b", b"a", b"d"]}
    )
    expected = {"train": 2, "val": 0, "test": 0}
    assert duplicates == {**expected, "val_in_train": 0, "test_in_train": 2, "test_in_val": 0}
