"""The feature classifier: what it learns, and that training is reproducible."""

import numpy as np
import numpy.typing as npt
import pytest
import tiny
import torch

from genlab.evaluation.metrics.features import FEATURES, Classifier, train_classifier

Images = npt.NDArray[np.uint8]
SIDE = 16


def _corners(n: int, seed: int, colour: tuple[int, ...]) -> Images:
    """Noisy images with one bright corner, always the same: a turn moves it."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 90, (n, SIDE, SIDE, len(colour)), dtype=np.uint8)
    images[:, 1:7, 1:5] = colour
    return images


def _distance(classifier: Classifier, images: Images, others: Images) -> float:
    """Distance of the mean features of two sets, in standard deviations of the first."""
    features = classifier.features(images)
    difference = features.mean(0) - classifier.features(others).mean(0)
    return float(np.linalg.norm(difference) / np.linalg.norm(features.std(0)))


def test_it_learns_labels() -> None:
    classifier = train_classifier(tiny.images(400), tiny.image_labels(400), seed=0, examples=4000)
    images = tiny.images(200, seed=1)
    labels = tiny.image_labels(200)
    assert classifier.task == "labels"
    assert classifier.accuracy(images, labels) > 0.95
    assert _distance(classifier, images[labels == 0], images[labels == 1]) > 1


def test_without_labels_it_learns_which_way_is_up_and_colours() -> None:
    red = (250, 20, 20)
    blue = (20, 20, 250)
    both = np.concatenate([_corners(200, 0, red), _corners(200, 1, blue)])
    classifier = train_classifier(both, None, seed=0, examples=1600)
    images = _corners(100, 2, red)
    assert classifier.task == "rotation"
    assert classifier.accuracy(images, np.zeros(100, np.int64)) > 0.95
    assert _distance(classifier, images, _corners(100, 2, blue)) > 1


def test_the_same_seed_gives_the_same_weights_and_leaves_torchs_generator_alone() -> None:
    images = tiny.images(64)
    labels = tiny.image_labels(64)
    first = train_classifier(images, labels, seed=3, examples=256)
    torch.rand(7)
    state = torch.random.get_rng_state()
    second = train_classifier(images, labels, seed=3, examples=256)
    assert torch.equal(torch.random.get_rng_state(), state)
    another_seed = train_classifier(images, labels, seed=4, examples=256)
    assert first.digest == second.digest != another_seed.digest


@pytest.mark.parametrize(("side", "channels"), [(8, 1), (28, 1), (32, 3), (64, 3)])
def test_every_side_of_the_data_sets_gives_as_many_features(side: int, channels: int) -> None:
    images = np.zeros((3, side, side, channels), np.uint8)
    assert Classifier(side, channels, 10).eval().features(images).shape == (3, FEATURES)
