"""The VAE's parts are counted, made by name, and add up to the ELBO."""

from __future__ import annotations

import tiny
import torch


def test_parameters_are_counted_by_part() -> None:
    model = tiny.model()
    counts = model.parameter_counts()
    assert set(counts) == {"encoder", "decoder", "prior"}
    assert sum(counts.values()) == sum(p.numel() for p in model.parameters())
    assert tiny.model(prior="standard").parameter_counts()["prior"] == 0


def test_the_bound_is_a_sum_of_its_terms_per_grid() -> None:
    x, noise = torch.from_numpy(tiny.grids(4)), torch.randn(4, 32)
    model = tiny.model()
    terms = model.elbo_terms(x, noise)
    assert terms.log_likelihood.shape == terms.kl.shape == (4,)
    assert (terms.log_likelihood < 0).all()
    torch.testing.assert_close(terms.neg_elbo, terms.kl - terms.log_likelihood)
    one = model.elbo_terms(x[1:2], noise[1:2])
    torch.testing.assert_close(terms.neg_elbo[1:2], one.neg_elbo, rtol=1e-4, atol=1e-3)
