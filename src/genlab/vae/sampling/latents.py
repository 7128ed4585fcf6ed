"""Samplers of latents, principal directions of codes, and interpolation between codes."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from genlab.vae.models.vae import VAE, Items
from genlab.vae.sampling import posterior as inference

Floats = npt.NDArray[np.float64]
DrawLatents = Callable[[int, torch.Generator], Tensor]  # (count, generator) -> (count, latent_dim)


def principal_directions(means: Floats, count: int) -> tuple[Floats, Floats]:
    """Find the `count` directions in which codes (n, d) vary most.

    Returns unit rows (count, d), and the standard deviations along them (count,).
    """
    values, vectors = np.linalg.eigh(np.cov(means.T))
    order = np.argsort(-values)[:count]
    return vectors[:, order].T, np.sqrt(np.maximum(values[order], 0.0))


def interpolate(model: VAE, first: Floats, second: Floats, steps: int) -> Items:
    """Decode points on the lines between codes `first` and `second`, each (r, d).

    Returns items (r, steps, ...).
    """
    share = np.linspace(0, 1, steps)[None, :, None]
    codes = first[:, None] * (1 - share) + second[:, None] * share
    items = inference.decode(model, codes.reshape(-1, codes.shape[-1]))
    return items.reshape(*codes.shape[:2], *items.shape[1:])
