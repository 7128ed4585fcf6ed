"""Arrays out of a model: shapes, determinism, and bounds in the right order."""

from __future__ import annotations

import numpy as np
import pytest
import tiny
import torch

from genlab.evaluation.metrics.likelihood import iwae
from genlab.vae.models.vae import VAE
from genlab.vae.sampling import posterior as inference

GRIDS = tiny.grids(30)


@pytest.fixture(params=["standard", "autoregressive"])
def model(request: pytest.FixtureRequest) -> VAE:
    return tiny.model(prior=request.param).eval()


def test_shapes_and_types(model: VAE) -> None:
    assert inference.reconstruct(model, GRIDS).shape == GRIDS.shape
    assert inference.reconstruct(model, GRIDS).dtype == np.uint8
    mean, log_var = inference.encode(model, GRIDS)
    assert mean.shape == log_var.shape == (30, 32)
    assert mean.dtype == log_var.dtype == np.float64
    reconstruction, kl = inference.elbo_terms(model, GRIDS, seed=0)
    assert reconstruction.shape == kl.shape == (30,)
    assert inference.log_importance_weights(model, GRIDS, 3, seed=0).shape == (30, 3)


def test_the_seed_decides_the_numbers(model: VAE) -> None:
    first, again, other = (inference.elbo_terms(model, GRIDS, seed)[0] for seed in (1, 1, 2))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)
    first, again, other = (
        inference.log_importance_weights(model, GRIDS, 3, seed) for seed in (1, 1, 2)
    )
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_batches_do_not_show_in_the_result(model: VAE, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = np.stack(inference.encode(model, GRIDS))
    bounds = np.stack(inference.elbo_terms(model, GRIDS, 0))
    monkeypatch.setattr(inference, "BATCH", 7)
    monkeypatch.setattr(inference._batches, "__defaults__", (7,))
    parts = np.stack(inference.encode(model, GRIDS))
    np.testing.assert_allclose(parts, whole, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.stack(inference.elbo_terms(model, GRIDS, 0)), bounds, rtol=1e-4)


def test_the_two_halves_are_those_of_the_models_bound(model: VAE) -> None:
    noise = torch.randn(30, 32, generator=torch.Generator().manual_seed(4))
    with torch.no_grad():
        elbo_terms = model.elbo_terms(torch.from_numpy(GRIDS), noise)
    reconstruction, kl = inference.elbo_terms(model, GRIDS, seed=4)
    np.testing.assert_allclose(reconstruction, -elbo_terms.log_likelihood.numpy(), rtol=1e-5)
    np.testing.assert_allclose(kl, elbo_terms.kl.numpy(), rtol=1e-4)
    assert (reconstruction > 0).all()


def test_one_importance_sample_is_a_sample_of_the_elbo() -> None:
    # Under the learned prior both are the same one-sample estimate, at other noise.
    model = tiny.model().eval()
    elbo = -np.sum(
        [np.sum(inference.elbo_terms(model, GRIDS, seed), axis=0) for seed in range(20)], 0
    )
    one = np.sum(
        [iwae(inference.log_importance_weights(model, GRIDS, 1, seed)) for seed in range(20, 40)], 0
    )
    gap = (one - elbo) / 20
    assert abs(gap.mean()) < 4 * gap.std() / len(gap) ** 0.5 + 0.02


def test_the_importance_weighted_bound_grows_with_its_samples(model: VAE) -> None:
    weights = inference.log_importance_weights(model, GRIDS, 64, seed=0)
    means = [iwae(weights[:, :k]).mean() for k in (1, 4, 16, 64)]
    assert means[0] < means[1] < means[2] < means[3]


def test_importance_weights_of_an_exact_posterior_do_not_vary() -> None:
    # A decoder blind to z makes the prior the posterior; an encoder that says so is exact, and then
    # every weight is log p(x).
    model = tiny.model().eval()
    prior = model.prior
    with torch.no_grad():
        model.decoder.lift.weight.zero_()
        model.encoder.head.weight.zero_()
        model.encoder.head.bias.zero_()
        _, log_var = model.encode(torch.from_numpy(GRIDS))
        prior.means.zero_()
        prior.class_logits[0] = 50.0  # all is ground: the only plan
        prior.variances.fill_(float(log_var[0, 0].exp()))
    log_p = -inference.elbo_terms(model, GRIDS, 0)[0]
    weights = inference.log_importance_weights(model, GRIDS, 5, seed=0)
    np.testing.assert_allclose(weights, np.repeat(log_p[:, None], 5, 1), atol=1e-2)
