"""The latent explorer: the code of an item, moved along directions or at a place, decoded.

It imports torch: only the page that needs it imports this module.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from genlab.vae.models.vae import VAE, to_array
from genlab.vae.sampling import posterior as inference
from genlab.vae.sampling.latents import principal_directions
from genlab.vae.training.checkpoint import find_checkpoint, load_checkpoint, require_shape

Items = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

ENCODED = 1000
"""Items whose codes tell which directions there are and how far codes reach."""

DIRECTIONS = 6
REACH = 3.0
"""How far a slider goes, in standard deviations over items."""


@dataclass(frozen=True, eq=False)
class Explorer:
    """A model with the codes of some items: means (n, d), and how they spread.

    directions: unit rows (k, d) along which codes vary most; lengths: (k,) their standard
    deviations; spread: (d,) the standard deviation of each latent.
    """

    model: VAE
    items: Items
    means: Floats
    directions: Floats
    lengths: Floats
    spread: Floats

    @property
    def places(self) -> int:
        """Places along a side of the map of latents; 0 where a place has less than one latent."""
        a = self.model.architecture
        return a.size // a.patch if self.place_dim else 0

    @property
    def place_dim(self) -> int:
        """Latents at a place."""
        return self.model.architecture.latent_dim // self.model.architecture.tokens

    def along(self, index: int, steps: Sequence[float]) -> Floats:
        """The code of item `index`, moved by so many standard deviations along each direction."""
        lengths = np.asarray(steps) * self.lengths[: len(steps)]
        moved: Floats = self.means[index] + lengths @ self.directions[: len(steps)]
        return moved

    def at(self, index: int, row: int, col: int, steps: Sequence[float]) -> Floats:
        """The code of item `index` with the latents at one place moved by standard deviations."""
        start = (row * self.places + col) * self.place_dim
        code = np.array(self.means[index])
        here = slice(start, start + len(steps))
        code[here] += np.asarray(steps) * self.spread[here]
        return np.asarray(code)

    @torch.no_grad()
    def decode(self, code: Floats) -> Items:
        """The item that stands for p(x|z) at a code (d,)."""
        z = torch.from_numpy(code[None]).float()
        shown: Items = to_array(self.model.point_estimate(z))[0]
        return shown


def open_explorer(trained: Path, items: Items, data: Path) -> Explorer:
    """The checkpoint in the folder `trained`, with the codes of `items` (the first ENCODED).

    Raises a GenlabError where it is missing or broken, or made for other items than `data`'s.
    """
    path = find_checkpoint(trained.name, trained)
    model, _ = load_checkpoint(path, producer_command="dvc repro train")
    some = np.asarray(items[:ENCODED])
    require_shape(model, some, data)
    means, _ = inference.encode(model, some)
    rows, lengths = principal_directions(means, min(DIRECTIONS, means.shape[1]))
    return Explorer(model, some, means, rows, lengths, means.std(axis=0))


def changed(before: Items, after: Items) -> str:
    """How much of an item moved, in words: cells of a grid, levels of an image."""
    if before.ndim == 2:
        count = int((before != after).sum())
        return f"{count} cell{'s' * (count != 1)} changed"
    moved = np.abs(before.astype(np.int16) - after.astype(np.int16)).mean()
    return f"{moved:.1f} of 255 levels a pixel"
