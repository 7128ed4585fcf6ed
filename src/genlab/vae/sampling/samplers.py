"""Samplers: a distribution over latents, then the decoder.

- `prior`: z ~ p(z), the model's prior, and the point estimate of p(x|z).
- `ancestral`: the same z, with each cell or pixel drawn from p(x|z): the model's exact
  distribution.
- `normal`: z ~ N(0, I), whatever the prior; beside a learned prior it shows what codes would give
  without knowledge of where they lie.
- `gaussian`: z from a normal fitted to the aggregate posterior of training items (Ghosh et al.
  2020), which fixes an N(0, I) prior that the codes don't fill.
- `gmm`: a mixture of normals fitted to them, with as many components as held-out codes like best.
- `accepted`: draws of a learned prior, thinned by a discriminator (`rejection`).
- `flow`: an autoregressive density fitted to them, where the prior is N(0, I): a learned prior is
  such a density already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from genlab.core.errors import GenlabError
from genlab.vae.models.vae import VAE, Items, to_array
from genlab.vae.sampling import densities, rejection
from genlab.vae.sampling import posterior as inference

OF_GRIDS = ("prior", "ancestral", "gaussian")
OF_STANDARD = ("prior", "ancestral", "gaussian", "gmm", "flow")
OF_LEARNED = ("accepted", "prior", "ancestral", "normal", "gaussian", "gmm")
FITTED_ON = 20_000  # training items behind the aggregate posterior
MIXED = 10_000  # of them behind a mixture, whose fit takes longer than all else otherwise
PER_DRAW = 4
BATCH = 500

Draw = Callable[[int, torch.Generator], Tensor]


@dataclass
class Sampler:
    """A way to draw latents, and how it was fitted."""

    name: str
    draw: Draw
    facts: dict[str, Any] = field(default_factory=dict)


def names(model: VAE) -> tuple[str, ...]:
    """The samplers that say something about `model`, in the order of reports."""
    if not model.architecture.channels:
        return OF_GRIDS
    return OF_STANDARD if model.architecture.prior == "standard" else OF_LEARNED


def fit(model: VAE, name: str, train: Items, seed: int, count: int = FITTED_ON) -> Sampler:
    """Fit the sampler `name` to the codes of training items.

    count: how many draws are wanted, about: a discriminator takes PER_DRAW images for each.
    Raises GenlabError where there is no such sampler, or it cannot be fitted to these codes.
    """
    known = names(model)
    if name not in known:
        raise GenlabError(f"sampler must be one of {', '.join(known)}, got {name!r}")
    if name in ("prior", "ancestral"):
        return Sampler(name, model.prior.sample)
    if name == "normal":
        dim = model.architecture.latent_dim
        return Sampler(name, lambda count, generator: torch.randn(count, dim, generator=generator))
    items = {"accepted": PER_DRAW * count, "gmm": MIXED}.get(name, FITTED_ON)
    mean, log_var = inference.encode(model, train[:items])
    if name == "gaussian":
        return Sampler(name, densities.fit_gaussian(mean))
    # Draws from the posteriors, not their means: what the decoder was trained on.
    rng = np.random.default_rng([seed, 1])
    codes = mean + np.exp(0.5 * log_var) * rng.standard_normal(mean.shape)
    if name == "gmm":
        return Sampler(name, *densities.fit_gmm(codes, seed))
    if name == "flow":
        return Sampler(name, *densities.fit_flow(codes, model.architecture.tokens, seed))

    def decode(z: Tensor) -> Tensor:
        return _decode(model, z)

    real, z = train[: len(codes)], torch.from_numpy(codes).float()
    return Sampler(name, *rejection.fit_rejection(model.prior.sample, decode, real, z, seed))


def sample(model: VAE, sampler: Sampler, count: int, seed: int) -> Items:
    """Draw `count` items, grids (count, size, size) or images (count, size, size, channels)."""
    generator = torch.Generator().manual_seed(seed)
    items = []
    for start in range(0, count, BATCH):
        z = sampler.draw(min(BATCH, count - start), generator)
        drawn = _decode(model, z, generator if sampler.name == "ancestral" else None)
        items.append(to_array(drawn))
    return np.concatenate(items)


@torch.no_grad()
def _decode(model: VAE, z: Tensor, generator: torch.Generator | None = None) -> Tensor:
    """The point estimates of p(x|z), or with a generator draws from it; on the CPU."""
    z = z.to(next(model.decoder.parameters()).device)
    return (model.sample(z, generator) if generator else model.point_estimate(z)).cpu()
