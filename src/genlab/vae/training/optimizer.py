"""The optimiser and the averaged weights of training."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.optim.swa_utils import AveragedModel

from genlab.core.params import Params
from genlab.vae.models.vae import VAE

Tensors = tuple[Tensor, ...] | list[Tensor]


def make_optimizer(model: VAE, params: Params) -> torch.optim.AdamW:
    """Make AdamW; weight decay is for weight matrices alone, not for biases, norms or codebooks."""
    layers = torch.nn.Linear | torch.nn.Conv2d | torch.nn.ConvTranspose2d
    matrices = {id(module.weight) for module in model.modules() if isinstance(module, layers)}
    autoencoder = [model.encoder, model.decoder, model.likelihood]
    if model.head:
        autoencoder.append(model.head)
    groups = []
    for of_prior, parts in ((False, autoencoder), (True, [model.prior])):
        parameters = [p for part in parts for p in part.parameters() if p.requires_grad]
        for decay in (True, False):
            chosen = [p for p in parameters if (id(p) in matrices) == decay]
            rate = params.weight_decay if decay else 0.0
            groups.append({"params": chosen, "weight_decay": rate, "prior": of_prior})
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=params.lr, betas=(0.9, 0.99), fused=True)


def average_weights(model: VAE, ema: float) -> AveragedModel | None:
    """Copy the model, with weights that follow it slowly; None where `ema` is 0.

    It follows faster at first, so that a short run's average forgets the weights it began with.
    Buffers (sigma, clusters) are running means by themselves: they are copied.
    """
    if not ema:
        return None

    @torch.no_grad()
    def follow(averaged: Tensors, current: Tensors, seen: Tensor | int) -> None:
        updates = int(seen)
        memory = min(ema, (1 + updates) / (10 + updates))
        torch._foreach_lerp_(averaged, current, 1 - memory)

    return AveragedModel(model, multi_avg_fn=follow)
