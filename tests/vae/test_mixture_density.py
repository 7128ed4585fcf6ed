"""The mixture density prior is the mixture that its docstring states."""

import tiny
import torch
from threadpoolctl import threadpool_limits
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

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
    logits, means, log_std, coupling = prior._mixture(prior.head.bias)
    assert coupling[1, 0] != 0
    assert not coupling.triu().any()
    inverse = torch.linalg.inv(torch.eye(2, dtype=torch.float64) - coupling)
    factors = inverse @ torch.diag_embed(log_std.exp())
    components = MultivariateNormal(means @ inverse.T, scale_tril=factors)
    expected = MixtureSameFamily(Categorical(logits=logits), components)
    z = torch.randn(6, 8, dtype=torch.float64)
    torch.testing.assert_close(prior.token_log_prob(z), expected.log_prob(z.view(6, 4, 2)))


@torch.no_grad()
def test_classes_are_the_clusters_of_the_codes_with_their_shares() -> None:
    prior = _prior()
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(3, 8, dtype=torch.float64)
    assert torch.equal(prior.token_log_prob(z), prior.class_log_prob(z, torch.arange(3)))
    centres = 6 * torch.randn(prior.CLASSES, 8, generator=generator, dtype=torch.float64)
    codes = centres.repeat(20, 1)
    codes = codes + 0.1 * torch.randn(codes.shape, generator=generator).double()
    prior.init_from_codes(codes[: prior.CLASSES - 1], codes, 0)
    assert not prior.class_shares().any()  # these are too few
    prior.init_from_codes(codes, codes, 0)
    classes = prior.global_class(codes)
    assert len(classes.unique()) > prior.CLASSES // 2
    assert torch.equal(classes, prior.global_class(codes + 0.01))
    shares = torch.bincount(classes, minlength=prior.CLASSES) / len(codes)
    expected = shares.double().clamp_min(1e-4)
    torch.testing.assert_close(prior.class_logits.softmax(0), expected, rtol=0.02, atol=1e-3)


def test_the_clusters_are_the_same_by_any_number_of_threads() -> None:
    codes = torch.randn(3000, 8, generator=torch.Generator().manual_seed(0))
    centres = []
    for threads in (1, 4):
        prior = _prior()
        with threadpool_limits(threads):
            prior.init_from_codes(codes, codes, 0)
        centres.append(prior.centres)
    assert torch.equal(*centres)
