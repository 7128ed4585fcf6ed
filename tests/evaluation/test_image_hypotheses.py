"""Attributes of images drawn by hand, and hypotheses that flag the quarter they name."""

from typing import Any

import numpy as np
import pytest

from genlab.evaluation.failures.image_hypotheses import (
    MEANING,
    class_means,
    image_hypotheses,
    measure_attributes,
)

NAMES = ("one", "two")


def _measure(image: np.ndarray) -> Any:
    return measure_attributes(image[None], np.zeros(1, int), image[None] / 255).iloc[0]


def _black() -> np.ndarray:
    return np.zeros((28, 28, 1), dtype=np.uint8)


def test_a_uniform_image_has_defined_attributes() -> None:
    expected = dict.fromkeys(("contrast", "fine_detail", "edges", "atypicality"), 0)
    expected |= {"brightness": 0.2, "symmetry": 1}
    assert _measure(_black() + np.uint8(51)).to_dict() == pytest.approx(expected, abs=1e-6)


def test_brightness_contrast_and_edges_of_a_square() -> None:
    image = _black()
    image[6:22, 6:22] = 255
    attributes = _measure(image)
    share = 256 / 784
    assert attributes["brightness"] == pytest.approx(share)
    assert attributes["contrast"] == pytest.approx(np.sqrt(share * (1 - share)), rel=1e-5)
    # One pixel on each side of the outline; corners may count inside and outside.
    assert 4 * 2 * 14 / 784 < attributes["edges"] <= 4 * 2 * 18 / 784


def test_fine_detail_is_the_share_of_high_frequencies() -> None:
    x = np.arange(28)
    waves = {cycles: np.cos(2 * np.pi * cycles * x / 28) for cycles in (3, 10)}
    for weight in (0.0, 0.5, 1.0):
        wave = np.sqrt(1 - weight) * waves[3] + np.sqrt(weight) * waves[10]
        image = np.rint(127 + 80 * wave).astype(np.uint8)[None, :, None].repeat(28, axis=0)
        assert _measure(image)["fine_detail"] == pytest.approx(weight, abs=0.01)


def test_symmetry_is_the_correlation_with_the_mirror_image() -> None:
    image = _black()
    image[3:9, 5:23] = 180
    assert _measure(image)["symmetry"] == pytest.approx(1)
    half = _black()
    half[:, 14:] = 255
    assert _measure(half)["symmetry"] == pytest.approx(-1)


def test_atypicality_is_the_distance_from_the_mean_of_the_class() -> None:
    images = np.stack([_black() + np.uint8(level) for level in (0, 102, 255, 255)])
    labels = np.array([0, 0, 1, 1])
    for centres, expected in (
        (class_means(images, labels, 2), [0.2, 0.2, 0, 0]),
        (np.zeros((2, 28, 28, 1)), [0, 0.4, 1, 1]),
    ):
        atypicality = measure_attributes(images, labels, centres)["atypicality"]
        assert atypicality.to_numpy() == pytest.approx(expected, abs=1e-6)
    empty = class_means(images, labels, 3)[2]  # the mean of all images
    assert empty == pytest.approx(0.6)


def test_every_attribute_is_explained() -> None:
    images = np.random.default_rng(0).integers(256, size=(3, 32, 32, 3), dtype=np.uint8)
    attributes = measure_attributes(images, np.array([0, 1, 0]), np.zeros((2, 32, 32, 3)))
    assert {*attributes, "train_distance"} == set(MEANING)
    assert len(attributes) == 3
    assert np.isfinite(attributes.to_numpy()).all()


def test_a_quarter_is_that_of_the_class_of_an_image() -> None:
    # The second class is brighter: the brightest quarter of all images would be in it alone.
    levels = np.concatenate([np.arange(40), 100 + np.arange(40)]).astype(np.uint8)
    images = np.broadcast_to(levels[:, None, None, None], (80, 28, 28, 1)).copy()
    labels = np.repeat([0, 1], 40)
    attributes = measure_attributes(images, labels, class_means(images, labels, 2))
    hypotheses = image_hypotheses(attributes, labels, NAMES)
    flags = {hypothesis.name: hypothesis.flags for hypothesis in hypotheses}
    for label in (0, 1):
        bright, dark = (np.flatnonzero(flags[n] & (labels == label)) for n in ("bright", "dark"))
        assert bright.tolist() == list(range(40 * label + 30, 40 * label + 40))
        assert dark.tolist() == list(range(40 * label, 40 * label + 10))
    assert np.array_equal(flags["class_two"], labels == 1)
    assert "far_from_training" not in flags
