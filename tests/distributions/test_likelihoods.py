"""Every likelihood is normalised, agrees with an independent source, and samples what it scores."""

import itertools
import math
from collections.abc import Iterator

import numpy as np
import pytest
import tiny
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from scipy.stats import logistic, norm
from torch.distributions import ContinuousBernoulli as TorchContinuousBernoulli

from genlab.distributions.discretized_logistic import DiscretizedLogisticMixture, LogBinMass
from genlab.distributions.likelihoods import (
    HALF_LEVEL,
    Categorical,
    Gaussian,
    ImageLikelihood,
    to_unit,
)
from genlab.vae.models.vae import make_likelihood

DISCRETE = ("gaussian", "gaussian_analytic", "discretized_logistic_mixture")


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def _likelihood(name: str, channels: int = 1) -> ImageLikelihood:
    architecture = tiny.image_architecture(
        likelihood=name, channels=channels, likelihood_components=3
    )
    likelihood = make_likelihood(architecture).double().eval()
    assert isinstance(likelihood, ImageLikelihood)
    return likelihood


def _out(likelihood: ImageLikelihood, batch: int, side: int = 1) -> torch.Tensor:
    return torch.randn(batch, likelihood.outputs, side, side, generator=tiny.generator())


@given(st.lists(st.floats(-30, 30), min_size=6, max_size=6))
def test_the_categorical_sums_to_one_over_all_grids_of_a_tiny_canvas(numbers: list[float]) -> None:
    everything = torch.tensor(list(itertools.product(range(3), repeat=2))).view(9, 1, 2)
    logits = torch.tensor(numbers, dtype=torch.float64).view(1, 3, 1, 2).expand(9, -1, -1, -1)
    total = Categorical(3).log_prob(logits, everything).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("name", DISCRETE)
@pytest.mark.parametrize("scale", [0.0, 1.0, 4.0])
def test_a_discrete_likelihood_sums_to_one_over_256_levels(name: str, scale: float) -> None:
    likelihood = _likelihood(name)
    out = scale * _out(likelihood, 1).expand(256, -1, -1, -1)
    levels = torch.arange(256).view(256, 1, 1, 1).to(torch.uint8)
    total = likelihood.log_prob(out, levels).detach().exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-4)


def test_a_mixture_over_two_linked_channels_sums_to_one() -> None:
    likelihood = _likelihood("discretized_logistic_mixture", 2)
    out = _out(likelihood, 1).expand(256 * 256, -1, -1, -1)
    x = torch.cartesian_prod(torch.arange(256), torch.arange(256)).view(-1, 2, 1, 1)
    total = likelihood.log_prob(out, x.to(torch.uint8)).exp().sum()
    assert float(total) == pytest.approx(1.0, abs=1e-4)


def _bins(x: torch.Tensor, half: float, low: float, high: float) -> tuple[object, object]:
    """Edges of the bins of levels on [low, high]; the first and the last bin are open."""
    levels = x.numpy().ravel()
    value = low + (high - low) * levels / 255
    lower = value - half
    upper = value + half
    lower[levels == 0] = -math.inf
    upper[levels == 255] = math.inf
    return lower, upper


def test_the_gaussian_is_the_mass_of_scipys_normal() -> None:
    likelihood = Gaussian(1)
    with torch.no_grad():
        likelihood.log_sigma.fill_(math.log(0.07))
    x = torch.tensor([0, 1, 90, 128, 254, 255], dtype=torch.uint8).view(6, 1, 1, 1)
    out = torch.tensor([0.1, 0.0, 0.3, 0.6, 0.9, 0.8]).view(6, 1, 1, 1)
    lower, upper = _bins(x, HALF_LEVEL, 0.0, 1.0)
    means = out.numpy().ravel()
    expected = torch.from_numpy(norm.cdf(upper, means, 0.07) - norm.cdf(lower, means, 0.07)).log()
    torch.testing.assert_close(likelihood.log_prob(out, x), expected)


def test_the_gaussian_stays_finite_and_steep_far_out_in_its_tails() -> None:
    torch.set_default_dtype(torch.float32)
    out = torch.tensor([-3.0, 4.0, 0.5]).view(3, 1, 1, 1).requires_grad_()
    x = torch.tensor([200, 30, 128], dtype=torch.uint8).view(3, 1, 1, 1)
    log_prob = Gaussian(1).log_prob(out, x)
    (gradient,) = torch.autograd.grad(log_prob.sum(), out)
    assert torch.isfinite(log_prob).all()
    assert torch.isfinite(gradient).all()
    assert float(gradient[0]) > 1
    assert float(gradient[1]) < -1


def test_the_analytic_sigma_is_the_likeliest_and_its_running_mean_finds_it() -> None:
    likelihood = Gaussian(1, analytic=True).train()
    out = 0.5 + 0.1 * torch.rand(50, 1, 4, 4, generator=tiny.generator())
    noise = 0.1 * torch.randn(out.shape, generator=tiny.generator(1))
    x = (255 * (out + noise)).round().clamp(0, 255).to(torch.uint8)
    best = float(likelihood.log_prob(out, x).sum())
    learned = Gaussian(1)
    for log_sigma in torch.linspace(-3.0, -1.5, 16):
        with torch.no_grad():
            learned.log_sigma.fill_(float(log_sigma))
            assert float(learned.log_prob(out, x).sum()) <= best + 0.5
    for _ in range(600):
        statistics = likelihood.statistics(out, x)
        assert statistics is not None
        likelihood.observe(statistics, torch.ones(()))
    expected = (to_unit(x) - out).square().mean((0, 2, 3)).sqrt()
    torch.testing.assert_close(likelihood.eval().sigma(), expected, rtol=0.01, atol=0)


def test_a_single_logistic_is_that_of_scipy() -> None:
    x = torch.tensor([0, 3, 77, 200, 255], dtype=torch.uint8).view(5, 1, 1, 1)
    out = torch.zeros(5, 3, 1, 1)
    out[:, 1, 0, 0] = torch.tensor([-0.8, -1.0, -0.4, 0.5, 0.9])
    out[:, 2, 0, 0] = torch.tensor([-1.0, -0.5, -1.5, 0.0, 0.5])
    means = out[:, 1].flatten().numpy()
    scales = (out[:, 2].flatten() - 1.5).exp().numpy()
    lower, upper = _bins(x, 1 / 255, -1.0, 1.0)
    expected = logistic.cdf(upper, means, scales) - logistic.cdf(lower, means, scales)
    log_prob = DiscretizedLogisticMixture(1, 1).log_prob(out, x)
    torch.testing.assert_close(log_prob, torch.from_numpy(expected).log())


def test_bernoulli_is_cross_entropy_and_the_continuous_one_that_of_torch() -> None:
    x = torch.randint(0, 256, (6, 2, 3, 3), generator=tiny.generator()).to(torch.uint8)
    bernoulli = _likelihood("bernoulli", 2)
    continuous = _likelihood("continuous_bernoulli", 2)
    out = 3 * _out(bernoulli, 6, 3)
    value = x.double() / 255
    p = torch.from_numpy(expit(out.numpy()))
    expected = (value * p.log() + (1 - value) * (1 - p).log()).sum((1, 2, 3))
    torch.testing.assert_close(bernoulli.log_prob(out, x), expected)
    reference = TorchContinuousBernoulli(probs=p).log_prob(value).sum((1, 2, 3))
    torch.testing.assert_close(continuous.log_prob(out, x), reference)


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("name", tiny.IMAGE_LIKELIHOODS)
def test_samples_have_the_mean_of_the_likelihood(name: str, channels: int) -> None:
    likelihood = _likelihood(name, channels)
    if name == "discretized_logistic_mixture":
        out = torch.zeros(1, likelihood.outputs, 1, 1)  # wide logistics are cut at the ends
        out[:, 3 + 3 * channels : 3 + 6 * channels] = -3.0
    else:
        out = 0.5 + 0.1 * _out(likelihood, 1)
    draws = likelihood.sample_unit(out.expand(20_000, -1, -1, -1), tiny.generator(2)).detach()
    assert draws.shape == (20_000, channels, 1, 1)
    assert 0 <= float(draws.min()) <= float(draws.max()) <= 1
    error = 5 * float(draws.std()) / 20_000**0.5 + 0.01
    assert float((draws.mean(0) - likelihood.mean(out)[0]).abs().max()) < error


def test_the_mass_of_a_bin_is_that_of_scipy_and_has_the_gradient_of_its_formula() -> None:
    level = torch.tensor([0, 1, 100, 254, 255])
    shape = (6, 5)
    centred = 2 * torch.rand(shape, generator=tiny.generator()) - 1
    log_scale = torch.linspace(-3.0, 3.0, 6)[:, None].expand(shape).clone()
    edges = 2 * HALF_LEVEL * torch.tensor([-1.0, 1.0])[:, None, None]
    low, high = logistic.cdf((centred + edges).numpy(), scale=log_scale.exp().numpy())
    low = np.where(level == 0, 0.0, low)
    high = np.where(level == 255, 1.0, high)
    log_mass = LogBinMass.apply(centred, log_scale, level)
    torch.testing.assert_close(log_mass, torch.from_numpy(np.log(high - low)), rtol=1e-6, atol=1e-8)
    inputs = (centred.requires_grad_(), log_scale.requires_grad_())
    assert torch.autograd.gradcheck(lambda c, s: LogBinMass.apply(c, s, level), inputs)


@pytest.mark.parametrize("log_scale", [-7.0, -2.0, 3.0])
def test_the_mass_of_a_bin_far_out_in_a_tail_is_exact_in_single_precision(log_scale: float) -> None:
    centred = torch.linspace(-2, 2, 41)
    level = torch.full((41,), 7)
    scale = torch.full((41,), log_scale)
    single = LogBinMass.apply(centred.float(), scale.float(), level)
    double = LogBinMass.apply(centred.double(), scale.double(), level)
    assert single.isfinite().all()
    torch.testing.assert_close(single, double, check_dtype=False, rtol=1e-4, atol=1e-4)
