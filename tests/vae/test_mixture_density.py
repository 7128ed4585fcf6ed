"""The mixture density prior is the mixture it says, and learns what binds tokens."""

import math

import tiny
import torch
from threadpoolctl import threadpool_limits
from torch import Tensor
from torch.distributions import (
    Categorical,
    Independent,
    MixtureSameFamily,
    MultivariateNormal,
    Normal,
)

from genlab.distributions.gaussian import LOG_TWO_PI
from genlab.vae.models.priors import MixtureDensityPrior


def _prior(latent_dim: int = 8, tokens: int = 4, components: int = 3) -> MixtureDensityPrior:
    torch.manual_seed(0)
    prior = MixtureDensityPrior(
        latent_dim, tokens, width=8, depth=2, components=components, heads=0
    )
    return tiny.stir(prior).double()


@torch.no_grad()
def test_a_density_that_ignores_its_inputs_is_the_mixture_of_torch_distributions() -> None:
    prior = _prior()
    prior.head.weight.zero_()
    logits, means, log_std = prior._mixture(prior.head.bias)
    components = Independent(Normal(means, log_std.exp()), 1)
    expected = MixtureSameFamily(Categorical(logits=logits), components)
    z = torch.randn(6, 8, dtype=torch.float64)
    torch.testing.assert_close(prior.token_log_prob(z), expected.log_prob(z.view(6, 4, 2)))


def _bound_tokens(count: int, seed: int) -> Tensor:
    """Four tokens of one number each, every one bound to the one before it: not a normal."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(count, 4, generator=generator)
    sign = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    z = [2 * sign + 0.3 * noise[:, 0]]
    for t in range(1, 4):
        z.append(z[-1].abs() - 1 + 0.3 * noise[:, t])
    return torch.stack(z, dim=1)


def test_it_learns_what_binds_tokens_where_a_normal_cannot() -> None:
    torch.manual_seed(0)
    prior = MixtureDensityPrior(4, 4, width=16, depth=2, components=4, heads=0)
    train, test = _bound_tokens(4000, 0), _bound_tokens(1000, 1)
    optimizer = torch.optim.AdamW(prior.parameters(), lr=1e-2)
    for step in range(150):
        batch = train[(step * 64) % 4000 :][:64]
        loss = -prior.token_log_prob(batch).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    found = -float(prior.token_log_prob(test).sum(1).mean().detach())
    truth = 4 * (0.5 + LOG_TWO_PI / 2 + math.log(0.3)) + math.log(2)
    normal = MultivariateNormal(train.mean(0), torch.cov(train.T))
    assert truth - 0.2 < found < truth + 0.5
    assert found < -float(normal.log_prob(test).mean()) - 1.0


@torch.no_grad()
def test_classes_are_the_clusters_of_the_codes_with_their_shares() -> None:
    prior, generator = _prior(), torch.Generator().manual_seed(0)
    z = torch.randn(3, 8, dtype=torch.float64)
    assert prior.global_class(z) is None  # until there are clusters
    centres = 6 * torch.randn(prior.CLASSES, 8, generator=generator, dtype=torch.float64)
    codes = centres.repeat(5, 1) + 0.1 * torch.randn(320, 8, generator=generator).double()
    prior.init_from_codes(codes[: prior.CLASSES - 1], codes, 0)
    assert prior.global_class(z) is None  # these are too few
    prior.init_from_codes(codes, codes, 0)
    found, near = prior.global_class(codes), prior.global_class(codes + 0.01)
    assert found is not None
    assert near is not None
    assert len(found.unique()) > prior.CLASSES // 2
    assert torch.equal(found, near)
    shares = torch.bincount(found, minlength=prior.CLASSES) / len(codes)
    expected = shares.double().clamp_min(1e-4)
    torch.testing.assert_close(prior.class_logits.softmax(0), expected, rtol=0.02, atol=1e-3)


def test_the_clusters_are_the_same_by_any_number_of_threads() -> None:
    codes, found = torch.randn(3000, 8, generator=torch.Generator().manual_seed(0)), []
    for threads in (1, 4):
        prior = _prior()
        with threadpool_limits(threads):
            prior.init_from_codes(codes, codes, 0)
        found.append(prior.centres)
    assert torch.equal(*found)
