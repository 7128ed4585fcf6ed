"""Samplers: a distribution over latents, then the decoder.

- `prior`: z ~ p(z), the model's prior.
- `ancestral`: the same z, with each cell or pixel drawn from p(x|z) at temperature 1: the model's
  exact distribution.
- `gmm`: z from a mixture of normals fitted to the aggregate posterior of training items (Ghosh et
  al. 2020), which helps where the codes do not fill an N(0, I) prior; the number of components is
  chosen on held-out codes.
- `rejection`: draws of the prior, of which a discriminator accepts some (`rejection`).
- `posterior`: z ~ q(z|x) of random training items: what the decoder would give if the prior were
  perfect. It sees data, so it is a diagnostic and no sampler of the model.

Except for `ancestral`, items are point estimates of p(x|z), or draws from it at a given
temperature: only draws show the dependent pixels of a model with a causal head.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from genlab.core.errors import GenlabError
from genlab.distributions.gaussian import reparameterize
from genlab.vae.models.vae import VAE, Items, to_array
from genlab.vae.sampling import densities, rejection
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling.latents import DrawLatents

OF_GRIDS = ("prior", "ancestral")
OF_IMAGES = ("prior", "ancestral", "gmm", "rejection", "posterior")
DRAWS = 20_000  # default number of expected draws
MIXED = 10_000  # training items that a mixture is fitted to: more would take too long
PER_DRAW = 4  # images that a discriminator is trained on, per expected draw
BATCH = 500


@dataclass
class Sampler:
    """A way to draw latents, and how it was fitted."""

    name: str
    draw: DrawLatents
    facts: dict[str, Any] = field(default_factory=dict)


def list_names(model: VAE) -> tuple[str, ...]:
    """List the samplers of a model, in the order of reports."""
    return OF_IMAGES if model.architecture.channels else OF_GRIDS


def fit(model: VAE, name: str, train: Items, seed: int, count: int = DRAWS) -> Sampler:
    """Fit the sampler `name` to the codes of training items.

    count: about how many draws are expected; a discriminator is trained on PER_DRAW images for
    each. Raises a GenlabError where there is no such sampler, or it cannot be fitted to the codes.
    """
    available = list_names(model)
    if name not in available:
        raise GenlabError(f"sampler must be one of {', '.join(available)}, got {name!r}")
    if name in ("prior", "ancestral"):
        return Sampler(name, model.prior.sample)
    if name == "posterior":
        return Sampler(name, partial(_draw_posterior, model, train))
    items = MIXED if name == "gmm" else PER_DRAW * count
    mean, log_var = inference.encode(model, train[:items])
    # Draws from the posteriors, not their means: the decoder was trained on draws.
    rng = np.random.default_rng([seed, 1])
    codes = mean + np.exp(0.5 * log_var) * rng.standard_normal(mean.shape)
    if name == "gmm":
        return Sampler(name, *densities.fit_gmm(codes, seed))

    def draw(number: int, generator: torch.Generator) -> Tensor:
        return model.prior.sample(number, generator).cpu()

    @torch.no_grad()
    def decode(z: Tensor) -> Tensor:
        return model.point_estimate(z.to(model.device)).cpu()

    real = train[: len(codes)]
    z = torch.from_numpy(codes).float()
    return Sampler(name, *rejection.fit_rejection(draw, decode, real, z, seed))


def sample(
    model: VAE, sampler: Sampler, count: int, seed: int, temperature: float | None = None
) -> Items:
    """Draw `count` items, grids (count, size, size) or images (count, size, size, channels).

    temperature: of the draws from p(x|z). (default: 1 for `ancestral`, point estimates for the
    others)
    """
    if sampler.name == "ancestral":
        temperature = 1.0
    return decode(model, draw_codes(sampler, count, seed), seed, temperature)


def sample_all(
    model: VAE, fitted: Mapping[str, Sampler], count: int, seed: int
) -> dict[str, Items]:
    """Draw items from several samplers; those with the same distribution share the latents."""
    sources = {sampler.draw for sampler in fitted.values()}
    codes = {draw: draw_codes(Sampler("", draw), count, seed) for draw in sources}
    return {
        name: decode(model, codes[sampler.draw], seed, 1.0 if name == "ancestral" else None)
        for name, sampler in fitted.items()
    }


def draw_codes(sampler: Sampler, count: int, seed: int) -> Tensor:
    """Draw the latents of `count` items: (count, latent_dim)."""
    generator = torch.Generator().manual_seed(seed)
    sizes = [min(BATCH, count - start) for start in range(0, count, BATCH)]
    return torch.cat([sampler.draw(size, generator).cpu() for size in sizes])


@torch.no_grad()
def decode(model: VAE, z: Tensor, seed: int, temperature: float | None = None) -> Items:
    """Decode latents (n, latent_dim): draws from p(x|z), point estimates without a temperature.

    The random numbers of an item depend on `seed` and its position, not on the temperature.
    """
    items = []
    for start in range(0, len(z), BATCH):
        batch = z[start : start + BATCH].to(model.device)
        if temperature is None:
            decoded = model.point_estimate(batch)
        else:
            generator = torch.Generator().manual_seed(seed + 1 + start)
            decoded = model.sample(batch, generator, temperature)
        items.append(to_array(decoded))
    return np.concatenate(items)


def _draw_posterior(model: VAE, train: Items, count: int, generator: torch.Generator) -> Tensor:
    rows = torch.randint(len(train), (count,), generator=generator).numpy()
    means, log_vars = inference.encode(model, train[rows])
    mean = torch.from_numpy(means).float()
    log_var = torch.from_numpy(log_vars).float()
    return reparameterize(mean, log_var, torch.randn(mean.shape, generator=generator))
