"""Where new items come from: a distribution over latents, then the decoder.

- `prior`: z ~ p(z), the model's own prior, and the item that stands for p(x|z).
- `ancestral`: the same z, with each cell or pixel drawn from p(x|z): the model's exact
  distribution, at temperature 1.
- `normal`: z ~ N(0, I), whatever the prior; of images whose prior is learned, it shows what the
  codes would give to one who didn't know how they lie.
- `gaussian`: z from a normal fitted to the aggregate posterior of training items (Ghosh et al.
  2020), which fixes an N(0, I) prior that the codes don't fill.
- `gmm`: a mixture of normals fitted to them, as many as held-out codes like best.
- `accepted`: draws of a learned prior, thinned by a discriminator (`acceptance`).
- `flow`: an autoregressive density fitted to them (`mixture_prior`), where the prior is N(0, I): a
  learned prior is such a density already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from genlab.core.errors import GenlabError
from genlab.vae.models.vae import VAE, Items, to_array
from genlab.vae.sampling import densities
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling import rejection as acceptance

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
    """The sampler `name`, fitted to what the encoder makes of `train` where it is to be.

    count: how many draws are wanted, about: a discriminator takes PER_DRAW images for each.

    Raises GenlabError where there is no such sampler, or it cannot be fitted to these codes.
    """
    known = names(model)
    if name not in known:
        raise GenlabError(f"sampler must be one of {', '.join(known)}, got {name!r}")
    dim = model.architecture.latent_dim
    if name in ("prior", "ancestral"):
        return Sampler(name, model.prior.sample)
    if name == "normal":
        return Sampler(name, lambda count, generator: torch.randn(count, dim, generator=generator))
    items = {"accepted": PER_DRAW * count, "gmm": MIXED}.get(name, FITTED_ON)
    mean, log_var = inference.encode(model, train[:items])
    if name == "gaussian":
        return Sampler(name, densities.gaussian(mean))
    # Draws from the posteriors, not their means: what the decoder was trained on.
    rng = np.random.default_rng([seed, 1])
    codes = mean + np.exp(0.5 * log_var) * rng.standard_normal(mean.shape)
    if name == "accepted":
        draw, facts = acceptance.accepted(
            model.prior.sample,
            partial(_shown, model),
            train[: len(codes)],
            torch.from_numpy(codes).float(),
            seed,
        )
        return Sampler(name, draw, facts)
    if name == "gmm":
        draw, facts = densities.mixture(codes, seed)
        return Sampler(name, draw, facts)
    draw, facts = densities.autoregressive(codes, model.architecture.tokens, seed)
    return Sampler(name, draw, facts)


@torch.no_grad()
def sample(model: VAE, sampler: Sampler, count: int, seed: int) -> Items:
    """`count` items, grids (count, size, size) or images (count, size, size, channels)."""
    generator = torch.Generator().manual_seed(seed)
    items = []
    for start in range(0, count, BATCH):
        z = sampler.draw(min(BATCH, count - start), generator)
        drawn = _drawn(model, z, generator) if sampler.name == "ancestral" else _shown(model, z)
        items.append(to_array(drawn))
    return np.concatenate(items)


@torch.no_grad()
def _shown(model: VAE, z: Tensor) -> Tensor:
    """The items that stand for p(x|z)."""
    return model.likelihood.cpu().point_estimate(_decoded(model, z))


def _drawn(model: VAE, z: Tensor, generator: torch.Generator) -> Tensor:
    """Items drawn from p(x|z)."""
    return model.likelihood.cpu().sample(_decoded(model, z), generator)


def _decoded(model: VAE, z: Tensor) -> Tensor:
    return model.decode(z.to(next(model.decoder.parameters()).device)).cpu()
