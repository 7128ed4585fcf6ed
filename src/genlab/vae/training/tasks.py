"""What training asks of its items: how they become a batch, what they cost, how well they do."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from genlab.core.geometry import side_of
from genlab.core.params import Params
from genlab.distributions.likelihoods import class_weights, focal_nll
from genlab.vae.models.vae import VAE, Architecture
from genlab.vae.sampling import posterior as inference
from genlab.vae.training.batches import corrupt

LEVELS = 256

Items = npt.NDArray[np.uint8]


class Task(ABC):
    """Items of one sort in the trainer's hands; `items` are the training ones."""

    accuracy = "psnr"  # what a progress line shows besides the bound

    def __init__(self, params: Params, items: Items, architecture: Architecture) -> None:
        self.params, self.items, self.architecture = params, items, architecture

    @abstractmethod
    def numbers(self, shown: Tensor, x: Tensor) -> dict[str, float]:
        """How near reconstructions come to their originals."""

    def batch(self, rows: npt.NDArray[np.int64]) -> Tensor:
        """The training items `rows` as the model takes them."""
        return inference.tensor(self.items[rows])

    def changed(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """What of a batch is trained on."""
        return x

    def nll(self, model: VAE, out: Tensor, x: Tensor) -> Tensor:
        """What reconstruction costs in the training loss: (batch,), nats."""
        return -model.likelihood.log_prob(out, x)


class GridTask(Task):
    """Grids (n, size, size): focal loss, class weights and corruption, as beta leaves them."""

    accuracy = "exact_grid_accuracy"

    def __init__(self, params: Params, items: Items, architecture: Architecture) -> None:
        super().__init__(params, items, architecture)
        counts = torch.from_numpy(np.bincount(items.ravel(), minlength=architecture.classes))
        self.weights = class_weights(counts / counts.sum(), params.class_balance_exponent)

    @property
    def fade(self) -> float:
        """How much of focal exponent, class weights and corruption is left at this beta_max."""
        return max(0.0, 1.0 - self.params.beta_max)

    def changed(self, x: Tensor, generator: torch.Generator) -> Tensor:
        share = self.params.corruption * self.fade
        return corrupt(x, share, self.architecture.classes, generator)

    def nll(self, model: VAE, out: Tensor, x: Tensor) -> Tensor:
        weights = self.weights.to(out.device) ** self.fade
        return focal_nll(out, x, self.params.focal_gamma * self.fade, weights)

    def numbers(self, shown: Tensor, x: Tensor) -> dict[str, float]:
        right = shown == x
        values = {
            "pixel_accuracy": float(right.float().mean()),
            "exact_grid_accuracy": float(right.flatten(1).all(1).float().mean()),
        }
        for colour in range(self.architecture.classes):
            cells = right[x == colour]
            if len(cells):  # a colour may be absent from a small validation split
                values[f"per_class_accuracy/{colour}"] = float(cells.float().mean())
        return values


class ImageTask(Task):
    """Images (n, side, side, channels), read from disk as they are asked for."""

    def numbers(self, shown: Tensor, x: Tensor) -> dict[str, float]:
        errors = ((shown.float() - x.float()) / (LEVELS - 1)).square().flatten(1).mean(1)
        rounding = 1 / (12 * (LEVELS - 1) ** 2)  # no image of 8 bits shows a smaller error
        return {
            "mse": float(errors.mean()),
            "psnr": float(-10 * errors.clamp_min(rounding).log10().mean()),
        }


def make_task(params: Params, dataset: str, items: Items, classes: int) -> Task:
    """The task of training on `items` of `dataset`: grids (n, h, w) or images (n, h, w, c)."""
    channels = items.shape[3] if items.ndim == 4 else 0
    architecture = _architecture(params, side_of(params, dataset), classes, channels)
    kind: type[Task] = ImageTask if channels else GridTask
    return kind(params, items, architecture)


def _architecture(params: Params, side: int, classes: int, channels: int) -> Architecture:
    own: dict[str, Any] = {"size": side, "classes": classes, "channels": channels}
    asked = {
        name: getattr(params, name) for name in Architecture.__annotations__ if name not in own
    }
    return Architecture(**own, **asked)
