"""The training objective: reconstruction cost, weighted KL and free bits, in nats per item.

    cost + beta * max(KL, free nats)

The ELBO that is reported is never changed (`models.vae`). For grids the cost is

    focal_nll(gamma * fade, weights^fade),   fade = max(0, 1 - beta_max)

Focal exponent and class weights fade as beta_max grows, so that at beta_max = 1 the loss is the
negative ELBO itself (plus warm-up and free bits, if set). They change the trade-off between
distortion and rate; at beta = 0, where the rate is free, they only say which cells matter.
"""

import torch
import torch.nn.functional as F
from torch import Tensor


def weight_kl(mean_kl: Tensor, weight: Tensor | float, free_nats: float) -> Tensor:
    """KL term of the objective: weight * max(KL, free nats), of shape ().

    Free bits with the whole code as one group (Kingma et al. 2016, eq. 15): an empty corner of an
    image needs no nats.
    """
    return weight * mean_kl.clamp_min(free_nats)


def gate_kl_weight(mean_kl: Tensor, weight: Tensor, free_nats: float) -> Tensor:
    """Weight of the KL's gradient in the encoder: 0 while the KL is below the free nats."""
    return torch.where(mean_kl < free_nats, 0.0, weight)


def focal_nll(logits: Tensor, x: Tensor, gamma: float, class_weights: Tensor) -> Tensor:
    """Focal loss, summed over cells: (batch,). It is not a likelihood and serves training alone.

    FL = -w_c (1 - p_c)^gamma log p_c for the true colour c (Lin et al. 2017, eq. 5). With gamma 0
    and weights of one this is the negative log-likelihood.
    logits: (batch, classes, height, width); x: (batch, height, width); class_weights: (classes,).
    """
    nll = F.cross_entropy(logits, x.long(), reduction="none")
    if gamma > 0:
        # 1 - p is bounded away from 0, where its power has no finite gradient for gamma below 1.
        nll = nll * (-(-nll).expm1()).clamp_min(1e-6) ** gamma
    return (nll * class_weights[x.long()]).flatten(1).sum(1)


def balance_classes(frequencies: Tensor, exponent: float) -> Tensor:
    """Compute weights proportional to frequency^-exponent, with a frequency-weighted mean of one.

    frequencies: (classes,), shares of the training cells. A colour that never occurs gets the
    weight of the rarest one that does. Raises ValueError where no colour occurs.
    """
    positive = frequencies[frequencies > 0]
    if len(positive) == 0:
        raise ValueError("class weights need at least one colour with a frequency over 0")
    raw = frequencies.clamp_min(float(positive.min())) ** -exponent
    return raw / (raw * frequencies).sum() * frequencies.sum()
