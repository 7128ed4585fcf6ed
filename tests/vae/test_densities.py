"""A mixture fitted to codes: draws have the clusters and the moments of the codes."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch

from genlab.core.errors import GenlabError
from genlab.vae.sampling import densities
from genlab.vae.sampling.latents import DrawLatents

Floats = npt.NDArray[np.float64]


def _draw_codes(draw: DrawLatents, count: int) -> Floats:
    z = draw(count, torch.Generator().manual_seed(0))
    assert z.dtype == torch.float32
    return z.numpy().astype(np.float64)


def _clusters(count: int) -> Floats:
    """Three clusters in six dimensions, a half, a third and a sixth of the codes."""
    rng = np.random.default_rng(0)
    centres = np.array([[4.0, 0, 0, 0, 0, 0], [-4.0, 3, 0, 0, 0, 0], [0, -5.0, 2, 0, 0, 0]])
    owner = rng.choice(3, count, p=[1 / 2, 1 / 3, 1 / 6])
    scale = np.array([0.5, 0.3, 0.4])[owner, None]
    return centres[owner] + scale * rng.normal(size=(count, 6)) + 1.0


def _gmm(codes: Floats, *components: int) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(densities, "COMPONENTS", components)
        return densities.fit_gmm(codes, 0)


def test_a_mixture_finds_as_many_clusters_as_there_are() -> None:
    codes = _clusters(1500)
    draw, facts = _gmm(codes, 1, 2, 3, 6, 12)
    assert facts["components"] == 3
    z = _draw_codes(draw, 20_000)
    clusters = (([5, 1], 1 / 2, 0.5), ([-3, 4], 1 / 3, 0.3), ([1, -4], 1 / 6, 0.4))
    for centre, share, scale in clusters:
        inside = (np.abs(z[:, :2] - centre) < 5 * scale).all(1)
        assert inside.mean() == pytest.approx(share, abs=0.05)
        assert z[inside].std(0) == pytest.approx(np.full(6, scale), rel=0.1)


def test_directions_beyond_the_principal_ones_get_a_normal_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(densities, "PRINCIPAL", 2)
    codes = _clusters(1500)
    draw, facts = _gmm(codes, 1, 3)
    assert facts["components"] == 3
    z = _draw_codes(draw, 30_000)
    np.testing.assert_allclose(np.cov(z.T), np.cov(codes.T), atol=0.6)
    np.testing.assert_allclose(z.mean(0), codes.mean(0), atol=0.2)


def test_codes_that_no_mixture_fits_are_one_line() -> None:
    with pytest.raises(GenlabError, match="gmm: 1 components cannot be fitted to 16 codes"):
        _gmm(np.ones((20, 3)), 1)


def test_few_codes_get_few_components_instead_of_an_error() -> None:
    draw, facts = _gmm(_clusters(12), 1, 5, 10, 20)
    assert facts["components"] in (1, 5)
    assert np.isfinite(_draw_codes(draw, 20)).all()
