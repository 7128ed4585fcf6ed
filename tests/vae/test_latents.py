"""Principal directions of codes, and interpolations between them."""

import numpy as np
import pytest
import tiny
import torch

from genlab.vae.models.vae import VAE, to_array
from genlab.vae.sampling import latents

RNG = np.random.default_rng(0)


def _decode(model: VAE, codes: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return to_array(model.point_estimate(torch.from_numpy(codes).float()))


def test_directions_are_those_of_most_variance() -> None:
    turn, _ = np.linalg.qr(RNG.normal(size=(5, 5)))
    std = np.array([3.0, 0.1, 2.0, 0.5, 1.0])
    codes = RNG.normal(size=(20_000, 5)) * std @ turn.T + 7.0
    rows, lengths = latents.principal_directions(codes, 3)
    assert rows.shape == (3, 5)
    np.testing.assert_allclose(lengths, [3.0, 2.0, 1.0], rtol=0.03)
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0)
    for row, expected in zip(rows, turn.T[[0, 2, 4]], strict=True):
        assert abs(row @ expected) == pytest.approx(1.0, abs=0.01)


def test_an_interpolation_goes_from_the_first_to_the_second_in_a_straight_line() -> None:
    model = tiny.image_model()
    first, second = RNG.normal(size=(2, 4, 49)) * 2
    items = latents.interpolate(model, first, second, 5)
    assert items.shape[:2] == (4, 5)
    assert np.array_equal(items[:, 0], _decode(model, first))
    assert np.array_equal(items[:, 4], _decode(model, second))
    assert np.array_equal(items[:, 1], _decode(model, 0.75 * first + 0.25 * second))
    assert not np.array_equal(items[:, 0], items[:, 4])
