"""What differs between training on grids and on images: batches, loss and accuracy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from genlab.core.geometry import side_of
from genlab.core.params import Params
from genlab.distributions.likelihoods import LEVELS
from genlab.vae.models.vae import VAE, Architecture, Items, to_tensor
from genlab.vae.training.batches import corrupt
from genlab.vae.training.objective import balance_classes, focal_nll

AUXILIARY = 0.3  # weight of -log p(x|z) without the causal head in the loss


class Task(ABC):
    """The training items, and what training asks about them."""

    accuracy: str  # the accuracy that the summary shows per epoch

    def __init__(self, params: Params, items: Items, architecture: Architecture) -> None:
        self.params, self.items, self.architecture = params, items, architecture

    @abstractmethod
    def measure_accuracy(self, reconstructed: Tensor, x: Tensor) -> dict[str, float]:
        """How near reconstructions come to their originals."""

    def batch(self, rows: npt.NDArray[np.int64]) -> Tensor:
        """The training items `rows` as the model takes them."""
        return to_tensor(self.items[rows])

    def augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        """Corrupt a batch, where the params ask for it."""
        return x

    @abstractmethod
    def nll(self, model: VAE, decoded: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
        """What reconstruction costs in the training loss: (batch,), nats."""


class GridTask(Task):
    """Grids (n, size, size): focal loss, class weights and corruption, faded by beta_max."""

    accuracy = "exact_grid_accuracy"

    def __init__(self, params: Params, items: Items, architecture: Architecture) -> None:
        super().__init__(params, items, architecture)
        counts = torch.from_numpy(np.bincount(items.ravel(), minlength=architecture.classes))
        self.weights = balance_classes(counts / counts.sum(), params.class_balance_exponent)
        self.fade = max(0.0, 1.0 - params.beta_max)

    def augment(self, x: Tensor, generator: torch.Generator) -> Tensor:
        share = self.params.corruption * self.fade
        return corrupt(x, share, self.architecture.classes, generator)

    def nll(self, model: VAE, decoded: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
        out, _ = decoded
        weights = self.weights.to(out.device) ** self.fade
        return focal_nll(out, x, self.params.focal_gamma * self.fade, weights)

    def measure_accuracy(self, reconstructed: Tensor, x: Tensor) -> dict[str, float]:
        right = reconstructed == x
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

    accuracy = "psnr"

    def nll(self, model: VAE, decoded: tuple[Tensor, Tensor], x: Tensor) -> Tensor:
        """-log p(x|z); beside a causal head also that of the decoder alone, with a small weight.

        The decoder alone gives the reconstructions, and z has to carry what they show.
        """
        nll = -model.log_likelihood(decoded, x)
        return nll - AUXILIARY * model.likelihood.log_prob(decoded[0], x) if model.head else nll

    def measure_accuracy(self, reconstructed: Tensor, x: Tensor) -> dict[str, float]:
        errors = ((reconstructed.float() - x.float()) / (LEVELS - 1)).square().flatten(1).mean(1)
        rounding = 1 / (12 * (LEVELS - 1) ** 2)  # no image of 8 bits shows a smaller error
        return {
            "mse": float(errors.mean()),
            "psnr": float(-10 * errors.clamp_min(rounding).log10().mean()),
        }


def make_task(params: Params, dataset: str, items: Items, classes: int) -> Task:
    """Make the task of training on `items` of `dataset`: (n, h, w) or (n, h, w, channels)."""
    channels = items.shape[3] if items.ndim == 4 else 0
    given: dict[str, Any] = {
        "size": side_of(params, dataset),
        "classes": classes,
        "channels": channels,
    }
    names = Architecture.__annotations__.keys() - given.keys()
    architecture = Architecture(**given, **{name: getattr(params, name) for name in names})
    return (ImageTask if channels else GridTask)(params, items, architecture)
