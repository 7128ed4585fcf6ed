"""Nearest training images, and the rate of near copies."""

import numpy as np
import numpy.typing as npt
import pytest

from genlab.evaluation.metrics import duplicates as module
from genlab.evaluation.metrics.duplicates import find_nearest, measure_memorisation

Images = npt.NDArray[np.uint8]


def _images(n: int, seed: int, side: int = 12) -> Images:
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (n, side, side, 1), dtype=np.uint8)


@pytest.mark.parametrize("chunk", [16, 2048])
def test_neighbours_are_those_of_a_plain_search(
    chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", chunk)
    queries = _images(20, 0)
    train = _images(70, 1)
    differences = (queries[:, None].astype(float) - train[None]).reshape(20, 70, -1)
    indices, distances = find_nearest(queries, train)
    assert indices.tolist() == np.square(differences).sum(2).argmin(1).tolist()
    assert distances == pytest.approx(np.sqrt(np.square(differences).mean(2)).min(1) / 255)
    # Features have a Euclidean distance.
    indices, distances = find_nearest(queries.astype(np.float64), train.astype(np.float32))
    assert distances == pytest.approx(np.linalg.norm(differences, axis=2).min(1))


def test_one_level_of_one_pixel_tells_a_neighbour_from_a_copy() -> None:
    """Bright images: float32 would lose this difference in the sum of their squares."""
    train = np.full((3, 64, 64, 3), 255, np.uint8)
    train[0, 0, 0, 0] = 253
    train[1, 5, 5, 1] = 254
    train[2, :9] = 0
    query = np.full((1, 64, 64, 3), 255, np.uint8)
    indices, distances = find_nearest(np.concatenate([query, train[1:2]]), train)
    assert indices.tolist() == [1, 1]
    assert distances == pytest.approx([1 / 255 / np.sqrt(64 * 64 * 3), 0])
    assert distances[1] == 0


def test_of_equally_near_images_the_first_is_named() -> None:
    train = np.concatenate([_images(5, 1), _images(5, 1)])
    assert find_nearest(_images(5, 1), train)[0].tolist() == [0, 1, 2, 3, 4]


def test_copies_and_near_copies_are_distinguished_from_new_samples_of_the_same_source() -> None:
    train = _images(400, 1)
    held_out = find_nearest(_images(300, 3), train)[1]
    metrics = measure_memorisation(find_nearest(_images(300, 2), train)[1], held_out)
    interval = metrics["intervals"]["near_duplicate_rate"]
    assert interval["low"] < 0.01 < interval["high"]
    near = train[50:100] ^ 1  # every level off by one
    copies = find_nearest(np.concatenate([train[:25], near, _images(25, 2)]), train)[1]
    assert measure_memorisation(copies, held_out)["near_duplicate_rate"] >= 0.75
