"""log p(x | z): what the decoder's outputs say about the data, in closed form, in nats.

`categorical_*` is the likelihood of grids: each cell is one of `classes` colours, independent of
the others given z. The focal loss stands beside it and is *not* a likelihood: it serves training
alone (see `objective`).
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def categorical_cell_log_prob(logits: Tensor, x: Tensor) -> Tensor:
    """log p of every cell, nats.

    logits: (batch, classes, height, width); x: (batch, height, width) integers in [0, classes).
    Returns (batch, height, width).
    """
    return -F.cross_entropy(logits, x.long(), reduction="none")


def categorical_log_prob(logits: Tensor, x: Tensor) -> Tensor:
    """log p(x | z) = sum over cells of log p(cell | z), nats a grid: (batch,)."""
    return categorical_cell_log_prob(logits, x).flatten(1).sum(1)


def focal_nll(logits: Tensor, x: Tensor, gamma: float, class_weights: Tensor) -> Tensor:
    """Focal loss, summed over cells: (batch,).

    FL = -w_c (1 - p_c)^gamma log p_c for the true colour c (Lin et al. 2017, eq. 5). With gamma 0
    and weights of one this is `-categorical_log_prob`.
    class_weights: (classes,).
    """
    log_prob = categorical_cell_log_prob(logits, x)
    nll = -log_prob
    if gamma > 0:
        # 1 - p is kept off zero: its power has no finite gradient there for gamma below 1.
        miss = (-torch.expm1(log_prob)).clamp_min(1e-6)
        nll = nll * miss**gamma
    return (nll * class_weights[x.long()]).flatten(1).sum(1)


def class_weights(frequencies: Tensor, power: float) -> Tensor:
    """Weights proportional to frequency^-power, with a frequency-weighted mean of one.

    frequencies: (classes,), shares of the training cells. A colour that never occurs gets the
    weight of the rarest one that does. power 0 gives ones.
    """
    seen = frequencies[frequencies > 0]
    if len(seen) == 0:
        raise ValueError("class weights need at least one colour with a frequency over 0")
    raw = frequencies.clamp_min(float(seen.min())) ** -power
    return raw / (raw * frequencies).sum() * frequencies.sum()
