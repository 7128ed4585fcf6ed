"""The training loop of the libraries' models: tensors in memory, Adam, a budget of CPU seconds.

The clock runs only during updates: checks on the validation split, after which the best weights are
kept, are free, as they are for our model.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.baseline_outcomes import Images
from genlab.vae.models.vae import to_tensor

CHECKS = 10  # per run
CHECKED_ON = 500  # validation images per check
CHUNK = 500
LR_END = 0.01  # of a cosine schedule, as a share of its start


class LibraryModel(nn.Module, ABC):
    """A model of a library, with its training loss."""

    @abstractmethod
    def loss(self, x: Tensor) -> Tensor:
        """Mean loss of a batch of images (batch, 1, 28, 28) uint8: ()."""


def fit(
    model: LibraryModel, train: Images, val: Images, options: Mapping[str, Any], seconds: float
) -> dict[str, Any]:
    """Train for `seconds` of this process's CPU time; returns to the weights best on `val`.

    train, val: (n, 28, 28, 1). options: lr, batch_size and schedule (constant or cosine). Returns
    CPU seconds, images seen, updates and parameters.
    """
    model.train()
    model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]  # faster
    lr = float(options["lr"])
    optimiser = torch.optim.Adam(model.parameters(), lr, fused=True)  # the same steps, cheaper
    items = to_tensor(train)
    held_out = to_tensor(val[:CHECKED_ON])
    lowest = math.inf
    best = deepcopy(model.state_dict())
    spent = 0.0
    images_seen = 0
    updates = 0
    next_check = seconds / CHECKS
    for rows in _batches(len(items), int(options["batch_size"])):
        start = time.process_time()
        if options["schedule"] == "cosine":
            optimiser.param_groups[0]["lr"] = lr * cosine(spent / seconds)
        optimiser.zero_grad()
        loss = model.loss(items[rows])
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        images_seen += len(rows)
        updates += 1
        spent += time.process_time() - start
        over = spent >= seconds or not math.isfinite(loss.item())
        if over or spent >= next_check:
            next_check += seconds / CHECKS
            loss_now = held_out_loss(model, held_out)
            if loss_now < lowest:
                lowest = loss_now
                best = deepcopy(model.state_dict())
        if over:
            break
    model.load_state_dict(best)
    model.eval()
    return {
        "cpu_seconds": spent,
        "images_seen": images_seen,
        "updates": updates,
        "parameters": sum(weights.numel() for weights in model.parameters()),
    }


def cosine(progress: float) -> float:
    """Factor of the learning rate: a half cosine from 1 to LR_END."""
    return LR_END + (1 - LR_END) * 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))


@torch.no_grad()
def held_out_loss(model: LibraryModel, images: Tensor) -> float:
    """Mean loss in evaluation mode; nan where it is not finite."""
    model.eval()
    total = sum(float(model.loss(chunk)) * len(chunk) for chunk in images.split(CHUNK))
    model.train()
    return total / len(images)


def _batches(n: int, size: int) -> Iterator[Tensor]:
    """Yield the rows of batches, for ever, in shuffled passes over all images."""
    while True:
        # Batch normalisation cannot train on a batch of one image.
        yield from (rows for rows in torch.randperm(n).split(size) if len(rows) > 1)
