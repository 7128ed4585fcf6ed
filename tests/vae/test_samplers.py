"""Samplers make items of the right sort, by seed, and follow the distribution that they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tiny
import torch

from genlab.core.errors import GenlabError
from genlab.vae.models.vae import VAE
from genlab.vae.sampling import densities, rejection, samplers
from genlab.vae.sampling import posterior as inference

TRAIN = tiny.grids(60)
IMAGES = tiny.images(60)
ON_IMAGES = [
    (prior, name)
    for prior in ("standard", "autoregressive_mixture")
    for name in samplers.names(tiny.image_model(prior=prior))
]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Densities that are fitted in a moment."""
    monkeypatch.setattr(densities, "FLOW", {"width": 8, "depth": 2, "components": 2})
    monkeypatch.setattr(densities, "FLOW_STEPS", 3)
    monkeypatch.setattr(densities, "PRINCIPAL", 3)
    monkeypatch.setattr(rejection, "CHUNK", 400)
    monkeypatch.setattr(rejection, "WIDTH", 8)
    monkeypatch.setattr(rejection, "HIDDEN", 8)


def _draw(model: VAE, name: str, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    train = IMAGES if model.architecture.channels else TRAIN
    return samplers.sample(model, samplers.fit(model, name, train, seed), count, seed)


@pytest.mark.parametrize("prior", ["standard", "autoregressive"])
@pytest.mark.parametrize("name", samplers.OF_GRIDS)
def test_samples_are_grids_and_the_seed_decides_them(name: str, prior: str) -> None:
    model = tiny.model(prior=prior)
    first, again, other = (_draw(model, name, 13, seed) for seed in (1, 1, 2))
    assert first.shape == (13, tiny.SIZE, tiny.SIZE)
    assert first.dtype == np.uint8
    assert first.max() < tiny.CLASSES
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(("prior", "name"), ON_IMAGES)
def test_samples_are_images_and_the_seed_decides_them(name: str, prior: str) -> None:
    model = tiny.image_model(prior=prior)
    first, again, other = (_draw(model, name, 5, seed) for seed in (1, 1, 2))
    assert first.shape == (5, tiny.SIDE, tiny.SIDE, 1)
    assert first.dtype == np.uint8
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize(
    ("model", "known"),
    [
        (tiny.model, "prior, ancestral, gaussian, got 'flow'"),
        (tiny.image_model, "accepted, prior, ancestral, normal, gaussian, gmm, got 'flow'"),
    ],
)
def test_a_sampler_that_a_model_has_not_is_refused(model: Any, known: str) -> None:
    with pytest.raises(GenlabError, match=known):
        samplers.fit(model(), "flow", TRAIN, seed=0)


def test_ancestral_sampling_follows_the_decoders_probabilities() -> None:
    model = tiny.model(prior="standard")
    with torch.no_grad():
        model.decoder.lift.weight.zero_()  # the same logits for every z
        shares = model.decode(torch.zeros(1, 32))[0].softmax(1)[0].permute(1, 2, 0).numpy()
    count = 4000
    grids = _draw(model, "ancestral", count)
    found = np.stack([(grids == colour).mean(0) for colour in range(tiny.CLASSES)], axis=-1)
    error = np.sqrt(shares * (1 - shares) / count)
    assert (np.abs(found - shares) < 5 * error + 1e-3).all()
    likeliest = _draw(model, "prior", 3)
    assert np.array_equal(likeliest, np.repeat(shares.argmax(-1)[None], 3, 0))


def test_ancestral_images_have_the_pixels_noise_and_the_others_have_none() -> None:
    model = tiny.image_model(prior="standard", likelihood="gaussian")
    with torch.no_grad():
        for part in model.decoder.parameters():
            part.zero_()  # a mean of 0.5 for every z
        model.decoder.head.bias.fill_(0.5)
        model.likelihood.log_sigma.fill_(np.log(0.1))
    ancestral, plain = _draw(model, "ancestral", 20), _draw(model, "prior", 20)
    assert set(np.unique(plain)) == {128}
    assert ancestral.mean() / 255 == pytest.approx(0.5, abs=0.005)
    assert ancestral.std() / 255 == pytest.approx(0.1, abs=0.005)


@pytest.mark.parametrize("name", ["normal", "prior"])
def test_what_a_sampler_of_the_prior_draws_is_what_it_is_called(name: str) -> None:
    model = tiny.image_model(prior="autoregressive_mixture")
    sampler = samplers.fit(model, name, IMAGES, seed=0)
    z = sampler.draw(4000, torch.Generator().manual_seed(0))
    generator = torch.Generator().manual_seed(0)
    if name == "prior":
        assert torch.equal(z, model.prior.sample(4000, generator))
    else:
        assert float(z.mean(0).abs().max()) < 0.1
        assert float((z.std(0) - 1).abs().max()) < 0.1


def test_a_mixture_is_fitted_to_draws_from_the_posteriors_and_says_what_it_found() -> None:
    model = tiny.image_model(prior="standard")
    mean, log_var = inference.encode(model, IMAGES)
    sampler = samplers.fit(model, "gmm", IMAGES, seed=0)
    z = sampler.draw(20_000, torch.Generator().manual_seed(0)).numpy()
    spread = np.cov(mean.T).trace() + np.exp(log_var).mean(0).sum()
    assert z.var(0).sum() == pytest.approx(spread, rel=0.1)
    assert np.cov(mean.T).trace() < 0.8 * spread  # so that the means alone would be found out
    assert sampler.facts["components"] >= 1
