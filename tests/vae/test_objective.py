"""The bound is a bound, training descends it at beta 1, and gradients go where they should."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.distributions import Normal, kl_divergence

from genlab.distributions.gaussian import kl_standard_normal, reparameterize
from genlab.vae.models.priors import CodebookPrior, Prior, StandardPrior
from genlab.vae.models.vae import VAE
from genlab.vae.training.objective import focal_nll, scale_gradient, training_loss

PRIORS = ["standard", "autoregressive"]


def token_kl(
    prior: Prior, mean: Tensor, log_var: Tensor, z: Tensor, encoder_gradient: Any = 1.0
) -> Tensor:
    """KL per token, with the encoder's gradient scaled as in training."""
    return prior.token_kl(*(scale_gradient(t, encoder_gradient) for t in (mean, log_var, z)))


def _normal_prior(latent_dim: int = 4) -> CodebookPrior:
    """An autoregressive prior that is N(0, I): one component, at 0, of scale 1, and one plan."""
    prior = tiny.stir(CodebookPrior(latent_dim, 4, width=8, depth=2, components=1).double())
    with torch.no_grad():
        prior.means.zero_()
        prior.variances.fill_(1.0)
        prior.class_logits[0] = 50.0
    return prior


def _leaves(rows: int, seed: int = 0) -> list[Tensor]:
    """mean, log_var, noise: (rows, 4) float64, the first two with a gradient."""
    generator = torch.Generator().manual_seed(seed)
    mean, log_var, noise = torch.randn(3, rows, 4, generator=generator, dtype=torch.float64)
    return [mean.requires_grad_(), log_var.requires_grad_(), noise]


# -- the KL


def test_the_closed_form_kl_is_that_of_torch_distributions() -> None:
    mean, log_var, _ = _leaves(50)
    expected = kl_divergence(Normal(mean, (0.5 * log_var).exp()), Normal(0.0, 1.0))
    torch.testing.assert_close(kl_standard_normal(mean, log_var), expected)


def test_the_kl_of_the_prior_from_itself_is_0() -> None:
    zero = torch.zeros(3, 4)
    assert not kl_standard_normal(zero, zero).any()


def test_the_one_sample_kl_is_unbiased() -> None:
    mean, log_var, _ = _leaves(1)
    draws = 20_000
    noise = torch.randn(draws, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    with torch.no_grad():
        means, log_vars = mean.expand(draws, 4), log_var.expand(draws, 4)
        z = reparameterize(means, log_vars, noise)
        samples = token_kl(_normal_prior(), means, log_vars, z)
        exact = kl_standard_normal(mean, log_var)[0]
    error = samples.std(0) / math.sqrt(draws)
    assert (error < 0.03).all()
    assert ((samples.mean(0) - exact).abs() < 5 * error).all()


def test_the_closed_form_does_not_depend_on_the_sample() -> None:
    mean, log_var, noise = _leaves(3)
    prior = StandardPrior(4)
    first, second = (
        token_kl(prior, mean, log_var, reparameterize(mean, log_var, n)) for n in (noise, -noise)
    )
    assert torch.equal(first, second)


# -- gradients


def test_gradients_through_the_reparameterisation_are_those_of_finite_differences() -> None:
    mean, log_var, noise = _leaves(2)

    def loss(mean: Tensor, log_var: Tensor) -> Tensor:
        return reparameterize(mean, log_var, noise).tanh().square().sum()

    assert torch.autograd.gradcheck(loss, (mean, log_var))


@pytest.mark.parametrize("name", PRIORS)
def test_gradients_of_the_kl_are_those_of_finite_differences(name: str) -> None:
    mean, log_var, noise = _leaves(2)
    prior = StandardPrior(4) if name == "standard" else _normal_prior()
    if isinstance(prior, CodebookPrior):
        tiny.stir(prior, seed=2)

    def loss(mean: Tensor, log_var: Tensor) -> Tensor:
        return token_kl(prior, mean, log_var, reparameterize(mean, log_var, noise)).sum()

    assert torch.autograd.gradcheck(loss, (mean, log_var))


def test_scaling_a_gradient_leaves_the_value_alone() -> None:
    x = torch.tensor([1.0, -2.0], requires_grad=True)
    y = scale_gradient(x, 0.25)
    assert torch.equal(y, x)
    assert torch.autograd.grad(y.square().sum(), x)[0].tolist() == [0.5, -1.0]


@pytest.mark.parametrize("name", PRIORS)
@pytest.mark.parametrize("beta", [0.0, 0.25, 1.0, 2.0])
def test_the_kl_pulls_the_encoder_times_beta_and_the_prior_times_one(
    name: str, beta: float
) -> None:
    mean, log_var, noise = _leaves(3)
    learned = CodebookPrior(4, 4, width=8, depth=2, components=3).double()
    prior = StandardPrior(4) if name == "standard" else tiny.stir(learned, seed=2)
    leaves = [mean, log_var, *prior.parameters()]

    def gradients(factor: float) -> tuple[Tensor, ...]:
        z = reparameterize(mean, log_var, noise)
        loss = token_kl(prior, mean, log_var, z, encoder_gradient=factor).sum()
        return torch.autograd.grad(loss, leaves, materialize_grads=True)

    full, scaled = gradients(1.0), gradients(beta)
    for index, (whole, part) in enumerate(zip(full, scaled, strict=True)):
        assert whole.any() or index > 1
        torch.testing.assert_close(part, (beta if index < 2 else 1.0) * whole)
    if name == "autoregressive":
        assert any(part.any() for part in scaled[2:])


def _objective(model: VAE, x: Tensor, noise: Tensor, beta: float, gamma: float, free: float = 0.0):
    mean, log_var = model.encode(x)
    z = reparameterize(mean, log_var, noise)
    gate = torch.ones(())
    return training_loss(
        _nll(model.decode(z), x, beta, gamma),
        token_kl(model.prior, mean, log_var, z, encoder_gradient=gate),
        beta=beta,
        free_nats=free,
        gate=gate,
    )


def _nll(out: Tensor, x: Tensor, beta: float, gamma: float) -> Tensor:
    """What reconstruction costs at this beta: focal loss and weights fade towards beta 1."""
    fade = max(0.0, 1.0 - beta)
    return focal_nll(out, x, gamma * fade, torch.linspace(0.3, 2.0, 10) ** fade)


def _case(prior: str) -> tuple[VAE, Tensor, Tensor]:
    model = tiny.model(prior=prior)
    x = torch.from_numpy(tiny.grids(6))
    noise = torch.randn(6, 32, generator=torch.Generator().manual_seed(5))
    return model, x, noise


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("gamma", [0.0, 2.0])
def test_at_beta_1_the_gradient_of_every_weight_is_that_of_the_negative_elbo(
    prior: str, gamma: float
) -> None:
    model, x, noise = _case(prior)
    weights = list(model.parameters())
    trained = torch.autograd.grad(_objective(model, x, noise, 1.0, gamma).surrogate, weights)
    bound = torch.autograd.grad(model.elbo_terms(x, noise).neg_elbo.mean(), weights)
    for a, b in zip(trained, bound, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("beta", [0.0, 0.5])
def test_below_beta_1_it_is_another(beta: float) -> None:
    model, x, noise = _case("autoregressive")
    weights = list(model.encoder.parameters())
    trained = torch.autograd.grad(_objective(model, x, noise, beta, 0.0).surrogate, weights)
    bound = torch.autograd.grad(model.elbo_terms(x, noise).neg_elbo.mean(), weights)
    assert not any(torch.allclose(a, b, rtol=1e-2) for a, b in zip(trained, bound, strict=True))


# -- the training loss


@pytest.mark.parametrize("prior", PRIORS)
@pytest.mark.parametrize("gamma", [0.0, 0.5, 2.0])
def test_at_beta_1_the_loss_is_the_negative_elbo(prior: str, gamma: float) -> None:
    model, x, noise = _case(prior)
    loss = _objective(model, x, noise, 1.0, gamma)
    torch.testing.assert_close(loss.loss, model.elbo_terms(x, noise).neg_elbo.mean().detach())


def test_past_beta_1_focal_and_weights_stay_off() -> None:
    model, x, noise = _case("autoregressive")
    elbo_terms = model.elbo_terms(x, noise)
    loss = _objective(model, x, noise, 3.0, 2.0)
    torch.testing.assert_close(
        loss.loss, (3.0 * elbo_terms.kl - elbo_terms.log_likelihood).mean().detach()
    )


def test_focal_and_weights_fade_on_the_way() -> None:
    model, x, noise = _case("autoregressive")
    nll = -model.elbo_terms(x, noise).log_likelihood.mean()
    gaps = [
        abs(float(_objective(model, x, noise, beta, 2.0).reconstruction - nll.detach()))
        for beta in (0.0, 0.5, 0.9, 1.0)
    ]
    assert gaps[0] > gaps[1] > gaps[2] > gaps[3]
    assert gaps[3] == pytest.approx(0.0, abs=1e-3)


def test_at_beta_0_the_kl_costs_nothing_and_does_not_move_the_encoder() -> None:
    model, x, noise = _case("autoregressive")
    loss = _objective(model, x, noise, 0.0, 2.0)
    assert torch.equal(loss.loss, loss.reconstruction)
    encoder = list(model.encoder.parameters())
    found = torch.autograd.grad(loss.surrogate, encoder, retain_graph=True)
    mean, log_var = model.encode(x)
    logits = model.decode(reparameterize(mean, log_var, noise))
    nll = _nll(logits, x, 0.0, 2.0)
    alone = training_loss(nll, torch.zeros(6, 16), beta=0.0, free_nats=0.0)
    for a, b in zip(found, torch.autograd.grad(alone.surrogate, encoder), strict=True):
        torch.testing.assert_close(a, b)


def _free(kl: Tensor, free_nats: float, beta: float = 1.0) -> Any:
    """The training loss of two items that cost 2 and 3 nats, and the gate that it set."""
    gate = torch.full((), math.nan)
    nll = torch.tensor([2.0, 3.0])[: len(kl)]
    loss = training_loss(nll, kl, beta=beta, free_nats=free_nats, gate=gate)
    return loss, gate


def test_a_code_below_the_free_nats_costs_nothing_more_and_shuts_the_gate() -> None:
    # 1 + 2 nats on average: the whole code is one group, whatever its tokens hold.
    kl = torch.tensor([[0.5, 1.0, 0.0], [1.5, 3.0, 0.0]])
    loss, gate = _free(kl, free_nats=3.1)
    assert float(gate) == 0.0
    smaller, _ = _free(kl * torch.tensor([0.2, 0.7, 1.0]), free_nats=3.1)
    assert torch.equal(loss.loss, smaller.loss)
    assert float(loss.loss) == pytest.approx(2.5 + 3.1)


@pytest.mark.parametrize("beta", [1.0, 0.3])
def test_a_code_above_the_free_nats_pays_for_all_of_it(beta: float) -> None:
    kl = torch.tensor([[0.5, 1.0, 0.0], [1.5, 3.0, 0.0]])
    loss, gate = _free(kl, free_nats=2.9, beta=beta)
    assert float(gate) == pytest.approx(beta)
    assert float(loss.loss) == pytest.approx(2.5 + beta * 3.0)


def test_without_free_nats_all_of_the_kl_is_paid() -> None:
    kl = torch.tensor([[0.1, 5.0], [0.7, -0.2]], requires_grad=True)
    loss, gate = _free(kl, free_nats=0.0)
    assert torch.autograd.grad(loss.surrogate, kl)[0].tolist() == [[0.5, 0.5], [0.5, 0.5]]
    assert float(loss.loss) == pytest.approx(2.5 + 2.8, rel=1e-6)
    assert float(gate) == 1.0


@pytest.mark.parametrize("beta", [1.0, 0.4])
def test_the_encoder_feels_beta_times_the_kl_and_nothing_of_what_is_free(beta: float) -> None:
    model, x, noise = _case("autoregressive")
    encoder, prior = list(model.encoder.parameters()), list(model.prior.parameters())
    plain = _objective(model, x, noise, beta, 0.0)
    free = _objective(model, x, noise, beta, 0.0, free=2 * float(plain.kl))
    paid = _objective(model, x, noise, beta, 0.0, free=0.5 * float(plain.kl))
    assert float(plain.kl) > 0
    mean, log_var = model.encode(x)
    nll = _nll(model.decode(reparameterize(mean, log_var, noise)), x, beta, 0.0).mean()
    alone = torch.autograd.grad(nll, encoder)
    for name, part in (("encoder", encoder), ("prior", prior)):
        without, under, over = (
            torch.autograd.grad(loss.surrogate, part, retain_graph=True)
            for loss in (plain, free, paid)
        )
        for a, b in zip(over, without, strict=True):  # above the budget it is as if there was none
            torch.testing.assert_close(a, b)
        # Below it the encoder hears of reconstruction alone; the prior learns on, at full strength.
        for a, b in zip(under, alone if name == "encoder" else without, strict=True):
            torch.testing.assert_close(a, b)
    paying = torch.autograd.grad(plain.surrogate, encoder)
    assert not any(torch.allclose(a, b) for a, b in zip(alone, paying, strict=True))


def test_free_nats_do_not_hide_the_kl_that_is_reported() -> None:
    kl = torch.tensor([[0.1, 0.2]])
    assert torch.equal(_free(kl, 1.0)[0].kl, _free(kl, 0.0)[0].kl)


# -- a model whose log p(x) is known: p(z) = N(0, 1), p(x|z) = N(w z, s^2), p(x) = N(0, w^2 + s^2)

W, S = 1.5, 0.7
# Gauss-Hermite nodes make the expectation over the noise exact for the quadratic log p(x|z).
NODES, NODE_WEIGHTS = (torch.from_numpy(a) for a in np.polynomial.hermite_e.hermegauss(8))


def _elbo(x: float, mean: Tensor, log_var: Tensor) -> Tensor:
    z = reparameterize(mean, log_var, NODES)
    weights = NODE_WEIGHTS / NODE_WEIGHTS.sum()
    expected = (weights * Normal(W * z, S).log_prob(torch.tensor(x, dtype=torch.float64))).sum()
    return expected - kl_standard_normal(mean, log_var).sum()


def _log_p(x: float) -> float:
    return float(
        Normal(0.0, torch.tensor(math.sqrt(W**2 + S**2), dtype=torch.float64)).log_prob(
            torch.tensor(x, dtype=torch.float64)
        )
    )


def _number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


@settings(deadline=None)
@given(st.floats(-5, 5), st.floats(-5, 5), st.floats(-8, 3))
def test_the_elbo_lies_below_the_known_log_p_for_any_posterior(
    x: float, mean: float, log_var: float
) -> None:
    assert float(_elbo(x, _number(mean), _number(log_var))) <= _log_p(x) + 1e-9


@pytest.mark.parametrize("x", [-2.0, 0.0, 3.5])
def test_the_elbo_meets_log_p_at_the_true_posterior(x: float) -> None:
    precision = 1 + W**2 / S**2
    mean, log_var = W * x / S**2 / precision, -math.log(precision)
    assert float(_elbo(x, _number(mean), _number(log_var))) == pytest.approx(_log_p(x), abs=1e-9)


def _descend(x: float) -> Iterator[float]:
    mean, log_var = _number(0.0).requires_grad_(), _number(0.0).requires_grad_()
    optimiser = torch.optim.LBFGS([mean, log_var], lr=0.5, max_iter=10)

    def closure() -> Tensor:
        optimiser.zero_grad()
        loss = -_elbo(x, mean, log_var)
        loss.backward()
        return loss

    for _ in range(20):
        yield -float(optimiser.step(closure).detach())


def test_ascending_the_elbo_finds_log_p() -> None:
    path = list(_descend(2.0))
    assert path[0] < _log_p(2.0) - 0.1
    assert path[-1] == pytest.approx(_log_p(2.0), abs=1e-6)
