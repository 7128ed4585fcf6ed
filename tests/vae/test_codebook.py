"""The codebook prior puts components on clusters, follows them, and counts what it has read."""

from __future__ import annotations

import itertools
import math

import pytest
import tiny
import torch
from scipy.stats import chisquare
from torch import Tensor
from torch.distributions import MultivariateNormal

from genlab.vae.models.priors import CodebookPrior
from genlab.vae.models.priors.codebook import INACTIVE, log_sum_exp


def _generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _prior(latent_dim: int, tokens: int, components: int = 3) -> CodebookPrior:
    torch.manual_seed(0)
    prior = CodebookPrior(latent_dim, tokens, width=8, depth=2, components=components)
    return tiny.stir(prior.double(), 0, 0.5)


def _clusters() -> tuple[Tensor, Tensor]:
    """Three tight clusters, one of them rare: codes (n, 2) and their centres."""
    centres = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 5.0]])
    owner = torch.tensor([0] * 900 + [1] * 95 + [2] * 5)
    return centres[owner] + 0.01 * torch.randn(len(owner), 2, generator=_generator(4)), centres


def _initialized(components: int = 10, std: float = 0.05) -> CodebookPrior:
    prior = CodebookPrior(2, 1, width=8, depth=2, components=components)
    codes, _ = _clusters()
    prior.init_from_codes(codes, torch.full_like(codes, 2 * math.log(std)), 0)
    return prior


def test_components_are_gaussians() -> None:
    prior = _prior(latent_dim=3, tokens=1, components=4)
    z = torch.randn(6, 3, dtype=torch.float64)
    for k in range(4):
        gaussian = MultivariateNormal(prior.means[k], torch.diag(prior.variances[k]))
        torch.testing.assert_close(prior.component_log_prob(z)[:, k], gaussian.log_prob(z))


@torch.no_grad()
def test_sampled_symbols_have_the_probabilities_that_scoring_gives_them() -> None:
    # Components far apart make every token a symbol, so that all 81 outcomes can be counted.
    prior = _prior(latent_dim=4, tokens=4).float()
    prior.means.copy_(torch.tensor([[-6.0], [0.0], [6.0]]))
    prior.variances.fill_(math.exp(-2.0))
    prior.head.weight.mul_(2.0)
    draws = 20_000
    z = prior.sample(draws, _generator(1))
    symbols = (z[..., None] - prior.means[:, 0]).abs().argmin(-1)
    counts = torch.bincount(symbols @ torch.tensor([27, 9, 3, 1]), minlength=81)
    outcomes = torch.tensor(list(itertools.product(range(3), repeat=4)))
    codes = prior.means[outcomes, 0]
    terms = [
        prior.class_log_prob(codes, torch.full((81,), c)).sum(1)
        + prior.class_logits.log_softmax(0)[c]
        for c in range(prior.CLASSES)
    ]
    peak = prior.component_log_prob(prior.means).diagonal()[outcomes].sum(1)
    shares = (torch.logsumexp(torch.stack(terms), 0) - peak).exp().double()
    assert float(shares.sum()) == pytest.approx(1.0, abs=1e-4)
    assert float(shares.max() / shares.min()) > 10  # a prior that prefers
    expected = shares / shares.sum() * draws
    seen = expected > 5
    pooled = [[*c[seen].tolist(), float(c[~seen].sum()) + 1e-9] for c in (counts, expected)]
    assert chisquare(*pooled, sum_check=False).pvalue > 1e-3


@torch.no_grad()
def test_counts_are_of_the_occupied_tokens_before_each_token() -> None:
    prior = _prior(latent_dim=9, tokens=9)
    square = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 0, 1]], dtype=torch.bool).view(1, 9)
    prior.class_embedding.fill_(0.0)
    prior.occupied.copy_(100.0 * torch.arange(10.0)[:, None].expand(10, 8))
    prior.begun.copy_(torch.arange(10.0)[:, None].expand(10, 8))
    _, counts = prior._conditions(torch.tensor([0]), square, slice(None))
    assert counts[0, :, 0].tolist() == [0, 101, 201, 201, 201, 201, 201, 302, 302]


def test_initialization_finds_the_background_and_makes_classes_equally_likely() -> None:
    squares = torch.zeros(800, 16, 2)
    for occupied in range(16):  # as many squares with 0, 1, ... 15 occupied tokens
        squares[occupied::16, :occupied] = torch.tensor([5.0, 5.0])
    codes = (squares + 0.01 * torch.randn(squares.shape, generator=_generator())).flatten(1)
    prior = CodebookPrior(32, 16, width=8, depth=2, components=4)
    prior.init_from_codes(codes, torch.full_like(codes, 2 * math.log(0.05)), 0)
    assert (prior.inactive == 0).sum() == 2
    assert float(prior.means[prior.background].abs().max()) < 0.1
    assert torch.bincount(prior.global_class(codes)).tolist() == [100] * prior.CLASSES


def test_initialization_gives_each_cluster_one_component_and_leaves_the_rest_inactive() -> None:
    (codes, centres), prior = _clusters(), _initialized()
    assert prior.inactive.tolist() == [0.0] * 3 + [INACTIVE] * 7
    nearest = torch.cdist(centres, prior.means[:3])
    assert (nearest.min(1).values < 0.02).all()
    assert nearest.argmin(1).unique().numel() == 3
    assert float(prior.component_log_prob(codes).softmax(-1)[:, 3:].max()) == 0.0
    samples = prior.sample(500, _generator())
    assert float(torch.cdist(samples, centres).min(1).values.max()) < 0.5


def test_initialization_takes_the_farthest_clusters_where_components_are_few() -> None:
    _, centres = _clusters()
    assert float(torch.cdist(centres[2:], _initialized(2).means).min()) < 0.02  # rare, but far


def test_observing_codes_is_em_and_follows_clusters_that_move() -> None:
    (codes, centres), prior = _clusters(), _initialized()
    shift, log_var = torch.tensor([0.04, -0.02]), torch.full_like(codes, math.log(0.04**2))
    for _ in range(400):
        prior.observe(prior.statistics(codes + shift, log_var))
    moved = torch.cdist(centres + shift, prior.means[:3]).min(1)
    assert (moved.values < 0.01).all()
    # The variance of what was seen: that within the cluster and that of each code.
    expected = torch.full((3, 2), (0.01**2 + 0.04**2) ** 0.5)
    found = prior.variances[moved.indices].sqrt()
    torch.testing.assert_close(found, expected, rtol=0.1, atol=0.0)


def test_a_component_that_sees_nothing_stays_where_it_was() -> None:
    (codes, _), prior = _clusters(), _initialized()
    rare = int(prior.means[:3, 1].argmax())
    before = prior.means[rare].clone()
    for _ in range(1000):
        prior.observe(prior.statistics(codes[:900], torch.full((900, 2), -6.0)))
    assert torch.isfinite(prior.variances).all()
    torch.testing.assert_close(prior.means[rare], before, atol=1e-3, rtol=0.0)


def test_log_sum_exp_is_that_of_torch_with_its_gradient() -> None:
    x = 300 * torch.randn(40, 9, dtype=torch.float64, generator=_generator())
    x[:, 0] = INACTIVE
    x.requires_grad_()
    expected, found = torch.logsumexp(x, -1), log_sum_exp(x)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(value.sum(), x)[0] for value in (expected, found)]
    torch.testing.assert_close(gradients[1], gradients[0])
