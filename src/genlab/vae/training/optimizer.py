"""The optimiser and the averaged weights of training."""

import copy

import torch

from genlab.core.params import Params
from genlab.vae.models.vae import VAE


def make_optimizer(model: VAE, params: Params) -> torch.optim.AdamW:
    """Make AdamW; weight decay is for weight matrices alone, not for biases, norms or codebooks.

    With `amsgrad` (Reddi et al. 2018) steps of encoder and decoder are divided by the root of the
    largest second moment so far. At beta 0 the loss falls to nothing and so do gradients; Adam's
    running moment forgets the earlier ones, and then the first batch with an error moves every
    weight by the full learning rate.
    """
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
            amsgrad = params.amsgrad and not of_prior
            groups.append(
                {"params": chosen, "weight_decay": rate, "amsgrad": amsgrad, "prior": of_prior}
            )
    groups = [group for group in groups if group["params"]]
    return torch.optim.AdamW(groups, lr=params.lr, betas=(0.9, 0.99), fused=True)


class AveragedWeights:
    """A copy of a model, with weights that follow it slowly; `memory` is that of long runs.

    It follows faster at first, so that a short run's average forgets the weights it began with.
    Buffers (sigma, clusters) are running means by themselves: they are copied.
    """

    def __init__(self, model: VAE, memory: float) -> None:
        self.model, self.memory = copy.deepcopy(model).requires_grad_(False), memory

    @torch.no_grad()
    def follow(self, model: VAE, updates: int) -> None:
        """Take in `model` after so many updates."""
        memory = min(self.memory, updates / (updates + 9)) if updates > 1 else 0.0
        for averaged, trained in zip(self.model.parameters(), model.parameters(), strict=True):
            averaged.lerp_(trained, 1 - memory)
        for kept, current in zip(self.model.buffers(), model.buffers(), strict=True):
            kept.copy_(current)
