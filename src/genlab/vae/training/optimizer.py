"""Optimizer and averaged weights."""

import copy

import torch

from genlab.core.params import Params
from genlab.vae.models.vae import VAE


def make_optimizer(model: VAE, params: Params) -> torch.optim.AdamW:
    """Make AdamW with weight decay for weight matrices, but not for biases, norms or codebooks.

    With `amsgrad` (Reddi et al. 2018) steps of encoder and decoder are divided by the root of the
    largest second moment so far. At beta 0 the loss falls to almost zero and so do gradients;
    Adam's running moment forgets the earlier ones, and then the first batch with an error moves
    every weight by the full learning rate.
    """
    layers = torch.nn.Linear | torch.nn.Conv2d | torch.nn.ConvTranspose2d
    matrices = {id(module.weight) for module in model.modules() if isinstance(module, layers)}
    autoencoder = [model.encoder, model.decoder, model.likelihood]
    if model.head:
        autoencoder.append(model.head)
    groups = []
    for of_prior, modules in ((False, autoencoder), (True, [model.prior])):
        parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
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
    """Exponential moving average of a model's weights.

    memory: the decay of a long run. It is smaller at first, so that a short run's average forgets
    the initial weights. Buffers (sigma, clusters) are running means already: they are copied.
    """

    def __init__(self, model: VAE, memory: float) -> None:
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.memory = memory

    @torch.no_grad()
    def update(self, model: VAE, updates: int) -> None:
        """Add the weights of `model` to the average after so many updates of it."""
        memory = min(self.memory, updates / (updates + 9)) if updates > 1 else 0.0
        for averaged, trained in zip(self.model.parameters(), model.parameters(), strict=True):
            averaged.lerp_(trained, 1 - memory)
        for copied, current in zip(self.model.buffers(), model.buffers(), strict=True):
            copied.copy_(current)
