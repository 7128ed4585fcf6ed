"""Use a trained model: draw samples, encode items to latents, reconstruct items.

from genlab.models import load_model
model = load_model("fashion_mnist")
samples = model.sample(64)
latents = model.encode(model.read("photos").items)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write
from genlab.core.params import Params, load_params
from genlab.core.params.catalogue import PUBLISHED
from genlab.core.params.sections import SourceParams
from genlab.grids.palette import BLACK, COLOURS, PADDING, to_rgb
from genlab.vae.models.vae import VAE, Items
from genlab.vae.sampling import posterior, samplers
from genlab.vae.training.checkpoint import find_checkpoint, load_checkpoint

COLUMNS = 16  # items of a row of a sheet
SIDE = 64  # least pixels of an item on a sheet
GAP = 2


@dataclass(frozen=True)
class Batch:
    """Items as a model takes them, (n, ...) uint8, and what each is called."""

    items: Items
    names: list[str]


@dataclass(frozen=True)
class TrainedModel:
    """The model of a dataset, from its own training or else the released one."""

    name: str
    model: VAE
    params: Params

    @property
    def is_grids(self) -> bool:
        """Whether its items are grids, (n, side, side); images are (n, side, side, channels)."""
        return not self.model.architecture.channels

    def sample(self, count: int, seed: int = 0, temperature: float | None = None) -> Items:
        """Draw items from the prior.

        temperature: of the draws from p(x|z); None: point estimates of images, 1 for grids.
        """
        name = "ancestral" if self.is_grids and temperature is None else "prior"
        sampler = samplers.fit(self.model, name, np.empty(0, np.uint8), seed)
        return samplers.sample(self.model, sampler, count, seed, temperature)

    def encode(self, items: Items) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Mean and log variance of q(z|x), each (n, latent_dim)."""
        return posterior.encode(self.model, self._check(items))

    def reconstruct(self, items: Items) -> Items:
        """The items that the posterior means stand for."""
        return posterior.reconstruct(self.model, self._check(items))

    def read(self, path: str | Path) -> Batch:
        """Read items of a path as those of the dataset were read.

        Pictures or grids in any convention of `datasets.readers`; smaller grids are padded, by
        black where the model knows no padding. Raises GenlabError where they cannot be read.
        """
        from genlab.datasets.readers.grids import read_grids
        from genlab.datasets.readers.opening import read_pictures

        if self.is_grids:
            side = self.model.architecture.size
            found = read_grids(SourceParams(path=str(path), kind="grids", size=side))
            grids = found.grids
            if self.model.architecture.classes == COLOURS:
                grids = np.where(grids == PADDING, BLACK, grids).astype(np.uint8)
            return Batch(grids, found.names)
        architecture = self.model.architecture
        stated: dict[str, Any] = {"path": str(path), "labels": "none", "size": architecture.size}
        stated["channels"] = "grey" if architecture.channels == 1 else "rgb"
        if self.name not in PUBLISHED:
            source = self.params.dataset(self.name).source
            stated = {**(source.effective() if source else {}), **stated}
        pictures = read_pictures(SourceParams.model_validate(stated))
        names = [pictures.collection.names[row] for row in pictures.fitted.facts.rows]
        return Batch(pictures.fitted.levels, names)

    def _check(self, items: Items) -> Items:
        wanted = self.model.architecture.item_shape
        if items.dtype != np.uint8 or items.shape[1:] != wanted:
            message = f"items must be uint8 (n, {', '.join(map(str, wanted))})"
            raise GenlabError(f"{message}, got {items.dtype} {items.shape}")
        return items


def load_model(name: str, params: Params | None = None) -> TrainedModel:
    """Load the model of a dataset. Raises GenlabError where there is none, or no such dataset."""
    params = params or load_params()
    params.dataset(name)
    path = find_checkpoint(name)
    model, _ = load_checkpoint(path, producer_command=f"dvc repro train@{name}")
    return TrainedModel(name, model.to(engine.select_device(params.device)), params)


def draw_sheet(path: Path, rows: Sequence[Items]) -> None:
    """Save items as one PNG: of several sequences of equal length, one above the other."""
    count = len(rows[0])
    bands = []
    for start in range(0, count, COLUMNS):
        bands += [_draw_row(items[start : start + COLUMNS]) for items in rows]
    width = max(band.shape[1] for band in bands)
    padded = [
        np.pad(band, [(0, GAP), (0, width - band.shape[1]), (0, 0)], constant_values=128)
        for band in bands
    ]
    with atomic_write(path) as part:
        Image.fromarray(np.concatenate(padded)).save(part, "PNG")


def _draw_row(items: Items) -> Items:
    pixels = to_rgb(items) if items.ndim == 3 else items
    scale = max(1, -(-SIDE // pixels.shape[1]))
    pixels = np.broadcast_to(pixels, (*pixels.shape[:3], 3)).repeat(scale, 1).repeat(scale, 2)
    tiles = [np.pad(tile, [(0, 0), (0, GAP), (0, 0)], constant_values=128) for tile in pixels]
    return np.concatenate(tiles, axis=1)
