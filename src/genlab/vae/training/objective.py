"""The loss that is trained, apart from the ELBO that is reported (`models.vae`).

Per item, in nats:

    nll + beta * max(KL, free nats)

nll = -log p(x|z) for images, and for grids

    focal_nll(gamma * fade, weights^fade),   fade = max(0, 1 - beta_max)

Focal exponent and class weights fade as beta_max grows, so that at beta_max = 1 the loss is the
negative ELBO itself (plus warm-up and free bits, if asked): they tilt the trade between distortion
and rate, and at beta = 0, where there is no rate to trade, they only say which cells matter.

Corrupted grids, and the likelihood without a causal head, are auxiliary losses beside it.

A learned prior is always fitted at full strength, to codes it cannot move unless beta says so: the
gradient of -log p(z) reaches p's parameters times 1 and the encoder times beta (0 while free bits
last). So a run at beta = 0 has an honest prior for its KL and its samples, and at beta = 1 without
free bits this is the ELBO's own gradient.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def scale_gradient(x: Tensor, factor: Tensor) -> Tensor:
    """x itself; gradients that flow back through it are multiplied by `factor`, ().

    The factor may be filled in after the forward pass: it is read on the way back.
    """
    scaled = x.view_as(x)
    if scaled.requires_grad:
        scaled.register_hook(lambda gradient: gradient * factor)  # type: ignore[no-untyped-call]
    return scaled


def training_loss(
    nll: Tensor, kl: Tensor, *, clean: Tensor, beta: float, free_nats: float, gate: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """What is differentiated, and the loss with its parts, in nats per item.

    nll: (batch,) what reconstruction costs, focal and weighted where that is asked for. kl:
    (batch, tokens), whose gradient to the encoder passes `scale_gradient(..., gate)`: beta stands
    in the gradient, so that the first result is *not* multiplied by beta again. clean: (batch,),
    0 for a corrupted item, whose code is free: no prior is fitted to it. gate: (), set here to beta
    times the share of clean items, so that each of them has the ELBO's own weights, or to 0 while
    the code spends fewer than `free_nats` (Kingma et al. 2016, eq. 15, the whole code as one group:
    an empty corner of an image needs no nats). The batch is what one thread or process
    differentiates: the mean KL, of clean items, and the gate are its own.
    """
    reconstruction = nll.mean()
    mean_kl = (kl.sum(1) * clean).sum() / clean.sum().clamp_min(1)
    weight = beta * clean.mean()
    gate.copy_(torch.where(mean_kl < free_nats, 0.0, weight))
    return reconstruction + mean_kl, {
        "loss": (reconstruction + weight * mean_kl.clamp_min(free_nats)).detach(),
        "reconstruction_loss": reconstruction.detach(),
        "kl_divergence": mean_kl.detach(),
    }


def focal_nll(logits: Tensor, x: Tensor, gamma: float, class_weights: Tensor) -> Tensor:
    """Focal loss, summed over cells: (batch,). It is not a likelihood: it serves training alone.

    FL = -w_c (1 - p_c)^gamma log p_c for the true colour c (Lin et al. 2017, eq. 5). With gamma 0
    and weights of one this is the negative log-likelihood.
    logits: (batch, classes, height, width); x: (batch, height, width); class_weights: (classes,).
    """
    nll = F.cross_entropy(logits, x.long(), reduction="none")
    if gamma > 0:
        # 1 - p is kept off zero: its power has no finite gradient there for gamma below 1.
        nll = nll * (-(-nll).expm1()).clamp_min(1e-6) ** gamma
    return (nll * class_weights[x.long()]).flatten(1).sum(1)


def balance_classes(frequencies: Tensor, exponent: float) -> Tensor:
    """Weights proportional to frequency^-exponent, with a frequency-weighted mean of one.

    frequencies: (classes,), shares of the training cells. A colour that never occurs gets the
    weight of the rarest one that does. Raises ValueError where no colour occurs.
    """
    seen = frequencies[frequencies > 0]
    if len(seen) == 0:
        raise ValueError("class weights need at least one colour with a frequency over 0")
    raw = frequencies.clamp_min(float(seen.min())) ** -exponent
    return raw / (raw * frequencies).sum() * frequencies.sum()
