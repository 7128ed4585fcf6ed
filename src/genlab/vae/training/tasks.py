"""What differs between training on grids and on images: batches, loss and accuracy."""

from abc import ABC, abstractmethod
from functools import reduce
from typing import Any

import numpy as np
import torch
from torch import Tensor

from genlab.core.params import Params
from genlab.distributions.likelihoods import LEVELS
from genlab.vae.models.vae import VAE, Architecture, Decoded, Items
from genlab.vae.training.batches import corrupt, transform
from genlab.vae.training.objective import balance_classes, focal_nll

CPU = torch.device("cpu")
COUNTED = 100_000  # items whose classes are counted at once


class Task(ABC):
    """Training items with their loss and their accuracy.

    items: uint8, (n, size, size) or (n, side, side, channels). All of them lie on `device`; for a
    CPU they stay mapped from disk, and a batch is a copy.
    """

    accuracy: str  # name of the accuracy that the summary shows per epoch

    def __init__(
        self, params: Params, items: Items, architecture: Architecture, device: torch.device
    ) -> None:
        self.params = params
        self.architecture = architecture
        self.items = items if device.type == "cpu" else torch.tensor(items, device=device)

    @abstractmethod
    def measure_accuracy(self, reconstructed: Tensor, x: Tensor) -> dict[str, float]:
        """Compare reconstructions with their originals; returns metrics by name."""

    @abstractmethod
    def cost_terms(self, model: VAE, decoded: Decoded, x: Tensor, nll: Tensor) -> dict[str, Tensor]:
        """Terms of the training loss beside the KL, in nats, (batch,) each, by their logged names.

        nll: -log p(x|z), (batch,).
        """

    def compute_cost(self, model: VAE, decoded: Decoded, x: Tensor, nll: Tensor) -> Tensor:
        """Reconstruction cost of the training loss: the sum of `cost_terms`, (batch,)."""
        return reduce(torch.add, self.cost_terms(model, decoded, x, nll).values())

    def load_batch(self, rows: Tensor) -> Tensor:
        """Load the training items `rows` for the model; images lie channels last in memory."""
        if isinstance(self.items, Tensor):
            items = self.items[rows]
        else:
            items = torch.from_numpy(self.items[rows.numpy()])
        return items.permute(0, 3, 1, 2) if items.ndim == 4 else items

    def augment(
        self, x: Tensor, generator: torch.Generator, *, delayed: bool, prior_alone: bool
    ) -> tuple[Tensor, Tensor]:
        """Transform and corrupt items where the params ask for it.

        delayed, prior_alone: the phase of training, see `TrainingStep`. Returns the items, and 1
        for each that is not corrupted, else 0: (batch,).
        """
        return x, torch.ones(len(x), device=x.device)


class GridTask(Task):
    """Grids: focal loss and class weights, faded by beta_max, and corrupted grids."""

    accuracy = "exact_grid_accuracy"

    def __init__(
        self, params: Params, items: Items, architecture: Architecture, device: torch.device
    ) -> None:
        super().__init__(params, items, architecture, device)
        # In chunks: bincount copies its argument as int64, and the items may exceed memory.
        chunks = np.array_split(items, -(-len(items) // COUNTED))
        cells = [np.bincount(chunk.ravel(), minlength=architecture.classes) for chunk in chunks]
        counts = torch.from_numpy(np.sum(cells, axis=0))
        self.fade = max(0.0, 1.0 - params.beta_max)
        weights = balance_classes(counts / counts.sum(), params.class_balance_exponent)
        self.weights = weights.to(device) ** self.fade

    def augment(
        self, x: Tensor, generator: torch.Generator, *, delayed: bool, prior_alone: bool
    ) -> tuple[Tensor, Tensor]:
        """Transform items once the prior is trained, and corrupt them as long as the rest is.

        The symmetries serve the prior. With them from the start on, the autoencoder was as good on
        test grids and worse on grids of another kind: it reconstructed 90 to 94 % of those of
        ARC-AGI, in place of 98 %.
        """
        classes = self.architecture.classes
        if not delayed:
            x = transform(x, self.params.symmetries, classes, generator)
        return corrupt(x, 0.0 if prior_alone else self.params.corruption, classes, generator)

    def cost_terms(self, model: VAE, decoded: Decoded, x: Tensor, nll: Tensor) -> dict[str, Tensor]:
        """The negative log-likelihood, or in its place the focal loss where beta_max is below 1."""
        if not self.fade:
            return {"reconstruction_loss": nll}
        gamma = self.params.focal_gamma * self.fade
        return {"focal_loss": focal_nll(decoded[0], x, gamma, self.weights)}

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
    """Images: the negative log-likelihood; with a causal head also that of the decoder alone."""

    accuracy = "psnr"

    def cost_terms(self, model: VAE, decoded: Decoded, x: Tensor, nll: Tensor) -> dict[str, Tensor]:
        """The negative log-likelihood; with a causal head also `auxiliary` times the decoder's own.

        Reconstructions come from the decoder alone, so that z has to hold what they show.
        """
        terms = {"reconstruction_loss": nll}
        weight = self.params.auxiliary if model.head else 0.0
        if weight:
            terms["auxiliary_loss"] = -weight * model.likelihood.log_prob(decoded[0], x)
        return terms

    def measure_accuracy(self, reconstructed: Tensor, x: Tensor) -> dict[str, float]:
        errors = ((reconstructed.float() - x.float()) / (LEVELS - 1)).square().flatten(1).mean(1)
        rounding = 1 / (12 * (LEVELS - 1) ** 2)  # the least error that 8 bits can show
        return {
            "mse": float(errors.mean()),
            "psnr": float(-10 * errors.clamp_min(rounding).log10().mean()),
        }


def make_task(params: Params, items: Items, classes: int, device: torch.device = CPU) -> Task:
    """Make the task for square items: (n, side, side) or (n, side, side, channels)."""
    channels = items.shape[3] if items.ndim == 4 else 0
    values: dict[str, Any] = {
        "size": items.shape[1],
        "classes": classes,
        "channels": channels,
    }
    if not channels:
        values["causal_channels"] = 0  # grids have no causal head, whatever the param says
    for name in Architecture.__annotations__.keys() - values.keys():
        values[name] = getattr(params, name)
    task_class = ImageTask if channels else GridTask
    return task_class(params, items, Architecture(**values), device)
