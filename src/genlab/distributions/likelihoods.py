"""log p(x | z): what the decoder's outputs say about the data, in closed form, in nats.

`categorical_*` is the likelihood of grids: each cell is one of `classes` colours, independent of
the others given z. The focal loss stands beside it and is *not* a likelihood: it serves training
alone (see `objective`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Likelihood(nn.Module, ABC):
    """What the model asks of p(x|z); `out` is what the decoder says, (batch, outputs, h, w)."""

    comparable = True  # whether log_prob is that of discrete values, and so a code length

    @property
    @abstractmethod
    def outputs(self) -> int:
        """Numbers a cell or pixel that the decoder gives."""

    @abstractmethod
    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        """log p(x|z), summed over the item, nats: (batch,)."""

    @abstractmethod
    def shown(self, out: Tensor) -> Tensor:
        """The one item that stands for p(x|z), uint8."""

    @abstractmethod
    def drawn(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """x ~ p(x|z), uint8; random numbers come from the CPU."""


class Categorical(Likelihood):
    """Each cell is one of `classes` colours. x: (batch, h, w); shown: the likeliest colours."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.classes = classes

    @property
    def outputs(self) -> int:
        return self.classes

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        return categorical_log_prob(out, x)

    def shown(self, out: Tensor) -> Tensor:
        return out.argmax(1).to(torch.uint8)

    def drawn(self, out: Tensor, generator: torch.Generator) -> Tensor:
        cells = out.permute(0, 2, 3, 1).cpu()
        drawn = torch.multinomial(cells.softmax(-1).flatten(0, 2), 1, generator=generator)
        return drawn.view(cells.shape[:3]).to(torch.uint8)


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
