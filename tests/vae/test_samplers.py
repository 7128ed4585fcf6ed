"""Samplers draw items of the model, by seed, from the distribution that they promise."""

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


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Densities that are fitted in a moment."""
    monkeypatch.setattr(densities, "PRINCIPAL", 3)
    monkeypatch.setattr(rejection, "CHUNK", 400)
    monkeypatch.setattr(rejection, "WIDTH", 8)
    monkeypatch.setattr(rejection, "HIDDEN", 8)


def _draw(model: VAE, name: str, count: int, seed: int = 0) -> np.ndarray[Any, Any]:
    train = IMAGES if model.architecture.channels else TRAIN
    return samplers.sample(model, samplers.fit(model, name, train, seed), count, seed)


@pytest.mark.parametrize(
    ("model", "name"),
    [
        (make(prior=prior), name)
        for make, prior in (
            (tiny.model, "standard"),
            (tiny.model, "autoregressive"),
            (tiny.image_model, "standard"),
            (tiny.image_model, "autoregressive_mixture"),
        )
        for name in samplers.list_names(make(prior=prior))
    ],
)
def test_samples_are_items_of_the_model_and_the_seed_decides_them(model: VAE, name: str) -> None:
    first = _draw(model, name, 5, seed=1)
    items = IMAGES if model.architecture.channels else TRAIN
    assert (first.shape, first.dtype) == ((5, *items.shape[1:]), np.uint8)
    assert first.max() < model.architecture.classes
    assert np.array_equal(first, _draw(model, name, 5, seed=1))
    assert not np.array_equal(first, _draw(model, name, 5, seed=2))


def test_sampling_from_all_samplers_equals_sampling_from_each() -> None:
    model = tiny.model().eval()
    fitted = {name: samplers.fit(model, name, TRAIN, 0) for name in samplers.list_names(model)}
    for name, grids in samplers.sample_all(model, fitted, 7, seed=3).items():
        assert np.array_equal(grids, samplers.sample(model, fitted[name], 7, 3))


class _OnGPU(torch.Tensor):
    """A stand-in for a tensor on a GPU: only `cpu` and `to` may read it."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in (torch.Tensor.cpu, torch.Tensor.to):
            raise RuntimeError("Expected all tensors to be on the same device")
        return super().__torch_function__(func, types, args, kwargs).as_subclass(torch.Tensor)


@pytest.mark.parametrize("name", ["prior", "rejection"])
def test_draws_of_a_prior_on_a_gpu_come_to_the_cpu(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny.image_model()
    expected = _draw(model, name, 5)
    sample = model.prior.sample
    monkeypatch.setattr(
        model.prior, "sample", lambda *options: sample(*options).as_subclass(_OnGPU)
    )
    assert np.array_equal(_draw(model, name, 5), expected)


def test_a_sampler_that_a_model_does_not_have_is_refused() -> None:
    with pytest.raises(GenlabError, match="prior, ancestral, got 'gmm'"):
        samplers.fit(tiny.model(), "gmm", TRAIN, seed=0)


def test_ancestral_sampling_follows_the_decoders_probabilities() -> None:
    model = tiny.model(prior="standard")
    with torch.no_grad():
        model.decoder.lift.weight.zero_()  # the same logits for every z
        shares = model.decode(torch.zeros(1, 32))[0].softmax(1)[0].permute(1, 2, 0).numpy()
    count = 4000
    grids = _draw(model, "ancestral", count)
    frequencies = np.stack([(grids == colour).mean(0) for colour in range(tiny.CLASSES)], axis=-1)
    error = np.sqrt(shares * (1 - shares) / count)
    assert (np.abs(frequencies - shares) < 5 * error + 1e-3).all()
    likeliest = _draw(model, "prior", 3)
    assert np.array_equal(likeliest, np.repeat(shares.argmax(-1)[None], 3, 0))


def test_posterior_draws_come_from_the_posteriors_of_training_items() -> None:
    model = tiny.image_model()
    mean, log_var = inference.encode(model, IMAGES[:1])
    sampler = samplers.fit(model, "posterior", IMAGES[:1], seed=0)
    z = samplers.draw_codes(sampler, 4000, seed=1).numpy()
    std = np.exp(0.5 * log_var[0])
    assert (np.abs(z.mean(0) - mean[0]) < 5 * std / np.sqrt(4000)).all()
    np.testing.assert_allclose(z.std(0), std, rtol=0.1)
    assert (np.abs(mean[0]) > std).any()  # so that another distribution would fail


def test_a_temperature_draws_the_pixels_of_the_same_codes_with_the_same_noise() -> None:
    model = tiny.image_model(causal_channels=4)
    sampler = samplers.fit(model, "prior", IMAGES, seed=0)
    z = samplers.draw_codes(sampler, 7, seed=3)
    point = samplers.decode(model, z, 3)
    warm = samplers.decode(model, z, 3, 1.0)
    cold = samplers.decode(model, z, 3, 1e-3)
    assert np.array_equal(point, samplers.sample(model, sampler, 7, 3))
    assert np.array_equal(warm, samplers.sample(model, sampler, 7, 3, temperature=1.0))
    ancestral = samplers.fit(model, "ancestral", IMAGES, seed=0)
    assert np.array_equal(warm, samplers.sample(model, ancestral, 7, 3))
    assert not np.array_equal(warm, point)
    # Nearly all noise gone: another seed gives nearly the same pixels.
    assert np.abs(cold - samplers.decode(model, z, 4, 1e-3).astype(int)).mean() < 1
    assert np.abs(warm - samplers.decode(model, z, 4, 1.0).astype(int)).mean() > 5


def test_batches_are_decoded_independently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samplers, "BATCH", 3)
    model = tiny.image_model(causal_channels=4)
    z = samplers.draw_codes(samplers.fit(model, "prior", IMAGES, seed=0), 7, seed=3)
    batches = [samplers.decode(model, z[i : i + 3], 5 + i, 0.8) for i in (0, 3, 6)]
    np.testing.assert_array_equal(np.concatenate(batches), samplers.decode(model, z, 5, 0.8))


def test_a_mixture_is_fitted_to_draws_from_the_posteriors() -> None:
    model = tiny.image_model(prior="standard")
    mean, log_var = inference.encode(model, IMAGES)
    sampler = samplers.fit(model, "gmm", IMAGES, seed=0)
    z = sampler.draw(20_000, torch.Generator().manual_seed(0)).numpy()
    spread = np.cov(mean.T).trace() + np.exp(log_var).mean(0).sum()
    assert z.var(0).sum() == pytest.approx(spread, rel=0.1)
    assert np.cov(mean.T).trace() < 0.8 * spread  # so that the means alone would fail
    assert sampler.facts["components"] >= 1
