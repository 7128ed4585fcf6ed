"""What a trained VAE says about grids, as arrays: reconstructions, codes, bounds.

Grids go in as uint8 (n, size, size); every number that comes out is in nats a grid.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from genlab.vae import objective
from genlab.vae.likelihoods import categorical_log_prob
from genlab.vae.model import VAE
from genlab.vae.priors import normal_log_prob

BATCH = 250

Grids = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]


@torch.no_grad()
def reconstruct(model: VAE, grids: Grids) -> Grids:
    """The likeliest grid given the posterior mean of each grid: the same shape."""
    return np.concatenate([model.reconstruct(x).cpu().numpy() for x in _batches(model, grids)])


@torch.no_grad()
def posterior_means(model: VAE, grids: Grids) -> Floats:
    """Means of q(z|x): (n, latent_dim)."""
    means = [model.encode(x)[0].cpu().numpy() for x in _batches(model, grids)]
    return np.concatenate(means).astype(np.float64)


@torch.no_grad()
def bounds(model: VAE, grids: Grids, seed: int) -> tuple[Floats, Floats]:
    """(-log p(x|z), KL) of each grid at one z ~ q(z|x), each (n,); their sum is the -ELBO."""
    generator = torch.Generator().manual_seed(seed)
    reconstruction, kl = [], []
    for x in _batches(model, grids):
        noise = torch.randn(len(x), model.architecture.latent_dim, generator=generator)
        halves = model.bound(x, noise.to(x.device))
        reconstruction.append(-halves.log_likelihood.cpu().numpy())
        kl.append(halves.kl.cpu().numpy())
    return (
        np.concatenate(reconstruction).astype(np.float64),
        np.concatenate(kl).astype(np.float64),
    )


@torch.no_grad()
def log_weights(model: VAE, grids: Grids, samples: int, seed: int) -> Floats:
    """log p(x, z_k) - log q(z_k | x) for k = 1..samples of each grid: (n, samples)."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for x in _batches(model, grids, size=max(1, BATCH // samples)):
        repeated = x.repeat_interleave(samples, dim=0)
        mean, log_var = model.encode(repeated)
        noise = torch.randn(mean.shape, generator=generator).to(x.device)
        z = objective.reparameterise(mean, log_var, noise)
        log_joint = categorical_log_prob(model.decode(z), repeated) + model.prior.token_log_prob(
            z
        ).sum(1)
        log_ratio = log_joint - normal_log_prob(z, mean, log_var).sum(1)
        rows.append(log_ratio.view(len(x), samples).cpu().numpy())
    return np.concatenate(rows).astype(np.float64)


def _batches(model: VAE, grids: Grids, size: int = BATCH) -> Iterator[Tensor]:
    device = next(model.parameters()).device
    for start in range(0, len(grids), size):
        yield torch.from_numpy(grids[start : start + size]).to(device)
