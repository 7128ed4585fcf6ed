"""Training descends the ELBO at beta 1, gradients go where they should; the ELBO is a bound."""

import math

import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from genlab.distributions.likelihoods import Categorical
from genlab.vae.models.vae import VAE
from genlab.vae.training.objective import balance_classes, focal_nll, training_loss
from genlab.vae.training.update import Updates

PRIORS = ["standard", "autoregressive", "autoregressive_mixture"]
GRIDS = tiny.grids(6)
NOISE = torch.randn(6, 32, generator=torch.Generator().manual_seed(5))
Loss = tuple[Tensor, dict[str, Tensor]]
frequencies = st.lists(st.integers(0, 1000), min_size=2, max_size=10).filter(any)


def _loss(model: VAE, beta: float, free_nats: float = 0.0) -> Loss:
    """The training loss with focal loss and class weights, which fade towards beta 1."""
    asked = {"prior": model.architecture.prior, "beta_max": beta, "free_bits": free_nats / 32}
    asked |= {"focal_gamma": 2.0, "class_balance_exponent": 0.5}
    update = Updates(tiny.params(**asked), tiny.task(GRIDS, **asked), torch.device("cpu"))
    x = torch.from_numpy(GRIDS)
    surrogate, losses, *_ = update.loss_of(model, x, NOISE, torch.ones(len(x)), beta)
    return surrogate, losses


@pytest.mark.parametrize("prior", PRIORS)
def test_at_beta_1_loss_and_gradients_are_those_of_the_negative_elbo(prior: str) -> None:
    model = tiny.model(prior=prior)
    weights = list(model.parameters())
    surrogate, losses = _loss(model, 1.0)
    neg_elbo = sum(model.elbo_terms(torch.from_numpy(GRIDS), NOISE)).mean()
    torch.testing.assert_close(losses["loss"], neg_elbo.detach())
    found, expected = (
        torch.autograd.grad(loss, weights, materialize_grads=True) for loss in (surrogate, neg_elbo)
    )
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_the_encoder_feels_beta_times_the_kl_and_nothing_of_what_is_free(
    prior: str, beta: float
) -> None:
    model = tiny.model(prior=prior)
    encoder, learned = list(model.encoder.parameters()), list(model.prior.parameters())

    def gradients(free_nats: float) -> tuple[list[Tensor], list[Tensor]]:
        surrogate, _ = _loss(model, beta, free_nats)
        found = torch.autograd.grad(surrogate, [*encoder, *learned], materialize_grads=True)
        return list(found[: len(encoder)]), list(found[len(encoder) :])

    kl = float(_loss(model, beta)[1]["kl_divergence"])
    assert kl > 0
    plain, over, under = (gradients(free) for free in (0.0, 0.5 * kl, 2 * kl))
    torch.testing.assert_close(over, plain)  # above the budget it is as if there was none
    torch.testing.assert_close(under[1], plain[1])  # the prior learns on, at full strength
    same = [torch.allclose(a, b) for a, b in zip(under[0], plain[0], strict=True)]
    assert all(same) if beta == 0 else not any(same)


@pytest.mark.parametrize(
    ("free_nats", "beta", "gate", "loss"),
    [
        (3.1, 1.0, 0.0, 2.5 + 3.1),  # 1 + 2 nats on average: below, whatever its tokens hold
        (2.9, 1.0, 1.0, 2.5 + 3.0),
        (2.9, 0.3, 0.3, 2.5 + 0.9),
        (0.0, 1.0, 1.0, 2.5 + 3.0),
    ],
)
def test_a_code_pays_for_all_of_its_kl_or_for_nothing(
    free_nats: float, beta: float, gate: float, loss: float
) -> None:
    kl = torch.tensor([[0.5, 1.0, 0.0], [1.5, 3.0, 0.0]], requires_grad=True)
    found_gate = torch.full((), math.nan)
    options = {"beta": beta, "free_nats": free_nats, "gate": found_gate}
    surrogate, losses = training_loss(torch.tensor([2.0, 3.0]), kl, clean=torch.ones(2), **options)
    assert float(found_gate) == pytest.approx(gate)
    assert float(losses["loss"]) == pytest.approx(loss)
    assert float(losses["kl_divergence"]) == pytest.approx(3.0)  # what is reported is all of it
    assert torch.autograd.grad(surrogate, kl)[0].unique().tolist() == [0.5]


def test_a_corrupted_item_is_reconstructed_and_its_code_is_free() -> None:
    kl = torch.tensor([[0.5, 1.0], [70.0, 3.0]], requires_grad=True)
    nll = torch.tensor([2.0, 4.0], requires_grad=True)
    gate = torch.zeros(())
    surrogate, losses = training_loss(
        nll, kl, clean=torch.tensor([1.0, 0.0]), beta=1.0, free_nats=0.0, gate=gate
    )
    assert float(losses["kl_divergence"]) == 1.5
    assert float(losses["reconstruction_loss"]) == 3.0
    assert float(losses["loss"]) == 0.5 * (2.0 + 1.5) + 0.5 * 4.0
    of_nll, of_kl = torch.autograd.grad(surrogate, [nll, kl])
    assert of_nll.tolist() == [0.5, 0.5]
    assert of_kl.tolist() == [[1.0, 1.0], [0.0, 0.0]]  # the prior's gradient
    assert (of_kl * gate).tolist() == [[0.5, 0.5], [0.0, 0.0]]  # the encoder's


# -- focal loss and class weights


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
