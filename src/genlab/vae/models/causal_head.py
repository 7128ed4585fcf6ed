"""A causal head: p(x|z) with pixels that depend on each other (PixelVAE, Gulrajani et al. 2017).

Without it, pixels are independent given z, and a sample of p(x|z) is a blurred image with noise.
The head reads the pixels before each one in reading order, and corrects the decoder's parameters of
that pixel:

    p(x|z) = prod_i p(x_i | z, x_1, ..., x_(i-1))

This is a proper likelihood: the ELBO stays a lower bound. The channels of one pixel depend on each
other through the likelihood itself.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genlab.distributions.likelihoods import LEVELS, to_unit

ABOVE = 3  # rows of pixels that the first layer sees
ASIDE = 3  # columns to each side that the first layer sees

SamplePixels = Callable[[Tensor], Tensor]


class CausalConv(nn.Conv2d):
    """Convolution over `above` rows above and `aside` columns to each side.

    In the row of the output pixel it sees the columns before that pixel, and with `include_centre`
    the pixel itself.
    """

    mask: Tensor

    def __init__(
        self, inputs: int, outputs: int, above: int, aside: int, *, include_centre: bool
    ) -> None:
        super().__init__(inputs, outputs, (above + 1, 2 * aside + 1))
        self.above = above
        self.aside = aside
        self.row_columns = aside + include_centre  # columns that it sees of the output's row
        mask = torch.ones(above + 1, 2 * aside + 1)
        mask[-1, self.row_columns :] = 0
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        padded = F.pad(x, (0, 0, self.above, 0))
        return F.conv2d(padded, self.weight * self.mask, self.bias, padding=(0, self.aside))


class Scan:
    """Evaluate a causal convolution pixel by pixel, in reading order.

    shape: (h, w, n) of n images. input: padded input (h + above, w + 2 aside, inputs, n), in which
    the window of a pixel is one run of memory per row. weight: (outputs, rows, columns * inputs).
    The sum over the rows above is computed for a row's pixels together, when the row begins.
    """

    def __init__(self, conv: CausalConv, shape: tuple[int, int, int]) -> None:
        self.conv = conv
        height, width, n = shape
        padded = (height + conv.above, width + 2 * conv.aside, conv.in_channels, n)
        self.input = conv.weight.new_zeros(padded)
        self.weight = conv.weight.permute(0, 2, 3, 1).flatten(2)
        self.row_weight = self.weight[:, -1, : conv.row_columns * conv.in_channels].contiguous()

    def begin_row(self, row: int) -> None:
        """Start a row; the input of the rows above must be complete."""
        conv = self.conv
        assert conv.bias is not None
        size = (2 * conv.aside + 1) * conv.in_channels
        result = conv.bias[:, None]
        for offset in range(conv.above):
            windows = self.input[row + offset].flatten(0, 1).unfold(0, size, conv.in_channels)
            weight = self.weight[:, offset].expand(len(windows), -1, -1)
            result = torch.baddbmm(result, weight, windows.transpose(1, 2))
        self.above = result.unbind()  # (outputs, n) of each pixel
        line = self.input[row + conv.above]
        self.pixels = line.unbind()
        size = conv.row_columns * conv.in_channels
        windows = line.flatten(0, 1).unfold(0, size, conv.in_channels)
        self.windows = windows.transpose(1, 2).unbind()

    def set_input(self, column: int, x: Tensor) -> None:
        """Set the input at a pixel of the row: x (inputs, n)."""
        self.pixels[column + self.conv.aside].copy_(x)

    def compute_output(self, column: int) -> Tensor:
        """Compute the output at a pixel of the row: (outputs, n)."""
        return torch.addmm(self.above[column], self.row_weight, self.windows[column])


class CausalBlock(nn.Module):
    """Residual block over the row above and the pixel before."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.gather = CausalConv(width, width, 1, 1, include_centre=True)
        self.mix = nn.Conv2d(width, width, 1)

    def forward(self, h: Tensor) -> Tensor:
        mixed: Tensor = self.mix(F.silu(self.gather(F.silu(h))))
        return h + mixed

    def compute_pixel(self, scan: Scan, h: Tensor, column: int) -> Tensor:
        """Evaluate the block at one pixel, h (width, n), with a scan of `gather`."""
        scan.set_input(column, F.silu(h))
        return h + apply_to_pixel(self.mix, F.silu(scan.compute_output(column)))


class CausalHead(nn.Module):
    """Correct a likelihood's parameters by the pixels before each one.

    channels: of a pixel. outputs: parameters of the likelihood per pixel. context: features per
    pixel that the decoder computes for the head. Initially it corrects nothing.
    """

    def __init__(self, channels: int, outputs: int, context: int) -> None:
        super().__init__()
        self.channels = channels
        self.read = CausalConv(2 * channels, context, ABOVE, ASIDE, include_centre=False)
        self.condition = nn.Conv2d(outputs, context, 1)
        self.first = CausalBlock(context)
        self.second = CausalBlock(context)
        self.correct = nn.Conv2d(context, outputs, 1)
        for parameter in self.correct.parameters():
            nn.init.zeros_(parameter)

    def forward(self, out: Tensor, context: Tensor, x: Tensor) -> Tensor:
        """Corrected parameters (batch, outputs, h, w) of pixels x (batch, channels, h, w)."""
        pixels = _encode_pixels(x).contiguous(memory_format=torch.channels_last)
        h = self.read(pixels) + self.condition(out) + context
        corrected: Tensor = out + self.correct(self.second(self.first(h))).float()
        return corrected

    @torch.no_grad()
    def sample(self, out: Tensor, context: Tensor, sample_pixels: SamplePixels) -> Tensor:
        """Draw pixels one after another: (batch, channels, h, w) uint8.

        sample_pixels: parameters (batch, outputs, 1, 1) -> pixels (batch, channels, 1, 1) uint8.
        Each layer stores its input, so that a pixel costs a few small products of matrices.
        """
        n, _, height, width = out.shape
        pixels: list[Tensor] = []
        levels = torch.arange(LEVELS, dtype=torch.uint8, device=out.device)
        inputs = _encode_pixels(levels.view(-1, 1)).T  # (2, levels)
        # Pixels first and items last: the window of a pixel is one run of memory per row.
        start = (self.condition(out) + context).permute(2, 3, 1, 0).contiguous()
        plain = out.permute(2, 3, 1, 0).contiguous()
        scans = [
            Scan(conv, (height, width, n))
            for conv in (self.read, self.first.gather, self.second.gather)
        ]
        read, first, second = scans
        for row in range(height):
            for scan in scans:
                scan.begin_row(row)
            for column in range(width):
                h = read.compute_output(column) + start[row, column]
                h = self.first.compute_pixel(first, h, column)
                h = self.second.compute_pixel(second, h, column)
                corrected = plain[row, column] + apply_to_pixel(self.correct, h)
                pixel = sample_pixels(corrected.T[:, :, None, None])
                pixels.append(pixel)
                values = pixel.flatten(1).T.flatten().int()
                read.set_input(column, inputs.index_select(1, values).view(-1, n))
        return torch.stack(pixels, dim=-1).view(n, self.channels, height, width)


def apply_to_pixel(layer: nn.Conv2d, h: Tensor) -> Tensor:
    """Apply a 1x1 convolution to one pixel: (inputs, n) -> (outputs, n)."""
    assert layer.bias is not None
    return torch.addmm(layer.bias[:, None], layer.weight[:, :, 0, 0], h)


def _encode_pixels(x: Tensor) -> Tensor:
    """Encode pixels for the head: their value on [0, 2], and whether it is above 0."""
    return torch.cat([2 * to_unit(x), (x > 0).to(torch.get_default_dtype())], dim=1)
