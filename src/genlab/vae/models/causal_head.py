"""A causal head: p(x|z) with pixels that depend on each other (PixelVAE, Gulrajani et al. 2017).

Given z alone, pixels are independent, and a draw of p(x|z) is noise around a blur. The head reads
the pixels before each one in reading order, and corrects the decoder's parameters of that pixel:

    p(x|z) = prod_i p(x_i | z, x_1, ..., x_(i-1))

It is a likelihood like any other: the ELBO stays a lower bound. Channels of one pixel are chained
by the likelihood itself.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genlab.distributions.likelihoods import to_unit

ABOVE, ASIDE = 3, 3  # rows and columns of pixels that the first layer sees

Draw = Callable[[Tensor], Tensor]


class CausalConv(nn.Conv2d):
    """A convolution that sees `above` rows above and `aside` columns to each side.

    In its own row it sees the columns before it, and with `own` the place itself.
    """

    mask: Tensor

    def __init__(self, inputs: int, outputs: int, above: int, aside: int, *, own: bool) -> None:
        super().__init__(inputs, outputs, (above + 1, 2 * aside + 1))
        self.above, self.aside = above, aside
        self.seen = aside + own  # columns of its own row
        mask = torch.ones(above + 1, 2 * aside + 1)
        mask[-1, self.seen :] = 0
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        padded = F.pad(x, (0, 0, self.above, 0))
        return F.conv2d(padded, self.weight * self.mask, self.bias, padding=(0, self.aside))


class Scan:
    """A causal convolution place by place, over what it has been given: `shape` is (h, w, n).

    given: its padded input (h + above, w + 2 aside, inputs, n), a place's window being one run of
    memory per row; weight: (outputs, rows, columns * inputs).
    """

    def __init__(self, conv: CausalConv, shape: tuple[int, int, int]) -> None:
        self.conv, (height, width, n) = conv, shape
        padded = (height + conv.above, width + 2 * conv.aside, conv.in_channels, n)
        self.given = conv.weight.new_zeros(padded)
        self.weight = conv.weight.permute(0, 2, 3, 1).flatten(2)

    def give(self, row: int, column: int, x: Tensor) -> None:
        """Set the input at one place: x (inputs, n)."""
        self.given[row + self.conv.above, column + self.conv.aside] = x

    def at(self, row: int, column: int) -> Tensor:
        """The result at one place: (outputs, n)."""
        conv = self.conv
        assert conv.bias is not None
        result = conv.bias[:, None]
        for offset in range(conv.above + 1):
            columns = 2 * conv.aside + 1 if offset < conv.above else conv.seen
            window = self.given[row + offset, column : column + columns].flatten(0, 1)
            result = torch.addmm(result, self.weight[:, offset, : len(window)], window)
        return result


class CausalBlock(nn.Module):
    """A residual block that gathers from the row above and the pixel before."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gather = CausalConv(width, width, 1, 1, own=True)
        self.mix = nn.Conv2d(width, width, 1)

    def forward(self, h: Tensor) -> Tensor:
        mixed: Tensor = self.mix(F.silu(self.gather(F.silu(h))))
        return h + mixed

    def at(self, scan: Scan, h: Tensor, row: int, column: int) -> Tensor:
        """The block at one place, h (width, n), by a scan of `gather`."""
        scan.give(row, column, F.silu(h))
        return h + at_place(self.mix, F.silu(scan.at(row, column)))


class CausalHead(nn.Module):
    """Corrections of a likelihood's parameters from the pixels before each one.

    channels: of a pixel; outputs: parameters of the likelihood; context: features of each pixel
    that the decoder gives beside them. It starts as no correction.
    """

    def __init__(self, channels: int, outputs: int, context: int) -> None:
        super().__init__()
        self.channels = channels
        self.read = CausalConv(2 * channels, context, ABOVE, ASIDE, own=False)
        self.condition = nn.Conv2d(outputs, context, 1)
        self.first, self.second = CausalBlock(context), CausalBlock(context)
        self.correct = nn.Conv2d(context, outputs, 1)
        for parameter in self.correct.parameters():
            nn.init.zeros_(parameter)

    def forward(self, out: Tensor, context: Tensor, x: Tensor) -> Tensor:
        """Corrected parameters (batch, outputs, h, w) of pixels x (batch, channels, h, w)."""
        h = self.read(_inputs(x)) + self.condition(out) + context
        corrected: Tensor = out + self.correct(self.second(self.first(h))).float()
        return corrected

    @torch.no_grad()
    def sample(self, out: Tensor, context: Tensor, draw: Draw) -> Tensor:
        """Draw pixels one after another: (batch, channels, h, w) uint8.

        draw: parameters (batch, outputs, 1, 1) -> pixels (batch, channels, 1, 1) uint8. Each layer
        keeps what it has seen, so that a pixel costs a few small products of matrices.
        """
        n, _, height, width = out.shape
        pixels = torch.empty(n, self.channels, height, width, dtype=torch.uint8, device=out.device)
        # Places first and items last: the window of a place is one run of memory per row.
        start = (self.condition(out) + context).permute(2, 3, 1, 0).contiguous()
        plain = out.permute(2, 3, 1, 0).contiguous()
        read, first, second = (
            Scan(conv, (height, width, n))
            for conv in (self.read, self.first.gather, self.second.gather)
        )
        for row in range(height):
            for column in range(width):
                h = read.at(row, column) + start[row, column]
                h = self.first.at(first, h, row, column)
                h = self.second.at(second, h, row, column)
                corrected = plain[row, column] + at_place(self.correct, h)
                drawn = draw(corrected.T[:, :, None, None])
                pixels[:, :, row, column] = drawn[:, :, 0, 0]
                read.give(row, column, _inputs(drawn)[:, :, 0, 0].T)
        return pixels


def at_place(layer: nn.Conv2d, h: Tensor) -> Tensor:
    """A 1x1 convolution at one place: (inputs, n) -> (outputs, n)."""
    assert layer.bias is not None
    return torch.addmm(layer.bias[:, None], layer.weight[:, :, 0, 0], h)


def _inputs(x: Tensor) -> Tensor:
    """What the head sees of pixels: their value on [0, 2], and whether they are above 0."""
    inputs = torch.cat([2 * to_unit(x), (x > 0).to(torch.get_default_dtype())], dim=1)
    return inputs.contiguous(memory_format=torch.channels_last)
