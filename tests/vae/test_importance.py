"""Importance weights: bounds in the right order, an exact posterior, and threads."""

import numpy as np
import pytest
import tiny
import torch

from genlab.core.engine import torch_threads
from genlab.evaluation.metrics.likelihood import iwae
from genlab.vae.models.vae import VAE, Items
from genlab.vae.sampling import posterior
from genlab.vae.sampling.importance import log_importance_weights

Case = tuple[VAE, Items]


def test_the_importance_weighted_bound_is_above_the_elbo_and_grows(case: Case) -> None:
    model, items = case
    weights = log_importance_weights(model, items, 64, seed=0)
    assert np.array_equal(weights, log_importance_weights(model, items, 64, seed=0))
    means = [iwae(weights[:, :k]).mean() for k in (1, 8, 64)]
    assert means[0] < means[1] < means[2]
    elbo = -np.mean([np.sum(posterior.elbo_terms(model, items, seed), 0) for seed in range(5)])
    assert means[2] > elbo


def test_importance_weights_of_an_exact_posterior_do_not_vary() -> None:
    # A decoder that ignores z makes the posterior the prior; an encoder that returns the prior is
    # exact, and every weight is log p(x).
    model = tiny.model().eval()
    items = tiny.grids(30)
    prior = model.prior
    with torch.no_grad():
        model.decoder.lift.weight.zero_()
        model.encoder.head.weight.zero_()
        model.encoder.head.bias.zero_()
        _, log_var = model.encode(torch.from_numpy(items))
        prior.means.zero_()
        prior.class_logits[0] = 50.0  # nothing is occupied: the only class
        prior.variances.fill_(float(log_var[0, 0].exp()))
    log_p = -posterior.elbo_terms(model, items, 0)[0]
    weights = log_importance_weights(model, items, 5, seed=0)
    np.testing.assert_allclose(weights, np.repeat(log_p[:, None], 5, 1), atol=1e-2)


def test_weights_do_not_depend_on_the_number_of_threads(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(posterior, "BATCH", 8)
    model, items = case
    weights = []
    for threads in (1, 3):
        with torch_threads(threads):
            weights.append(log_importance_weights(model, items, 4, seed=0))
    np.testing.assert_array_equal(*weights)
