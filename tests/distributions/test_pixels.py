"""Likelihoods of images are probabilities, follow independent sources, and draw what they say."""

from __future__ import annotations

import math

import pytest
import tiny
import torch
from scipy.special import expit
from scipy.stats import logistic, norm
from torch.distributions import ContinuousBernoulli as TorchContinuousBernoulli

from genlab.distributions import likelihoods
from genlab.distributions.discretized_logistic import DiscretizedLogisticMixture
from genlab.vae.models.vae import make_likelihood

DISCRETE = ("gaussian", "gaussian_analytic", "discretized_logistic_mixture")


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _likelihood(name: str, channels: int = 1) -> likelihoods.ImageLikelihood:
    return (
        make_likelihood(tiny.image_architecture(likelihood=name, channels=channels)).double().eval()
    )


def _out(likelihood: likelihoods.ImageLikelihood, batch: int, side: int = 1) -> torch.Tensor:
    shape = (batch, likelihood.outputs, side, side)
    return torch.randn(shape, generator=_generator(), dtype=torch.float64)


@pytest.fixture(autouse=True)
def _double() -> object:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("scale", [0.0, 1.0, 4.0])
def test_a_discrete_likelihood_shares_out_one_to_256_levels(name: str, scale: float) -> None:
    likelihood = _likelihood(name)
    out = scale * _out(likelihood, 1).expand(256, -1, -1, -1)
    levels = torch.arange(256).view(256, 1, 1, 1).to(torch.uint8)
    assert float(likelihood.log_prob(out, levels).detach().exp().sum()) == pytest.approx(
        1.0, abs=1e-4
    )


def test_a_mixture_over_two_linked_channels_sums_to_one() -> None:
    likelihood = _likelihood("discretized_logistic_mixture", 2)
    out = _out(likelihood, 1).expand(256 * 256, -1, -1, -1)
    first, second = torch.meshgrid(torch.arange(256), torch.arange(256), indexing="ij")
    x = torch.stack([first, second], -1).view(-1, 2, 1, 1).to(torch.uint8)
    assert float(likelihood.log_prob(out, x).exp().sum()) == pytest.approx(1.0, abs=1e-4)


def test_the_gaussian_is_the_mass_of_scipys_normal() -> None:
    likelihood = _likelihood("gaussian")
    assert isinstance(likelihood, likelihoods.Gaussian)
    with torch.no_grad():
        likelihood.log_sigma.fill_(math.log(0.07))
    x = torch.tensor([0, 1, 90, 128, 254, 255], dtype=torch.uint8).view(6, 1, 1, 1)
    out = torch.tensor([0.1, 0.0, 0.3, 0.6, 0.9, 0.8]).view(6, 1, 1, 1)
    low = x.numpy().ravel() / 255 - likelihoods.HALF_LEVEL
    low[0] = -math.inf
    high = x.numpy().ravel() / 255 + likelihoods.HALF_LEVEL
    high[-1] = math.inf
    means = out.numpy().ravel()
    expected = torch.from_numpy(norm.cdf(high, means, 0.07) - norm.cdf(low, means, 0.07)).log()
    torch.testing.assert_close(likelihood.log_prob(out, x), expected)


def test_the_gaussian_stays_finite_and_steep_far_out_in_its_tails() -> None:
    likelihood = _likelihood("gaussian").float()
    torch.set_default_dtype(torch.float32)
    out = torch.tensor([-3.0, 4.0, 0.5]).view(3, 1, 1, 1).requires_grad_()
    x = torch.tensor([200, 30, 128], dtype=torch.uint8).view(3, 1, 1, 1)
    log_prob = likelihood.log_prob(out, x)
    (gradient,) = torch.autograd.grad(log_prob.sum(), out)
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(gradient).all()
    assert float(gradient[0]) > 1
    assert float(gradient[1]) < -1


def test_the_analytic_sigma_is_the_likeliest() -> None:
    likelihood = likelihoods.Gaussian(1, analytic=True)
    out = 0.5 + 0.1 * torch.rand(50, 1, 4, 4, generator=_generator())
    noise = 0.1 * torch.randn(out.shape, generator=_generator(1))
    x = (255 * (out + noise)).round().clamp(0, 255).to(torch.uint8)
    likelihood.train()
    best = likelihood.log_prob(out, x).sum()
    learned = likelihoods.Gaussian(1)
    for log_sigma in torch.linspace(-3.0, -1.5, 16):
        with torch.no_grad():
            learned.log_sigma.fill_(float(log_sigma))
            assert float(learned.log_prob(out, x).sum()) <= float(best) + 0.5
    for _ in range(600):
        observed = likelihood.statistics(out, x)
        assert observed is not None
        likelihood.observe(observed)
    error = likelihoods.to_unit(x) - out
    likelihood.eval()
    torch.testing.assert_close(
        likelihood.sigma(), error.square().mean((0, 2, 3)).sqrt(), rtol=0.01, atol=0
    )


def test_a_single_logistic_is_that_of_scipy() -> None:
    likelihood = DiscretizedLogisticMixture(1, 1).double()
    x = torch.tensor([0, 3, 77, 200, 255], dtype=torch.uint8).view(5, 1, 1, 1)
    out = torch.zeros(5, 3, 1, 1)
    out[:, 1, 0, 0] = torch.tensor([-0.8, -1.0, -0.4, 0.5, 0.9])
    out[:, 2, 0, 0] = torch.tensor([-1.0, -0.5, -1.5, 0.0, 0.5])
    means, scales = out[:, 1].flatten().numpy(), (out[:, 2].flatten() - 1.5).exp().numpy()
    value = 2 * x.numpy().ravel().astype(float) / 255 - 1
    low, high = value - 1 / 255, value + 1 / 255
    low[0], high[-1] = -math.inf, math.inf
    expected = logistic.cdf(high, means, scales) - logistic.cdf(low, means, scales)
    torch.testing.assert_close(likelihood.log_prob(out, x), torch.from_numpy(expected).log())


def test_bernoulli_is_cross_entropy_and_the_continuous_one_that_of_torch() -> None:
    x = torch.randint(0, 256, (6, 2, 3, 3), generator=_generator()).to(torch.uint8)
    plain, continuous = _likelihood("bernoulli", 2), _likelihood("continuous_bernoulli", 2)
    out = 3 * _out(plain, 6, 3)
    value, p = x.double() / 255, torch.from_numpy(expit(out.numpy()))
    expected = (value * p.log() + (1 - value) * (1 - p).log()).sum((1, 2, 3))
    torch.testing.assert_close(plain.log_prob(out, x), expected)
    reference = TorchContinuousBernoulli(probs=p).log_prob(value).sum((1, 2, 3))
    torch.testing.assert_close(continuous.log_prob(out, x), reference, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        continuous.mean(out), TorchContinuousBernoulli(probs=p).mean, rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("logit", [-6.0, -1.0, -0.01, 0.0, 0.03, 2.0])
def test_the_continuous_bernoulli_integrates_to_one(logit: float) -> None:
    line = torch.linspace(0, 1, 4001)
    p = torch.tensor(logit).sigmoid()
    log_density = line * p.log() + (1 - line) * (1 - p).log() + 0.0
    assert float(torch.trapezoid(log_density.exp(), line)) == pytest.approx(1.0, abs=1e-4)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", tiny.IMAGE_LIKELIHOODS)
def test_draws_have_the_mean_that_the_likelihood_says(name: str, channels: int) -> None:
    likelihood = _likelihood(name, channels)
    if name == "discretized_logistic_mixture":
        one = torch.zeros(1, likelihood.outputs, 1, 1)  # wide logistics are cut at the ends
        one[:, 3 + 3 * channels : 3 + 6 * channels] = -3.0
    else:
        one = 0.5 + 0.1 * _out(likelihood, 1)
    out = one.expand(20_000, -1, -1, -1)
    draws = likelihood.draw(out, _generator(2))
    assert draws.shape == (20_000, channels, 1, 1)
    assert float(draws.min()) >= 0
    assert float(draws.max()) <= 1
    error = 5 * float(draws.std()) / 20_000**0.5 + 0.01
    assert float((draws.mean(0) - likelihood.mean(one)[0]).abs().max()) < error


def test_an_unknown_likelihood_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"bernoulli, .*: 'poisson'"):
        make_likelihood(tiny.image_architecture(likelihood="poisson"))
