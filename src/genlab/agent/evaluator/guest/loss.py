"""What a model is trained on: cross-entropy, or the negative ELBO."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from .module import Job, decode, encode, logits

Loss = Callable[[Tensor, Tensor, float], Tensor]
LEVELS = 255


def make_loss(model: nn.Module, job: Job) -> Loss:
    """The training loss of a batch: (x, target, beta) to a number.

    Classifiers: x float on [0, 1], target class probabilities (n, classes); nats per item.
    Generative models: target is not read; nats per dimension, the KL weighted by beta.
    """
    if job["task"] == "classify":
        return lambda x, target, _: F.cross_entropy(logits(model, x, job["classes"]), target)
    likelihoods, gaussian = distributions(job["folder"])
    channels, dims = job["shape"][0], torch.Size(job["shape"]).numel()

    def negative_elbo(x: Tensor, _: Tensor, beta: float) -> Tensor:
        mean, logvar = encode(model, x)
        out = decode(model, gaussian.reparameterize(mean, logvar, torch.randn_like(mean)), job)
        components = out.shape[1] // job["components"]
        mixture = likelihoods.DiscretizedLogisticMixture(channels, components)
        kl = gaussian.kl_standard_normal(mean, logvar).sum(1)
        nll = -mixture.log_prob(out, (x * LEVELS).round())
        loss: Tensor = (nll + beta * kl).mean() / dims
        return loss

    return negative_elbo


def distributions(folder: str) -> tuple[Any, Any]:
    """The judge's likelihood and KL, from copies that it placed in the job's folder."""
    sys.path.insert(0, folder)
    try:
        names = ("discretized_logistic", "gaussian")
        mixture, gaussian = (importlib.import_module(f"genlab.distributions.{n}") for n in names)
    finally:
        sys.path.remove(folder)
    return mixture, gaussian
