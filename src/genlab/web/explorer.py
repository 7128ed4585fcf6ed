"""Latent explorer: change the latent code of an item and decode it.

This module imports torch, so only the page that needs it imports the module.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from genlab.vae.models.vae import VAE, to_array
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling.latents import principal_directions
from genlab.vae.training.checkpoint import load_checkpoint, require_shape
from genlab.web.files import cache_by_file
from genlab.web.items import load_items

Items = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Explorer:
    """A model with items and their posterior means (n, d).

    directions: (k, d), principal directions of the means, each scaled by the standard deviation
    along it. place_dim: latents per place of the latent map. side: places per side of the latent
    map, 0 if a place has less than one latent.
    """

    model: VAE
    items: Items
    means: Floats
    directions: Floats
    place_dim: int
    side: int

    def axes_at(self, row: int, col: int) -> Floats:
        """Return the latents at one place as directions (k, d), scaled by standard deviation."""
        start = (row * self.side + col) * self.place_dim
        return np.asarray(np.diag(self.means.std(axis=0))[start : start + self.place_dim])

    @torch.no_grad()
    def decode(self, code: Floats) -> Items:
        """Return the point estimate of p(x|z) at a code (d,)."""
        z = torch.from_numpy(code[None]).float()
        return np.asarray(to_array(self.model.point_estimate(z))[0])


@cache_by_file
def open_explorer(checkpoint: Path, data: Path) -> Explorer:
    """Load a checkpoint and encode test items of the dataset in the folder `data`.

    Raises a GenlabError if the checkpoint is missing, broken or of items with another shape.
    """
    model, _ = load_checkpoint(checkpoint, producer_command="dvc repro train")
    items = np.asarray(load_items(data, "test").items[:1000])  # enough for directions
    require_shape(model, items, data)
    means, _ = inference.encode(model, items)
    rows, lengths = principal_directions(means, min(6, means.shape[1]))
    shapes = model.architecture
    place_dim = shapes.latent_dim // shapes.tokens
    side = shapes.size // shapes.patch if place_dim else 0
    return Explorer(model, items, means, rows * lengths[:, None], place_dim, side)
