"""The learned prior of images is a density over tokens in order, and draws what it says."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tiny
import torch
from torch import Tensor
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from genlab.vae.models.priors import make_prior
from genlab.vae.models.priors.mixture_density import HALF_LOG_TWO_PI, MixtureDensityPrior


def _prior(
    latent_dim: int = 8, tokens: int = 4, components: int = 3, seed: int = 0, size: float = 0.3
) -> MixtureDensityPrior:
    torch.manual_seed(seed)
    prior = MixtureDensityPrior(latent_dim, tokens, width=8, depth=2, components=components)
    return tiny.stir(prior, seed, size).double()


def _z(prior: MixtureDensityPrior, count: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    dim = prior.tokens * prior.token_dim
    return torch.randn(count, dim, generator=generator, dtype=torch.float64)


# -- a density


@pytest.mark.parametrize("tokens", [4, 9])
def test_a_tokens_density_does_not_know_the_tokens_after_it(tokens: int) -> None:
    prior = _prior(2 * tokens, tokens)
    z = _z(prior, 5)
    before = prior.token_log_prob(z)
    assert before.shape == (5, tokens)
    for token in range(tokens):
        changed = z.clone()
        changed[:, 2 * token :] += 1.0
        after = prior.token_log_prob(changed)
        torch.testing.assert_close(after[:, :token], before[:, :token], rtol=0, atol=0)
        assert not torch.isclose(after[:, token], before[:, token]).any()


@pytest.mark.parametrize("token", [1, 3, 8])
def test_a_tokens_density_knows_every_token_before_it(token: int) -> None:
    prior = _prior(9, 9)
    z = _z(prior, 1).requires_grad_()
    (gradient,) = torch.autograd.grad(prior.token_log_prob(z)[0, token], z)
    assert (gradient[0, : token + 1] != 0).all()
    assert (gradient[0, token + 1 :] == 0).all()


@torch.no_grad()
def test_the_density_of_one_token_integrates_to_one() -> None:
    prior = _prior(1, 1)
    z = torch.linspace(-60, 60, 12001, dtype=torch.float64)[:, None]
    mass = torch.trapezoid(prior.token_log_prob(z)[:, 0].exp(), z[:, 0])
    assert float(mass) == pytest.approx(1.0, abs=1e-5)


@torch.no_grad()
def test_the_density_of_the_last_token_integrates_to_one_whatever_came_before() -> None:
    prior = _prior(4, 4)
    last = torch.linspace(-60, 60, 12001, dtype=torch.float64)
    for before in _z(prior, 3)[:, :3]:
        z = torch.cat([before.expand(len(last), 3), last[:, None]], dim=1)
        mass = torch.trapezoid(prior.token_log_prob(z)[:, 3].exp(), last)
        assert float(mass) == pytest.approx(1.0, abs=1e-5)


@torch.no_grad()
def test_a_density_that_hears_nothing_is_the_mixture_of_torch_distributions() -> None:
    prior = _prior(8, 4)
    prior.head.weight.zero_()
    logits, means, log_std = prior._mixture(prior.head.bias)
    expected = MixtureSameFamily(
        Categorical(logits=logits), Independent(Normal(means, log_std.exp()), 1)
    )
    z = _z(prior, 6)
    torch.testing.assert_close(
        prior.token_log_prob(z), expected.log_prob(z.view(6, 4, 2)), rtol=1e-9, atol=1e-9
    )


@torch.no_grad()
def test_a_component_is_no_narrower_and_no_wider_than_the_range() -> None:
    prior = _prior(1, 1, components=1)
    prior.head.weight.zero_()
    prior.head.bias[1] = 0.0
    peaks = []
    for raw in (-50.0, 50.0):
        prior.head.bias[2] = raw
        peaks.append(float(prior.token_log_prob(torch.zeros(1, 1, dtype=torch.float64))))
    np.testing.assert_allclose(peaks, [6.0 - HALF_LOG_TWO_PI, -4.0 - HALF_LOG_TWO_PI])


def test_gradients_reach_every_parameter() -> None:
    prior = _prior(9, 9)
    prior.init_from_codes(_z(prior, 2 * prior.CLASSES), 0)
    prior.token_log_prob(_z(prior, 4)).sum().backward()
    for name, parameter in prior.named_parameters():
        assert parameter.grad is not None, name
        assert bool((parameter.grad != 0).any()), name


# -- samples


def _told(prior: MixtureDensityPrior, count: int, temperature: float = 1.0) -> Tensor:
    return prior.sample(count, torch.Generator().manual_seed(0), temperature)


@torch.no_grad()
def test_samples_follow_the_density() -> None:
    # Draws of a token under the tokens that came before it, against that density's own moments.
    prior = _prior(4, 4, size=0.2).float()
    z = _told(prior, 20_000).double()
    prior.double()
    grid = torch.linspace(-12, 12, 1201, dtype=torch.float64)
    first = torch.zeros(len(grid), 4, dtype=torch.float64)
    first[:, 0] = grid
    density = prior.token_log_prob(first)[:, 0].exp()
    mean = torch.trapezoid(density * grid, grid)
    variance = torch.trapezoid(density * (grid - mean) ** 2, grid)
    error = math.sqrt(float(variance) / len(z))
    assert float(z[:, 0].mean()) == pytest.approx(float(mean), abs=5 * error)
    assert float(z[:, 0].var()) == pytest.approx(float(variance), rel=0.08)


@torch.no_grad()
def test_importance_weights_of_samples_have_mean_one() -> None:
    # E_{z ~ p}[q(z) / p(z)] = 1 for a q inside p: only where sample and density are of one p.
    prior = _prior(4, 4, components=2, size=0.15).float()
    z = _told(prior, 20_000)
    scale = 0.6
    centre = z.mean(0)
    log_q = Normal(centre, scale).log_prob(z).sum(1)
    ratio = (log_q - prior.token_log_prob(z).sum(1)).exp()
    error = float(ratio.std()) / math.sqrt(len(z))
    assert error < 0.05
    assert float(ratio.mean()) == pytest.approx(1.0, abs=5 * error)


@torch.no_grad()
def test_a_draw_is_seen_in_sampling_as_it_is_in_scoring() -> None:
    # The mean of a sharp single component is all that is left of a draw: it must be the one that
    # scoring expects at that place, given the same tokens before.
    prior = _prior(18, 9, components=1)
    k, d = prior.components, prior.token_dim
    prior.head.bias[k + k * d :] = -50.0
    prior.head.weight[k + k * d :] = 0.0
    prior.float()
    z = _told(prior, 5)
    peak = 9 * 2 * (6.0 - HALF_LOG_TWO_PI)
    lost = peak - prior.token_log_prob(z).sum(1)
    assert ((lost > 0) & (lost < 30)).all()  # half a chi square of 18: 9 with a deviation of 3


def test_the_seed_decides_the_draws() -> None:
    prior = _prior().float()
    assert _told(prior, 4).shape == (4, 8)
    assert torch.equal(_told(prior, 4), _told(prior, 4))
    assert not torch.equal(_told(prior, 4), prior.sample(4, torch.Generator().manual_seed(1)))


@torch.no_grad()
def test_temperature_scales_the_spread() -> None:
    prior = _prior(1, 1, components=1).float()
    spread = {t: float(_told(prior, 4000, t).std()) for t in (0.5, 1.0, 2.0)}
    assert spread[0.5] / spread[1.0] == pytest.approx(0.5, rel=0.02)
    assert spread[2.0] / spread[1.0] == pytest.approx(2.0, rel=0.02)


@torch.no_grad()
def test_a_low_temperature_keeps_to_the_likeliest_component() -> None:
    prior = _prior(1, 1, components=2).float()
    prior.head.weight.zero_()
    prior.head.bias.copy_(torch.tensor([0.5, 0.0, -3.0, 3.0, -2.0, -2.0]))
    shares = [float((_told(prior, 4000, t) > 0).float().mean()) for t in (1.0, 0.1)]
    assert shares[0] == pytest.approx(1 / (1 + math.exp(0.5)), abs=0.03)
    assert shares[1] == pytest.approx(1 / (1 + math.exp(5.0)), abs=0.01)


# -- learning


def _arc(count: int, seed: int) -> Tensor:
    """Four tokens of one number each, every one bound to the one before it: not a normal."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(count, 4, generator=generator)
    sign = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    z = [2 * sign + 0.3 * noise[:, 0]]
    for t in range(1, 4):
        z.append(z[-1].abs() - 1 + 0.3 * noise[:, t])
    return torch.stack(z, dim=1)


@torch.no_grad()
def _nats(prior: MixtureDensityPrior, z: Tensor) -> float:
    """Mean negative log density of z, nats."""
    return -float(prior.token_log_prob(z).sum(1).mean())


def test_it_learns_what_binds_tokens_where_independent_ones_cannot() -> None:
    torch.manual_seed(0)
    prior = MixtureDensityPrior(4, 4, width=16, depth=2, components=4)
    train, test = _arc(4000, 0), _arc(1000, 1)
    start = _nats(prior, test)
    optimiser = torch.optim.AdamW(prior.parameters(), lr=1e-2)
    for step in range(150):
        batch = train[(step * 64) % 4000 :][:64]
        loss = -prior.token_log_prob(batch).sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    found = _nats(prior, test)
    truth = 4 * (0.5 + HALF_LOG_TWO_PI + math.log(0.3)) + math.log(2)
    normal = torch.distributions.MultivariateNormal(train.mean(0), torch.cov(train.T))
    joint = -float(normal.log_prob(test).mean())  # the best that a normal can say
    assert found < start
    assert truth - 0.2 < found < truth + 0.5
    assert found < joint - 1.0


# -- bad shapes


@pytest.mark.parametrize(("latent_dim", "tokens"), [(10, 4), (6, 3), (8, 8), (3, 4)])
def test_tokens_that_lie_on_no_square_or_share_no_latents_are_refused(
    latent_dim: int, tokens: int
) -> None:
    message = f"latent_dim must be a multiple of {tokens} tokens, got {latent_dim}"
    with pytest.raises(ValueError, match=message):
        make_prior("autoregressive_mixture", latent_dim, tokens, 8, 2, 2)


def test_a_prior_is_found_by_its_name_and_an_unknown_one_is_refused() -> None:
    found = make_prior("autoregressive_mixture", 8, 4, 8, 2, 2)
    assert isinstance(found, MixtureDensityPrior)
    assert (found.tokens, found.token_dim, found.components) == (4, 2, 2)
    with pytest.raises(ValueError, match="autoregressive_mixture: 'mixture'"):
        make_prior("mixture", 8, 4, 8, 2, 2)


# -- plans


def _planned(seed: int = 0) -> tuple[MixtureDensityPrior, Tensor]:
    """A prior with its plans, and the codes they were found in: clusters far apart."""
    prior = _prior(8, 4, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    centres = 6 * torch.randn(prior.CLASSES, 8, generator=generator, dtype=torch.float64)
    codes = centres.repeat(5, 1) + 0.1 * torch.randn(320, 8, generator=generator).double()
    prior.init_from_codes(codes, seed)
    return prior, codes


@torch.no_grad()
def test_a_planned_density_adds_what_the_plan_costs_to_the_first_token() -> None:
    prior, codes = _planned()
    plan = prior.global_class(codes)
    assert len(plan.unique()) > prior.CLASSES // 2
    within = prior.class_log_prob(codes, plan)
    whole = prior.token_log_prob(codes)
    torch.testing.assert_close(whole[:, 1:], within[:, 1:])
    torch.testing.assert_close(whole[:, 0], within[:, 0] + prior.class_logits.log_softmax(0)[plan])


@torch.no_grad()
def test_codes_near_each_other_share_a_plan_and_shares_are_those_of_the_codes() -> None:
    prior, codes = _planned()
    near = prior.global_class(codes + 0.01)
    assert torch.equal(near, prior.global_class(codes))
    shares = torch.bincount(near, minlength=prior.CLASSES) / len(codes)
    torch.testing.assert_close(
        prior.class_logits.softmax(0), shares.double().clamp_min(1e-4), rtol=0.02, atol=1e-3
    )


@torch.no_grad()
def test_the_sum_over_plans_is_never_below_the_term_that_is_taken() -> None:
    prior, codes = _planned()
    taken = prior.token_log_prob(codes).sum(1)
    every = torch.stack(
        [
            prior.class_log_prob(codes, torch.full((len(codes),), c)).sum(1)
            + prior.class_logits.log_softmax(0)[c]
            for c in range(prior.CLASSES)
        ]
    )
    assert (torch.logsumexp(every, 0) >= taken - 1e-9).all()
