"""Focal loss and class weights, which tilt the loss of grids and fade towards beta 1."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from genlab.distributions.likelihoods import Categorical
from genlab.vae.training.objective import balance_classes, focal_nll, gate_kl_weight, weight_kl

frequencies = st.lists(st.integers(0, 1000), min_size=2, max_size=10).filter(any)


def _logits() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(5, 10, 4, 4, generator=generator, dtype=torch.float64)
    return logits, torch.randint(0, 10, (5, 4, 4), generator=generator)


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0, 2.0])
def test_focal_follows_its_definition(gamma: float) -> None:
    logits, x = _logits()
    weights = torch.linspace(0.2, 2.0, 10, dtype=torch.float64)
    p = logits.softmax(1).gather(1, x[:, None])[:, 0]
    expected = (-weights[x] * (1 - p) ** gamma * p.log()).sum((1, 2))
    torch.testing.assert_close(focal_nll(logits, x, gamma, weights), expected)
    plain = focal_nll(logits, x, 0.0, torch.ones(10, dtype=torch.float64))
    torch.testing.assert_close(plain, -Categorical(10).log_prob(logits, x))


@pytest.mark.parametrize("gamma", [0.25, 1.0, 2.0])
@pytest.mark.parametrize("certainty", [20.0, 1e4])
def test_the_focal_gradient_stays_finite_where_the_model_is_certain(
    gamma: float, certainty: float
) -> None:
    logits = torch.zeros(1, 10, 2, 2)
    logits[:, 3] = certainty
    logits.requires_grad_()
    for colour in (3, 4):
        nll = focal_nll(logits, torch.full((1, 2, 2), colour), gamma, torch.ones(10)).sum()
        assert torch.autograd.grad(nll, logits)[0].isfinite().all()


@settings(deadline=None)
@given(frequencies, st.floats(0, 1))
def test_class_weights_have_a_frequency_weighted_mean_of_one(
    counts: list[int], exponent: float
) -> None:
    shares = torch.tensor(counts, dtype=torch.float64)
    shares = shares / shares.sum()
    weights = balance_classes(shares, exponent)
    assert float((weights * shares).sum()) == pytest.approx(1.0, rel=1e-9)
    assert weights.isfinite().all()
    torch.testing.assert_close(balance_classes(shares, 0.0), torch.ones_like(weights))


def test_rarer_colours_weigh_more_and_an_absent_one_as_much_as_the_rarest() -> None:
    weights = balance_classes(torch.tensor([0.9, 0.09, 0.01, 0.0]), 0.5)
    assert float(weights[2] / weights[1]) == pytest.approx(3.0, rel=1e-5)
    assert weights[0] < weights[1] < weights[2] == weights[3]
    with pytest.raises(ValueError, match="at least one colour"):
        balance_classes(torch.zeros(10), 0.5)


@pytest.mark.parametrize(("kl", "counted", "gate"), [(1.0, 3.0, 0.0), (5.0, 5.0, 0.5)])
def test_a_kl_below_the_free_nats_counts_as_them_and_does_not_move_the_encoder(
    kl: float, counted: float, gate: float
) -> None:
    mean_kl = torch.tensor(kl)
    weight = torch.tensor(0.5)
    assert weight_kl(mean_kl, weight, free_nats=3.0) == 0.5 * counted
    assert gate_kl_weight(mean_kl, weight, free_nats=3.0) == gate
