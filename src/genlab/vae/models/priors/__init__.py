"""Priors p(z): the standard normal and two learned autoregressive ones."""

from __future__ import annotations

from genlab.vae.models.priors.base import Prior, StandardPrior
from genlab.vae.models.priors.codebook import CodebookPrior
from genlab.vae.models.priors.mixture_density import MixtureDensityPrior

__all__ = ["CodebookPrior", "MixtureDensityPrior", "Prior", "StandardPrior", "make_prior"]

LEARNED = {"autoregressive": CodebookPrior, "autoregressive_mixture": MixtureDensityPrior}


def make_prior(
    name: str, latent_dim: int, tokens: int, width: int, depth: int, components: int
) -> Prior:
    """Make the prior `name`. Raises KeyError for an unknown one."""
    if name == "standard":
        return StandardPrior(latent_dim)
    return LEARNED[name](latent_dim, tokens, width, depth, components)
