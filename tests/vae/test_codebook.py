"""The codebook prior places components on clusters of codes and follows them."""

import math

import tiny
import torch
from torch import Tensor
from torch.distributions import MultivariateNormal

from genlab.vae.models.priors import CodebookPrior
from genlab.vae.models.priors.codebook import INACTIVE, log_sum_exp


def _clusters() -> tuple[Tensor, Tensor]:
    """Three tight clusters, one of them rare: codes (n, 2) and their centres."""
    centres = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, 5.0]])
    owner = torch.tensor([0] * 900 + [1] * 95 + [2] * 5)
    return centres[owner] + 0.01 * torch.randn(len(owner), 2, generator=tiny.generator(4)), centres


def _initialized(components: int = 10, std: float = 0.05) -> CodebookPrior:
    prior = CodebookPrior(2, 1, width=8, depth=2, components=components, heads=0)
    codes, _ = _clusters()
    prior.init_from_codes(codes, torch.full_like(codes, 2 * math.log(std)), 0)
    return prior


def test_components_are_gaussians() -> None:
    prior = CodebookPrior(3, 1, width=8, depth=2, components=4, heads=0).double()
    z = torch.randn(6, 3, dtype=torch.float64)
    for k in range(4):
        gaussian = MultivariateNormal(prior.means[k], torch.diag(prior.variances[k]))
        torch.testing.assert_close(prior.component_log_prob(z)[:, k], gaussian.log_prob(z))


def test_densities_keep_their_precision_under_autocast() -> None:
    prior = _initialized(std=0.02)
    codes, _ = _clusters()
    expected = prior.component_log_prob(codes)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(prior.component_log_prob(codes), expected)


def test_initialization_finds_the_background_and_makes_classes_equally_likely() -> None:
    squares = torch.zeros(800, 16, 2)
    for occupied in range(16):  # as many squares with 0, 1, ... 15 occupied tokens
        squares[occupied::16, :occupied] = torch.tensor([5.0, 5.0])
    codes = (squares + 0.01 * torch.randn(squares.shape, generator=tiny.generator())).flatten(1)
    prior = CodebookPrior(32, 16, width=8, depth=2, components=4, heads=0)
    prior.init_from_codes(codes, torch.full_like(codes, 2 * math.log(0.05)), 0)
    assert (prior.inactive == 0).sum() == 2
    assert float(prior.means[prior.background].abs().max()) < 0.1
    assert torch.bincount(prior.global_class(codes)).tolist() == [100] * prior.CLASSES


def test_initialization_gives_each_cluster_one_component_and_leaves_the_rest_inactive() -> None:
    codes, centres = _clusters()
    prior = _initialized()
    assert prior.inactive.tolist() == [0.0] * 3 + [INACTIVE] * 7
    nearest = torch.cdist(centres, prior.means[:3])
    assert (nearest.min(1).values < 0.02).all()
    assert nearest.argmin(1).unique().numel() == 3
    assert float(prior.component_log_prob(codes).softmax(-1)[:, 3:].max()) == 0.0
    samples = prior.sample(500, tiny.generator())
    assert float(torch.cdist(samples, centres).min(1).values.max()) < 0.5


def test_observing_codes_is_em_and_follows_clusters_that_move() -> None:
    codes, centres = _clusters()
    prior = _initialized()
    shift = torch.tensor([0.04, -0.02])
    log_var = torch.full_like(codes, math.log(0.04**2))
    for _ in range(400):
        statistics = prior.statistics(codes + shift, log_var, torch.ones(len(codes)))
        prior.observe(statistics, torch.ones(()))
    moved = torch.cdist(centres + shift, prior.means[:3]).min(1)
    assert (moved.values < 0.01).all()
    # The variance within the cluster plus that of each code.
    expected = torch.full((3, 2), (0.01**2 + 0.04**2) ** 0.5)
    std = prior.variances[moved.indices].sqrt()
    torch.testing.assert_close(std, expected, rtol=0.1, atol=0.0)


def test_log_sum_exp_is_that_of_torch_with_its_gradient() -> None:
    x = 300 * torch.randn(40, 9, dtype=torch.float64, generator=tiny.generator())
    x[:, 0] = INACTIVE
    x.requires_grad_()
    expected = torch.logsumexp(x, -1)
    result = log_sum_exp(x)
    torch.testing.assert_close(result, expected)
    (expected_gradient,) = torch.autograd.grad(expected.sum(), x)
    (gradient,) = torch.autograd.grad(result.sum(), x)
    torch.testing.assert_close(gradient, expected_gradient)
