"""Nearest training images, and what they say of copies."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from genlab.evaluation.metrics import duplicates as module
from genlab.evaluation.metrics.duplicates import memorisation, nearest

Images = npt.NDArray[np.uint8]


def _images(n: int, seed: int, side: int = 12, channels: int = 1) -> Images:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, side, side, channels), dtype=np.uint8)


def _squared(one: Images, other: Images) -> npt.NDArray[np.int64]:
    difference = one[:, None].astype(np.int64) - other[None]
    squares: npt.NDArray[np.int64] = (difference**2).reshape(len(one), len(other), -1).sum(2)
    return squares


@pytest.mark.parametrize("side", [12, 40])
def test_neighbours_of_images_are_those_of_a_plain_search(side: int) -> None:
    """Also where an image has more pixels than one exact slice."""
    queries, train = _images(20, 0, side), _images(70, 1, side)
    found, squares = nearest(queries, train), _squared(queries, train)
    assert found.indices.tolist() == squares.argmin(1).tolist()
    wanted = np.sqrt(squares.min(1) / queries[0].size) / 255
    assert found.distances == pytest.approx(wanted)
    assert not found.copies.any()


def test_chunks_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    queries, train = _images(20, 0), _images(70, 1)
    whole = nearest(queries, train)
    monkeypatch.setattr(module, "CHUNK", 16)
    found = nearest(queries, train)
    assert found.indices.tolist() == whole.indices.tolist()
    assert found.distances.tolist() == whole.distances.tolist()


def test_one_level_of_one_pixel_tells_a_neighbour_from_a_copy() -> None:
    """Bright images: float32 would lose this difference in the sum of their squares."""
    train = np.full((3, 64, 64, 3), 255, np.uint8)
    train[0, 0, 0, 0], train[1, 5, 5, 1], train[2, :9] = 253, 254, 0
    query = np.full((1, 64, 64, 3), 255, np.uint8)
    near = nearest(query, train)
    assert near.indices.tolist() == [1]
    assert near.distances == pytest.approx([1 / 255 / np.sqrt(64 * 64 * 3)])
    assert near.copies.tolist() == [False]
    assert nearest(train[1:2], train).copies.tolist() == [True]


def test_of_equally_near_images_the_first_is_named() -> None:
    train = np.concatenate([_images(5, 1), _images(5, 1)])
    assert nearest(_images(5, 1), train).indices.tolist() == [0, 1, 2, 3, 4]


def test_neighbours_of_features_are_euclidean() -> None:
    rng = np.random.default_rng(0)
    queries, train = rng.normal(size=(20, 5)), rng.normal(size=(70, 5)).astype(np.float32)
    apart = np.linalg.norm(queries[:, None] - train[None], axis=2)
    found = nearest(queries, train)
    assert found.indices.tolist() == apart.argmin(1).tolist()
    assert found.distances == pytest.approx(apart.min(1))


def test_training_images_may_stay_on_disk(tmp_path: Path) -> None:
    train = _images(70, 1)
    np.save(tmp_path / "train.npy", train)
    mapped = np.load(tmp_path / "train.npy", mmap_mode="r")
    assert isinstance(mapped, np.memmap)
    queries = _images(20, 0)
    assert nearest(queries, mapped).indices.tolist() == nearest(queries, train).indices.tolist()


def test_new_samples_of_the_same_source_are_no_duplicates() -> None:
    train = _images(400, 1)
    found = memorisation(nearest(_images(300, 2), train), nearest(_images(300, 3), train))
    interval = found["intervals"]["near_duplicate_rate"]
    assert interval["low"] < 0.01 < interval["high"]
    assert found["exact_duplicate_rate"] == found["held_out_exact_duplicate_rate"] == 0
    assert (found["n"], found["n_reference"]) == (300, 300)


def test_copies_and_near_copies_are_found() -> None:
    train = _images(400, 1)
    test = np.concatenate([_images(75, 3), train[100:125]])
    near = train[50:100] ^ 1  # every level off by one
    samples = np.concatenate([train[:25], near, _images(25, 2)])
    found = memorisation(nearest(samples, train), nearest(_images(100, 3), train))
    assert found["exact_duplicate_rate"] == 0.25
    assert found["near_duplicate_rate"] >= 0.75
    doubled = memorisation(nearest(samples, train), nearest(test, train))
    assert doubled["held_out_exact_duplicate_rate"] == 0.25
