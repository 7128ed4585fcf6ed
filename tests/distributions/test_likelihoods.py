"""log p(x | z) is a likelihood; the focal loss is one only where it is switched off."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from genlab.distributions.likelihoods import Categorical
from genlab.vae.training.objective import balance_classes, focal_nll

frequencies = st.lists(st.integers(0, 1000), min_size=2, max_size=10).filter(any)


def _case(classes: int = 10, batch: int = 5) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(batch, classes, 4, 4, generator=generator, dtype=torch.float64)
    x = torch.randint(0, classes, (batch, 4, 4), generator=generator)
    return logits, x


@given(st.lists(st.floats(-30, 30), min_size=6, max_size=6))
def test_the_likelihood_sums_to_one_over_all_grids_of_a_tiny_canvas(numbers: list[float]) -> None:
    everything = torch.tensor(list(itertools.product(range(3), repeat=2))).view(9, 1, 2)
    logits = torch.tensor(numbers, dtype=torch.float64).view(1, 3, 1, 2).expand(9, -1, -1, -1)
    total = Categorical(10).log_prob(logits, everything).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-9)


def test_the_likelihood_of_a_grid_is_the_sum_of_its_cells_in_nats() -> None:
    logits, x = _case()
    by_hand = logits.log_softmax(1).gather(1, x[:, None])[:, 0]
    torch.testing.assert_close(Categorical(10).cell_log_prob(logits, x), by_hand)
    torch.testing.assert_close(Categorical(10).log_prob(logits, x), by_hand.sum((1, 2)))


def test_uniform_logits_cost_log_ten_nats_a_cell() -> None:
    x = torch.arange(10, dtype=torch.uint8).view(1, 2, 5)
    nats = -Categorical(10).log_prob(torch.zeros(1, 10, 2, 5), x)
    assert float(nats) == pytest.approx(10 * 2.302585, rel=1e-6)


def test_focal_with_gamma_0_and_weights_of_one_is_the_negative_log_likelihood() -> None:
    logits, x = _case()
    focal = focal_nll(logits, x, 0.0, torch.ones(10, dtype=torch.float64))
    torch.testing.assert_close(focal, -Categorical(10).log_prob(logits, x))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_focal_follows_its_definition(gamma: float) -> None:
    logits, x = _case()
    weights = torch.linspace(0.2, 2.0, 10, dtype=torch.float64)
    p = logits.softmax(1).gather(1, x[:, None])[:, 0]
    expected = (-weights[x] * (1 - p) ** gamma * p.log()).sum((1, 2))
    torch.testing.assert_close(focal_nll(logits, x, gamma, weights), expected)


@pytest.mark.parametrize("gamma", [0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("certainty", [20.0, 200.0, 1e4])
def test_the_focal_gradient_stays_finite_where_the_model_is_certain(
    gamma: float, certainty: float
) -> None:
    logits = torch.zeros(1, 10, 2, 2)
    logits[:, 3] = certainty
    logits.requires_grad_()
    right, wrong = torch.full((1, 2, 2), 3), torch.full((1, 2, 2), 4)
    for x in (right, wrong):
        (gradient,) = torch.autograd.grad(focal_nll(logits, x, gamma, torch.ones(10)).sum(), logits)
        assert gradient.isfinite().all()


@settings(deadline=None)
@given(frequencies, st.floats(0, 1))
def test_class_weights_have_a_frequency_weighted_mean_of_one(
    counts: list[int], power: float
) -> None:
    shares = torch.tensor(counts, dtype=torch.float64)
    shares = shares / shares.sum()
    weights = balance_classes(shares, power)
    assert float((weights * shares).sum()) == pytest.approx(1.0, rel=1e-9)
    assert weights.isfinite().all()


@given(frequencies)
def test_power_0_gives_weights_of_one(counts: list[int]) -> None:
    shares = torch.tensor(counts, dtype=torch.float64)
    weights = balance_classes(shares / shares.sum(), 0.0)
    torch.testing.assert_close(weights, torch.ones_like(weights))


def test_rarer_colours_weigh_more_by_the_power_of_their_frequency() -> None:
    weights = balance_classes(torch.tensor([0.9, 0.09, 0.01]), 0.5)
    assert float(weights[2] / weights[1]) == pytest.approx(3.0, rel=1e-5)
    assert weights[0] < weights[1] < weights[2]


def test_a_colour_that_never_occurs_weighs_as_much_as_the_rarest_that_does() -> None:
    weights = balance_classes(torch.tensor([0.9, 0.1, 0.0]), 0.5)
    assert weights[2] == weights[1]


def test_weights_of_no_data_are_refused() -> None:
    with pytest.raises(ValueError, match="at least one colour"):
        balance_classes(torch.zeros(10), 0.5)
