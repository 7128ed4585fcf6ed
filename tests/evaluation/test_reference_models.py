"""Models without a network against what is known of their codes and projections."""

import numpy as np
import pytest
import tiny

from genlab.evaluation.metrics import reference_models
from genlab.evaluation.metrics.reference_models import ContextTable, context_model_bits, pca_ssim


def test_four_equal_levels_take_two_bits_and_a_constant_none() -> None:
    noise = np.random.default_rng(0).integers(0, 4, (400, 32, 32, 1), dtype=np.uint8) * 64
    assert context_model_bits(noise[:300], noise[300:]) == pytest.approx(2, abs=0.01)
    assert context_model_bits(noise[:300] * 0 + 7, noise[300:] * 0 + 7) < 1e-3


def test_a_pixel_is_predicted_from_its_neighbours_alone() -> None:
    # Rows of one level each: every pixel but the first of a row repeats the one to its left.
    levels = np.random.default_rng(0).integers(0, 32, (500, 16, 1, 3), dtype=np.uint8) * 8
    images = np.broadcast_to(levels, (500, 16, 16, 3))
    for turned in (images, images.transpose(0, 2, 1, 3)):
        table = ContextTable(turned[:400], 5)
        assert table.bits_per_dim(turned[400:], 10) == pytest.approx(5 / 16, abs=0.15)


def test_the_probabilities_of_a_context_sum_to_one() -> None:
    images = np.zeros((1, 1, 1, 1), dtype=np.uint8)
    every = np.arange(256, dtype=np.uint8).reshape(256, 1, 1, 1)
    bits = [context_model_bits(images, every[i : i + 1]) for i in range(256)]
    assert np.sum(2.0 ** -np.array(bits)) == pytest.approx(1)


def test_more_components_than_the_data_has_reproduce_it(monkeypatch: pytest.MonkeyPatch) -> None:
    train = tiny.images(200)
    test = tiny.images(50, seed=1)
    few = pca_ssim(train, test)
    monkeypatch.setattr(reference_models, "PCA_COMPONENTS", 1)
    assert pca_ssim(train, test) < few < 1
    two = train[:2]  # which one component tells apart
    assert pca_ssim(two, two) == pytest.approx(1, abs=1e-3)
