"""Causal windows on a square of tokens: what each token may know of those before it."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


class CausalWindow:
    """The tokens up to `rows` above and `wide` to each side of a token, read before it."""

    def __init__(self, side: int, rows: int, wide: int) -> None:
        self.side, self.rows, self.wide = side, rows, wide
        self.offsets = [(-dy, dx) for dy in range(rows, 0, -1) for dx in range(-wide, wide + 1)] + [
            (0, -dx) for dx in range(wide, 0, -1)
        ]

    def gather(self, x: Tensor) -> Tensor:
        """Each token's window: (batch, tokens, c) -> (batch, tokens, offsets * c), 0 outside."""
        windows: Tensor = _Gather.apply(x, self)
        return windows

    def places(self, token: int) -> list[int]:
        """Tokens in the window of `token`; side * side stands for a place outside."""
        y, x = divmod(token, self.side)
        return [
            (y + dy) * self.side + x + dx
            if y + dy >= 0 and 0 <= x + dx < self.side
            else self.side**2
            for dy, dx in self.offsets
        ]

    def slices(self, x: Tensor) -> list[Tensor]:
        """What stands at each offset, as views of x padded: (batch, side, side, c) each.

        x: (batch, side + rows, side + 2 wide, c).
        """
        rows, side, wide = self.rows, self.side, self.wide
        return [
            x[:, rows + dy : rows + dy + side, wide + dx : wide + dx + side]
            for dy, dx in self.offsets
        ]


class _Gather(torch.autograd.Function):
    """Slices of the padded square, side by side; the backward pass adds into one square.

    Left to itself, autograd makes a square of zeros for each of the slices.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, window: CausalWindow) -> Tensor:
        ctx.window = window
        batch, tokens, channels = x.shape
        square = x.reshape(batch, window.side, window.side, channels)
        padded = F.pad(square, (0, 0, window.wide, window.wide, window.rows, 0))
        return torch.cat(window.slices(padded), dim=-1).view(batch, tokens, -1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        window, (gradient,) = ctx.window, gradients
        batch, side = len(gradient), window.side
        rows, wide = window.rows, window.wide
        parts = gradient.reshape(batch, side, side, len(window.offsets), -1).unbind(3)
        padded = gradient.new_zeros(batch, side + rows, side + 2 * wide, parts[0].shape[-1])
        for target, part in zip(window.slices(padded), parts, strict=True):
            target += part
        return padded[:, rows:, wide : wide + side].reshape(batch, side * side, -1), None
