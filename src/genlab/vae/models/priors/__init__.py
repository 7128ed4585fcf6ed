"""Priors p(z): the standard normal and two learned autoregressive ones."""

from collections.abc import Callable

from genlab.vae.models.priors.base import Prior, StandardPrior
from genlab.vae.models.priors.codebook import CodebookPrior
from genlab.vae.models.priors.mixture_density import MixtureDensityPrior

__all__ = ["PRIORS", "CodebookPrior", "MixtureDensityPrior", "Prior", "StandardPrior"]

# Each is made from latent_dim, tokens, width, depth, components and heads.
PRIORS: dict[str, Callable[..., Prior]] = {
    "standard": StandardPrior,
    "autoregressive": CodebookPrior,
    "autoregressive_mixture": MixtureDensityPrior,
}
