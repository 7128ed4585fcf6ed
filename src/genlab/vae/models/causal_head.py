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

from genlab.distributions.likelihoods import LEVELS, to_unit

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
    memory per row; weight: (outputs, rows, columns * inputs). The part of the rows above is
    computed for a row's places together, since it is known when the row begins.
    """

    def __init__(self, conv: CausalConv, shape: tuple[int, int, int]) -> None:
        self.conv, (height, width, n) = conv, shape
        padded = (height + conv.above, width + 2 * conv.aside, conv.in_channels, n)
        self.given = conv.weight.new_zeros(padded)
        self.weight = conv.weight.permute(0, 2, 3, 1).flatten(2)
        self.own = self.weight[:, -1, : conv.seen * conv.in_channels].contiguous()

    def begin(self, row: int) -> None:
        """Start a row whose rows above are given."""
        conv, line = self.conv, self.given[row + self.conv.above]
        assert conv.bias is not None
        size = (2 * conv.aside + 1) * conv.in_channels
        result = conv.bias[:, None]
        for offset in range(conv.above):
            places = self.given[row + offset].flatten(0, 1).unfold(0, size, conv.in_channels)
            weight = self.weight[:, offset].expand(len(places), -1, -1)
            result = torch.baddbmm(result, weight, places.transpose(1, 2))
        self.above = result.unbind()  # (outputs, n) of each place
        self.places = line.unbind()
        windows = line.flatten(0, 1).unfold(0, conv.seen * conv.in_channels, conv.in_channels)
        self.windows = windows.transpose(1, 2).unbind()

    def give(self, column: int, x: Tensor) -> None:
        """Set the input at a place of the row: x (inputs, n)."""
        self.places[column + self.conv.aside].copy_(x)

    def at(self, column: int) -> Tensor:
        """The result at a place of the row: (outputs, n)."""
        return torch.addmm(self.above[column], self.own, self.windows[column])


class CausalBlock(nn.Module):
    """A residual block that gathers from the row above and the pixel before."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gather = CausalConv(width, width, 1, 1, own=True)
        self.mix = nn.Conv2d(width, width, 1)

    def forward(self, h: Tensor) -> Tensor:
        mixed: Tensor = self.mix(F.silu(self.gather(F.silu(h))))
        return h + mixed

    def at(self, scan: Scan, h: Tensor, column: int) -> Tensor:
        """The block at one place, h (width, n), by a scan of `gather`."""
        scan.give(column, F.silu(h))
        return h + at_place(self.mix, F.silu(scan.at(column)))


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
        pixels = _inputs(x).contiguous(memory_format=torch.channels_last)
        h = self.read(pixels) + self.condition(out) + context
        corrected: Tensor = out + self.correct(self.second(self.first(h))).float()
        return corrected

    @torch.no_grad()
    def sample(self, out: Tensor, context: Tensor, draw: Draw) -> Tensor:
        """Draw pixels one after another: (batch, channels, h, w) uint8.

        draw: parameters (batch, outputs, 1, 1) -> pixels (batch, channels, 1, 1) uint8. Each layer
        keeps what it has seen, so that a pixel costs a few small products of matrices.
        """
        n, _, height, width = out.shape
        pixels: list[Tensor] = []
        levels = torch.arange(LEVELS, dtype=torch.uint8, device=out.device)
        inputs = _inputs(levels.view(-1, 1)).T  # (2, levels)
        # Places first and items last: the window of a place is one run of memory per row.
        start = (self.condition(out) + context).permute(2, 3, 1, 0).contiguous()
        plain = out.permute(2, 3, 1, 0).contiguous()
        scans = [
            Scan(conv, (height, width, n))
            for conv in (self.read, self.first.gather, self.second.gather)
        ]
        read, first, second = scans
        for row in range(height):
            for scan in scans:
                scan.begin(row)
            for column in range(width):
                h = read.at(column) + start[row, column]
                h = self.first.at(first, h, column)
                h = self.second.at(second, h, column)
                corrected = plain[row, column] + at_place(self.correct, h)
                drawn = draw(corrected.T[:, :, None, None])
                pixels.append(drawn)
                chosen = drawn.flatten(1).T.flatten().int()
                read.give(column, inputs.index_select(1, chosen).view(-1, n))
        return torch.stack(pixels, dim=-1).view(n, self.channels, height, width)


def at_place(layer: nn.Conv2d, h: Tensor) -> Tensor:
    """A 1x1 convolution at one place: (inputs, n) -> (outputs, n)."""
    assert layer.bias is not None
    return torch.addmm(layer.bias[:, None], layer.weight[:, :, 0, 0], h)


def _inputs(x: Tensor) -> Tensor:
    """What the head sees of pixels: their value on [0, 2], and whether they are above 0."""
    return torch.cat([2 * to_unit(x), (x > 0).to(torch.get_default_dtype())], dim=1)
