"""The latent explorer: move the code of an item and decode it.

It imports torch: only the page that needs it imports this module.
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
from genlab.web.files import fresh
from genlab.web.items import load_items

Items = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Explorer:
    """A model with the posterior means of some items, (n, d).

    directions: (k, d), principal directions of the means, each as long as their standard deviation
    along it. place_dim: latents per place of the map of latents. side: places along a side of the
    map; 0 where a place has less than one latent.
    """

    model: VAE
    items: Items
    means: Floats
    directions: Floats
    place_dim: int
    side: int

    def axes_at(self, row: int, col: int) -> Floats:
        """The latents at one place as directions (k, d), as long as their standard deviations."""
        start = (row * self.side + col) * self.place_dim
        return np.asarray(np.diag(self.means.std(axis=0))[start : start + self.place_dim])

    @torch.no_grad()
    def decode(self, code: Floats) -> Items:
        """Point estimate of p(x|z) at a code (d,)."""
        z = torch.from_numpy(code[None]).float()
        return np.asarray(to_array(self.model.point_estimate(z))[0])


@fresh
def open_explorer(checkpoint: Path, data: Path) -> Explorer:
    """A checkpoint with the codes of test items of the dataset in the folder `data`.

    Raises a GenlabError where it is missing or broken, or was trained on other items.
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
