"""Causal windows on a square of tokens: the neighbours read before each token."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class CausalWindow:
    """The tokens read before a token, up to `reach` rows above and columns to each side."""

    def __init__(self, side: int, reach: int) -> None:
        self.side, self.reach = side, reach
        columns = range(-reach, reach + 1)
        above = [(dy, dx) for dy in range(-reach, 0) for dx in columns]
        self.offsets = above + [(0, dx) for dx in range(-reach, 0)]

    def gather(self, x: Tensor) -> Tensor:
        """Each token's window: (batch, tokens, c) -> (batch, tokens, offsets * c), 0 outside."""
        windows: Tensor = _Gather.apply(x, self)
        return windows

    def places(self, token: int) -> list[int]:
        """Tokens in the window of `token`; side * side stands for a place outside."""
        row, column = divmod(token, self.side)
        near = [(row + dy, column + dx) for dy, dx in self.offsets]
        outside = self.side**2
        return [y * self.side + x if y >= 0 and 0 <= x < self.side else outside for y, x in near]

    def slices(self, padded: Tensor) -> list[Tensor]:
        """Views of a padded square, one per offset: (batch, side, side, c) each.

        padded: (batch, side + reach, side + 2 reach, c).
        """
        reach, side = self.reach, self.side
        return [
            padded[:, reach + dy : reach + dy + side, reach + dx : reach + dx + side]
            for dy, dx in self.offsets
        ]


class _Gather(torch.autograd.Function):
    """Slices of the padded square, side by side; the backward pass adds them into one square.

    `F.unfold` gives the same bits in twice the time, since it puts channels before places; autograd
    over the slices would make a square of zeros for each of them.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: CausalWindow) -> Tensor:
        ctx.window = window
        batch, tokens, channels = x.shape
        square = x.reshape(batch, window.side, window.side, channels)
        padded = F.pad(square, (0, 0, window.reach, window.reach, window.reach, 0))
        return torch.cat(window.slices(padded), dim=-1).view(batch, tokens, -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        window, (gradient,) = ctx.window, gradients
        batch, side, reach = len(gradient), window.side, window.reach
        parts = gradient.reshape(batch, side, side, len(window.offsets), -1).unbind(3)
        padded = gradient.new_zeros(batch, side + reach, side + 2 * reach, parts[0].shape[-1])
        for target, part in zip(window.slices(padded), parts, strict=True):
            target += part
        return padded[:, reach:, reach : reach + side].reshape(batch, side * side, -1), None
