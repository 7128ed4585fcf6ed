"""New grids: by name, by seed, and from the distribution that the name says."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import tiny
from genlab.vae import inference, samplers

TRAIN = tiny.grids(60)


@pytest.mark.parametrize("prior", ["standard", "autoregressive"])
@pytest.mark.parametrize("name", samplers.NAMES)
def test_samples_are_grids(name: str, prior: str) -> None:
    grids = samplers.sample(tiny.model(prior=prior), name, 13, TRAIN, seed=0)
    assert grids.shape == (13, tiny.SIZE, tiny.SIZE)
    assert grids.dtype == np.uint8
    assert grids.max() < tiny.CLASSES


@pytest.mark.parametrize("name", samplers.NAMES)
def test_the_seed_decides_the_samples(name: str) -> None:
    model = tiny.model()
    first, again, other = (samplers.sample(model, name, 8, TRAIN, seed) for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_an_unknown_sampler_is_refused_with_the_known_names() -> None:
    with pytest.raises(ValueError, match=r"prior, ancestral, gaussian.*'flow'"):
        samplers.sample(tiny.model(), "flow", 4, TRAIN, seed=0)


def test_any_number_of_samples_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "BATCH", 5)
    assert len(samplers.sample(tiny.model(), "prior", 12, TRAIN, seed=0)) == 12


def test_ancestral_sampling_follows_the_decoders_probabilities() -> None:
    model = tiny.model(prior="standard")
    with torch.no_grad():
        model.decoder.lift.weight.zero_()  # the same logits for every z
        shares = model.decode(torch.zeros(1, 32)).softmax(1)[0].permute(1, 2, 0).numpy()
    count = 4000
    grids = samplers.sample(model, "ancestral", count, TRAIN, seed=0)
    found = np.stack([(grids == colour).mean(0) for colour in range(tiny.CLASSES)], axis=-1)
    error = np.sqrt(shares * (1 - shares) / count)
    assert (np.abs(found - shares) < 5 * error + 1e-3).all()
    likeliest = samplers.sample(model, "prior", 3, TRAIN, seed=0)
    assert np.array_equal(likeliest, np.repeat(shares.argmax(-1)[None], 3, 0))


def test_the_gaussian_has_the_mean_and_covariance_of_the_codes() -> None:
    model = tiny.model(latent_dim=16)
    codes = inference.posterior_means(model, TRAIN)
    z = samplers._gaussian(model, TRAIN)(20_000, torch.Generator().manual_seed(0)).numpy()
    scale = np.cov(codes.T).trace()
    assert np.abs(z.mean(0) - codes.mean(0)).max() < 0.05 * scale**0.5
    np.testing.assert_allclose(np.cov(z.T), np.cov(codes.T), atol=0.05 * scale)


def test_more_latents_than_training_grids_is_no_fault() -> None:
    grids = samplers.sample(tiny.model(latent_dim=64), "gaussian", 5, TRAIN[:10], seed=0)
    assert len(grids) == 5
