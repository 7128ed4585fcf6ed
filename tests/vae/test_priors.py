"""Promises of every prior: an autoregressive density over tokens, which samples follow."""

import math
from typing import Any

import pytest
import tiny
import torch
from torch import Tensor
from torch.distributions import Normal

from genlab.vae.models.priors import PRIORS, CodebookPrior, StandardPrior
from genlab.vae.models.priors.autoregressive import LearnedPrior

LEARNED = ["autoregressive", "autoregressive_mixture"]
HEADS = [0, 2]


def _prior(
    name: str, latent_dim: int = 8, tokens: int = 4, size: float = 0.5, heads: int = 0
) -> Any:
    """A learned prior with noise on every weight, in float64."""
    torch.manual_seed(0)
    prior = PRIORS[name](latent_dim, tokens, 8, 2, 3, heads)
    assert isinstance(prior, LearnedPrior)
    codebook = isinstance(prior, CodebookPrior)
    prior = tiny.stir(prior.double(), 0, size if codebook else 0.5 * size)
    if codebook:
        with torch.no_grad():
            prior.variances.uniform_(-3.0, 1.0).exp_()
    else:
        codes = 3 * torch.randn(100, latent_dim, generator=tiny.generator(), dtype=torch.float64)
        prior.init_from_codes(codes, codes, 0)
    return prior


def _z(count: int, latent_dim: int, seed: int = 1) -> Tensor:
    return 2 * torch.randn(count, latent_dim, generator=tiny.generator(seed), dtype=torch.float64)


def test_the_standard_prior_is_the_standard_normal_whose_kl_needs_no_sample() -> None:
    prior = StandardPrior(3)
    z = _z(5, 3)
    torch.testing.assert_close(prior.token_log_prob(z), Normal(0, 1).log_prob(z))
    mean = _z(5, 3, 2)
    log_var = _z(5, 3, 3)
    assert torch.equal(prior.token_kl(mean, log_var, z), prior.token_kl(mean, log_var, -z))
    assert not prior.token_kl(0 * mean, 0 * log_var, z).any()


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.parametrize("token", [0, 1, 3])
def test_each_conditional_density_integrates_to_one(name: str, token: int) -> None:
    prior = _prior(name, latent_dim=4)
    line = torch.linspace(-60, 60, 6001, dtype=torch.float64)
    classes = torch.full((len(line),), 5)
    for context in _z(2, 4):
        z = context.repeat(len(line), 1)
        z[:, token] = line
        with torch.no_grad():
            density = prior.class_log_prob(z, classes)[:, token].exp()
        assert float(torch.trapezoid(density, line)) == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("name", LEARNED)
def test_a_token_is_scored_by_the_tokens_before_it_alone_and_by_all_of_them(
    name: str, heads: int
) -> None:
    prior = _prior(name, 100, 100, heads=heads)
    z = _z(8, 100)
    classes = torch.full((8,), 3)
    before = prior.class_log_prob(z, classes)
    for token in (0, 40, 99):
        changed = z.clone()
        changed[:, token] += 2.0
        difference = (prior.class_log_prob(changed, classes) - before).abs().amax(0)
        assert not difference[:token].any()
        assert (difference[token:] > 1e-12).all()  # beyond every window too


@pytest.mark.parametrize("name", LEARNED)
@torch.no_grad()
def test_the_log_probability_sums_over_classes_and_training_takes_one_of_them(name: str) -> None:
    prior = _prior(name, 16, 16)
    z = _z(50, 16)
    classes = prior.global_class(z)
    assert classes.unique().numel() > 2
    shares = torch.log_softmax(prior.class_logits, 0)
    bound = prior.bound_token_log_prob(z)
    within = prior.class_log_prob(z, classes)
    torch.testing.assert_close(bound[:, 0], within[:, 0] + shares[classes])
    torch.testing.assert_close(bound[:, 1:], within[:, 1:])
    terms = [
        prior.class_log_prob(z, torch.full((50,), c)).sum(1) + shares[c]
        for c in range(prior.CLASSES)
    ]
    log_prob = torch.logsumexp(torch.stack(terms), 0)
    torch.testing.assert_close(prior.token_log_prob(z).sum(1), log_prob)
    assert (log_prob > bound.sum(1)).all()


@pytest.mark.parametrize("name", LEARNED)
@torch.no_grad()
def test_the_log_probability_of_a_token_depends_on_earlier_tokens_alone(name: str) -> None:
    prior = _prior(name, 16, 16)
    z = _z(5, 16)
    changed = z.clone()
    changed[:, 9:] = _z(5, 7, seed=2)
    torch.testing.assert_close(prior.token_log_prob(z)[:, :9], prior.token_log_prob(changed)[:, :9])


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("name", LEARNED)
@torch.no_grad()
def test_sampling_token_by_token_sees_what_the_parallel_pass_sees(name: str, heads: int) -> None:
    prior = _prior(name, 32, 16, heads=heads).float()
    prior.class_logits.copy_(torch.nn.functional.one_hot(torch.tensor(5), prior.CLASSES) * 50.0)
    outputs: list[Tensor] = []
    prior.head.register_forward_hook(lambda *call: outputs.append(call[-1]))
    z = prior.sample(7, tiny.generator())
    prior.class_log_prob(z, torch.full((7,), 5))
    *steps, at_once = outputs
    torch.testing.assert_close(torch.stack(steps, 1), at_once, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", LEARNED)
@torch.no_grad()
def test_samples_follow_the_density(name: str) -> None:
    # E_{z ~ p}[q(z) / p(z)] = 1 for a q inside p: only where sample and density are of one p.
    prior = _prior(name, 4, 4, size=0.15).float()
    if isinstance(prior, CodebookPrior):
        prior.variances.fill_(1.0)
    z = prior.sample(20_000, tiny.generator(3))
    log_q = Normal(z.mean(0), 0.6).log_prob(z).sum(1)
    ratio = (log_q - prior.token_log_prob(z).sum(1)).exp()
    error = float(ratio.std()) / math.sqrt(len(z))
    assert error < 0.1
    assert float(ratio.mean()) == pytest.approx(1.0, abs=5 * error)


@pytest.mark.parametrize("heads", HEADS)
@pytest.mark.parametrize("name", LEARNED)
def test_gradients_reach_every_parameter_and_are_those_of_finite_differences(
    name: str, heads: int
) -> None:
    prior = _prior(name, 9, 9, heads=heads)
    z = _z(40, 9)
    prior.bound_token_log_prob(z).sum().backward()
    unreached = [n for n, p in prior.named_parameters() if p.grad is None or not p.grad.any()]
    assert unreached == []
    mean = _z(2, 9, 2).requires_grad_()
    log_var = (0.1 * _z(2, 9, 3)).requires_grad_()
    noise = _z(2, 9, 4)

    def kl(mean: Tensor, log_var: Tensor) -> Tensor:
        return prior.bound_token_kl(mean, log_var, mean + (0.5 * log_var).exp() * noise)

    assert torch.autograd.gradcheck(kl, (mean, log_var))


@torch.no_grad()
def test_latents_of_one_token_depend_on_each_other_in_density_and_samples() -> None:
    prior = _prior("autoregressive_mixture", latent_dim=2, tokens=1)
    prior.head.bias[-4:] = 0.7  # the coefficients of one latent on the other
    line = torch.linspace(-50, 50, 301, dtype=torch.float64)
    z = torch.cartesian_prod(line, line)
    mass = prior.token_log_prob(z)[:, 0].exp() * (line[1] - line[0]) ** 2
    assert float(mass.sum()) == pytest.approx(1.0, abs=1e-6)
    covariance = torch.cov(z.T, aweights=mass)
    drawn = torch.cov(prior.float().sample(50_000, tiny.generator()).T)
    assert abs(covariance[0, 1]) > 0.5
    torch.testing.assert_close(drawn, covariance.float(), rtol=0.05, atol=0.05)
