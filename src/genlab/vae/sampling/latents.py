"""Directions in which codes vary, and interpolations between codes."""

import numpy as np
import numpy.typing as npt

from genlab.vae.models.vae import VAE, Items
from genlab.vae.sampling import posterior as inference

Floats = npt.NDArray[np.float64]


def principal_directions(means: Floats, count: int) -> tuple[Floats, Floats]:
    """Where codes (n, d) vary most: `count` unit rows (count, d) and their std (count,)."""
    values, vectors = np.linalg.eigh(np.cov(means.T))
    order = np.argsort(-values)[:count]
    return vectors[:, order].T, np.sqrt(np.maximum(values[order], 0.0))


def interpolate(model: VAE, first: Floats, second: Floats, steps: int) -> Items:
    """From codes `first` to `second`, each (r, d), in a straight line: (r, steps, ...) items."""
    share = np.linspace(0, 1, steps)[None, :, None]
    codes = first[:, None] * (1 - share) + second[:, None] * share
    items = inference.decode(model, codes.reshape(-1, codes.shape[-1]))
    return items.reshape(*codes.shape[:2], *items.shape[1:])
