"""p(z) is a density, it looks back only, and its samples follow it."""

from __future__ import annotations

import itertools
import math

import pytest
import tiny
import torch
from scipy.stats import chisquare
from torch.distributions import MultivariateNormal, Normal

from genlab.distributions.gaussian import normal_log_prob
from genlab.vae.models.priors import CodebookPrior, StandardPrior
from genlab.vae.models.priors.codebook import INACTIVE, log_sum_exp


def _prior(latent_dim: int, tokens: int, components: int = 3, seed: int = 0) -> CodebookPrior:
    torch.manual_seed(seed)
    prior = CodebookPrior(latent_dim, tokens, width=8, depth=2, components=components)
    prior = tiny.stir(prior.double(), seed, 0.5)
    with torch.no_grad():
        prior.variances.uniform_(-3.0, 1.0).exp_()
    return prior


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_normal_log_prob_is_that_of_torch_distributions() -> None:
    z, mean, log_var = torch.randn(3, 50, dtype=torch.float64)
    expected = Normal(mean, (0.5 * log_var).exp()).log_prob(z)
    torch.testing.assert_close(normal_log_prob(z, mean, log_var), expected)


def test_the_standard_prior_is_the_standard_normal() -> None:
    z = torch.randn(5, 3, dtype=torch.float64)
    torch.testing.assert_close(StandardPrior(3).token_log_prob(z), Normal(0, 1).log_prob(z))


def test_components_are_the_gaussians_they_are_said_to_be() -> None:
    prior = _prior(latent_dim=3, tokens=1, components=4)
    z = torch.randn(6, 3, dtype=torch.float64)
    for k in range(4):
        gaussian = MultivariateNormal(prior.means[k], torch.diag(prior.variances[k]))
        torch.testing.assert_close(prior.component_log_prob(z)[:, k], gaussian.log_prob(z))


@pytest.mark.parametrize("token", range(4))
def test_each_conditional_density_integrates_to_one_whatever_came_before(token: int) -> None:
    prior = _prior(latent_dim=4, tokens=4)
    line = torch.linspace(-12, 12, 4001, dtype=torch.float64)
    for context in 2 * torch.randn(3, 4, dtype=torch.float64, generator=_generator(token)):
        z = context.repeat(len(line), 1)
        z[:, token] = line
        plan = torch.full((len(line),), token)
        with torch.no_grad():
            density = prior.class_log_prob(z, plan)[:, token].exp()
        assert float(torch.trapezoid(density, line)) == pytest.approx(1.0, abs=1e-6)


def _every_plan(prior: CodebookPrior, z: torch.Tensor) -> torch.Tensor:
    """log p(z) with the sum over all plans: (batch,)."""
    plans = torch.log_softmax(prior.class_logits, 0)
    terms = [
        plans[c] + prior.class_log_prob(z, torch.full((len(z),), c)).sum(1)
        for c in range(prior.CLASSES)
    ]
    return torch.logsumexp(torch.stack(terms), 0)


def test_a_single_token_density_integrates_to_one() -> None:
    prior = _prior(latent_dim=2, tokens=1)
    line = torch.linspace(-9, 9, 301, dtype=torch.float64)
    plane = torch.cartesian_prod(line, line)
    with torch.no_grad():
        density = _every_plan(prior, plane).exp().view(301, 301)
    total = torch.trapezoid(torch.trapezoid(density, line), line)
    assert float(total) == pytest.approx(1.0, abs=1e-6)


def test_the_score_is_the_term_of_the_plan_that_z_fulfils_and_so_a_bound() -> None:
    prior = _prior(latent_dim=16, tokens=16)
    z = 2 * torch.randn(50, 16, dtype=torch.float64, generator=_generator())
    nearest = prior.component_log_prob(z[..., None]).argmax(-1)
    full = (nearest != 0).sum(1)
    plan = torch.tensor([sum(int(n) > 2 * c for c in range(1, 8)) for n in full])
    assert torch.equal(prior.global_class(z), plan)
    assert plan.unique().numel() > 2
    score = prior.token_log_prob(z).sum(1)
    expected = torch.log_softmax(prior.class_logits, 0)[plan]
    torch.testing.assert_close(score, expected + prior.class_log_prob(z, plan).sum(1))
    assert (score < _every_plan(prior, z)).all()


def test_counts_are_of_what_stands_before_a_token() -> None:
    prior = _prior(latent_dim=9, tokens=9)
    square = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 1]], dtype=torch.bool)[None]
    with torch.no_grad():
        prior.class_embedding.fill_(0.0)
        prior.occupied.copy_(100.0 * torch.arange(10.0)[:, None].expand(10, 8))
        prior.begun.copy_(torch.arange(10.0)[:, None].expand(10, 8))
        counts = prior._counts(square, torch.tensor([0]))[0, :, 0]
    assert counts.tolist() == [0, 101, 201, 201, 201, 201, 201, 302, 302]


def test_settling_makes_the_commonest_cluster_the_ground_and_plans_equally_likely() -> None:
    squares = torch.zeros(800, 16, 2)
    for full in range(16):  # as many squares with 0, 1, ... 15 occupied tokens
        squares[full::16, :full] = torch.tensor([5.0, 5.0])
    codes = squares + 0.01 * torch.randn(squares.shape, generator=_generator())
    prior = CodebookPrior(32, 16, width=8, depth=2, components=4)
    assert prior.init_from_codes(codes.view(-1, 2), std=0.05) == 2
    assert float(prior.means[prior.background].abs().max()) < 0.1
    plans = torch.bincount(prior.global_class(codes.flatten(1)), minlength=prior.CLASSES)
    assert plans.tolist() == [100] * 8


@pytest.mark.parametrize("changed", [0, 4, 8])
def test_a_token_is_judged_by_those_before_it_alone(changed: int) -> None:
    prior = _prior(latent_dim=18, tokens=9)
    z = torch.randn(1, 9, 2, dtype=torch.float64, generator=_generator())
    other = z.clone()
    other[:, changed] += 1.0
    plan = torch.tensor([3])
    before = prior.class_log_prob(z.flatten(1), plan)[0]
    after = prior.class_log_prob(other.flatten(1), plan)[0]
    moved = (before - after).abs() > 1e-9
    assert not moved[:changed].any()
    assert moved[changed:].all()


def test_the_first_token_is_still_felt_beyond_every_window() -> None:
    prior = _prior(latent_dim=100, tokens=100)
    z = torch.randn(1, 100, dtype=torch.float64, generator=_generator())
    other = z.clone()
    other[:, 0] += 2.0
    reach = 2 * prior.WINDOW_ROWS  # two windows, one read after the other
    far = slice((reach + 2) * 10, None)
    plan = torch.tensor([3])
    change = (prior.class_log_prob(z, plan) - prior.class_log_prob(other, plan))[0, far]
    assert (change.abs() > 1e-9).all()


def test_samples_follow_the_density() -> None:
    # Components far apart make every token a symbol, so that all 81 outcomes can be counted.
    prior = _prior(latent_dim=4, tokens=4).float()
    with torch.no_grad():
        prior.means.copy_(torch.tensor([[-6.0], [0.0], [6.0]]))
        prior.variances.fill_(math.exp(-2.0))
        prior.head.weight.mul_(2.0)
    draws = 20_000
    z = prior.sample(draws, _generator(1))
    symbols = (z[..., None] - prior.means[:, 0]).abs().argmin(-1)
    counts = torch.bincount(symbols @ torch.tensor([27, 9, 3, 1]), minlength=81)
    outcomes = torch.tensor(list(itertools.product(range(3), repeat=4)))
    with torch.no_grad():
        at_means = _every_plan(prior, prior.means[outcomes, 0])
        peak = prior.component_log_prob(prior.means).diagonal()[outcomes].sum(1)
    shares = (at_means - peak).exp().double()
    assert float(shares.sum()) == pytest.approx(1.0, abs=1e-4)
    assert float(shares.max() / shares.min()) > 10  # a prior that prefers
    expected = shares / shares.sum() * draws
    seen = expected > 5
    pooled = [[*c[seen].tolist(), float(c[~seen].sum()) + 1e-9] for c in (counts, expected)]
    assert chisquare(*pooled, sum_check=False).pvalue > 1e-3
    within = (z - prior.means.detach()[symbols, 0]).std()
    assert float(within) == pytest.approx(0.3679, rel=0.02)


def test_samples_score_as_high_as_their_own_entropy_says() -> None:
    # Over samples, the mean of -log p of a token is the entropy of its conditional. Where sampling
    # and scoring disagree about a window or the order, samples look less likely than that.
    prior = _prior(latent_dim=9, tokens=9, components=5).float()
    with torch.no_grad():
        prior.means.copy_(4.0 * torch.arange(5.0)[:, None])
        prior.variances.fill_(math.exp(-3.0))
        prior.class_logits.copy_(torch.tensor([0.0, 0, 0, 50, 0, 0, 0, 0]))  # one plan for all
        z = prior.sample(4000, _generator(3))
        plan = torch.full((4000,), 3)
        found = prior.class_log_prob(z, plan)
        weights = prior.log_weights(prior.component_log_prob(z.view(4000, 9, 1)), plan)
        symbol_entropy = -(weights.exp() * weights).sum(-1)
    gaussian_entropy = 0.5 * (1 + torch.tensor(2 * torch.pi).log()) - 1.5
    gap = -found - symbol_entropy - gaussian_entropy
    error = gap.std(0) / 4000**0.5
    assert (gap.mean(0).abs() < 5 * error + 1e-3).all()


@pytest.mark.parametrize("prior", [StandardPrior(4), _prior(latent_dim=4, tokens=4).float()])
def test_the_seed_decides_the_sample(prior: StandardPrior | CodebookPrior) -> None:
    first, again, other = (prior.sample(8, _generator(seed)) for seed in (1, 1, 2))
    assert first.shape == (8, 4)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_low_temperature_takes_the_likeliest_component() -> None:
    prior = _prior(latent_dim=1, tokens=1).float()
    with torch.no_grad():
        prior.means.copy_(torch.tensor([[-6.0], [0.0], [6.0]]))
        prior.variances.fill_(math.exp(-4.0))
        likeliest = prior.token_log_prob(prior.means)[:, 0].argmax()
    cold = prior.sample(200, _generator(), temperature=1e-3)
    warm = prior.sample(200, _generator(), temperature=1.0)
    assert ((cold - prior.means[likeliest]).abs() < 1.5).all()
    assert not ((warm - prior.means[likeliest]).abs() < 1.5).all()


def test_a_cold_standard_prior_stays_near_its_mean() -> None:
    draws = StandardPrior(4).sample(5000, _generator(), temperature=0.5)
    assert float(draws.std()) == pytest.approx(0.5, rel=0.02)


@pytest.mark.parametrize(("latent_dim", "tokens"), [(9, 4), (6, 3)])
def test_latents_that_do_not_lie_on_a_square_of_tokens_are_refused(
    latent_dim: int, tokens: int
) -> None:
    with pytest.raises(ValueError, match=f"multiple of {tokens} tokens, got {latent_dim}"):
        CodebookPrior(latent_dim, tokens, 8, 1, 2)


def _clusters() -> tuple[torch.Tensor, torch.Tensor]:
    """Three tight clusters, one of them rare: codes (n, 2) and their centres."""
    centres = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 5.0]])
    owner = torch.tensor([0] * 900 + [1] * 95 + [2] * 5)
    noise = 0.01 * torch.randn(len(owner), 2, generator=_generator(4))
    return centres[owner] + noise, centres


def test_settling_gives_each_cluster_one_component_and_parks_the_rest() -> None:
    codes, centres = _clusters()
    prior = CodebookPrior(2, 1, width=8, depth=2, components=10)
    assert prior.init_from_codes(codes, std=0.05) == 3
    used = prior.means[:3]
    nearest = torch.cdist(centres, used)
    assert (nearest.min(1).values < 0.02).all()
    assert nearest.argmin(1).unique().numel() == 3
    share = prior.component_log_prob(codes).softmax(-1)
    assert float(share[:, 3:].max()) == 0.0
    samples = prior.sample(500, _generator(), 1.0)
    assert float(torch.cdist(samples, centres).min(1).values.max()) < 0.5


def test_settling_takes_the_farthest_clusters_where_components_are_few() -> None:
    codes, centres = _clusters()
    prior = CodebookPrior(2, 1, width=8, depth=2, components=2)
    assert prior.init_from_codes(codes, std=0.05) == 2
    assert float(torch.cdist(centres[2:], prior.means).min()) < 0.02  # rare, but far


def test_observing_codes_is_em_and_follows_clusters_that_move() -> None:
    codes, centres = _clusters()
    prior = CodebookPrior(2, 1, width=8, depth=2, components=10)
    prior.init_from_codes(codes, std=0.05)
    shift, log_var = torch.tensor([0.04, -0.02]), torch.full_like(codes, math.log(0.04**2))
    for _ in range(400):
        prior.observe(prior.moments(codes + shift, log_var))
    moved = torch.cdist(centres + shift, prior.means[:3]).min(1)
    assert (moved.values < 0.01).all()
    # The variance of what was seen: that within the cluster and that of each code.
    torch.testing.assert_close(
        prior.variances[moved.indices].sqrt(),
        torch.full((3, 2), (0.01**2 + 0.04**2) ** 0.5),
        rtol=0.1,
        atol=0.0,
    )


def test_a_component_that_sees_nothing_stays_where_it_was() -> None:
    codes, _ = _clusters()
    prior = CodebookPrior(2, 1, width=8, depth=2, components=10)
    prior.init_from_codes(codes, std=0.05)
    rare = int(prior.means[:3, 1].argmax())
    before = prior.means[rare].clone()
    common = codes[:900]
    for _ in range(1000):
        prior.observe(prior.moments(common, torch.full_like(common, -6.0)))
    assert torch.isfinite(prior.means).all()
    assert torch.isfinite(prior.variances).all()
    torch.testing.assert_close(prior.means[rare], before, atol=1e-3, rtol=0.0)


def test_windows_are_the_tokens_around_and_their_gradient_is_that_of_plain_indexing() -> None:
    prior = _prior(latent_dim=25, tokens=25)
    x = torch.randn(2, 25, 3, dtype=torch.float64, generator=_generator(), requires_grad=True)
    outside = torch.zeros(2, 1, 3, dtype=torch.float64)
    index = torch.tensor(
        [
            [
                (y + dy) * 5 + c + dx if y + dy >= 0 and 0 <= c + dx < 5 else 25
                for dy, dx in prior.window.offsets
            ]
            for y, c in itertools.product(range(5), repeat=2)
        ]
    )
    plain = torch.cat([x, outside], dim=1)[:, index].flatten(2)
    windows = prior.window.gather(x)
    assert torch.equal(windows, plain)
    weights = torch.randn(plain.shape, dtype=torch.float64, generator=_generator(1))
    expected, found = (torch.autograd.grad((w * weights).sum(), x)[0] for w in (plain, windows))
    torch.testing.assert_close(found, expected)


def test_log_sum_exp_is_that_of_torch_with_its_gradient() -> None:
    x = 300 * torch.randn(40, 9, dtype=torch.float64, generator=_generator())
    x[:, 0] = INACTIVE
    x.requires_grad_()
    expected, found = torch.logsumexp(x, -1), log_sum_exp(x)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(value.sum(), x)[0] for value in (expected, found)]
    torch.testing.assert_close(gradients[1], gradients[0])
