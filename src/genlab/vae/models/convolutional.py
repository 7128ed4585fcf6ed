"""Convolutional encoder and decoder of images.

The side is halved log2(patch) times, with residual blocks of 3x3 convolutions at every size; each
position of the coarsest map gives some of the latents. Pixels are folded into channels (Shi et al.
2016) instead of using strides: no pixel is skipped, and every product is dense.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HEAD_SCALE = 0.3  # factor on the decoder's last weights, so that the likelihood starts broad


class Fold(nn.Module):
    """Fold the pixels of each 2x2 block into channels.

    (batch, c, h, w) -> (batch, 4 c, h / 2, w / 2). Channels are ordered by pixel, then by input
    channel, so that runs of 2 c numbers stay together in memory (channels last);
    `nn.PixelUnshuffle` moves each number by itself.
    """

    def forward(self, x: Tensor) -> Tensor:
        batch, channels, height, width = x.shape
        rows = x.permute(0, 2, 3, 1).reshape(batch, height // 2, 2, width // 2, 2 * channels)
        blocks = rows.transpose(2, 3).reshape(batch, height // 2, width // 2, 4 * channels)
        return blocks.permute(0, 3, 1, 2)


class Unfold(nn.Module):
    """The inverse of `Fold`: (batch, 4 c, h, w) -> (batch, c, 2 h, 2 w)."""

    def forward(self, x: Tensor) -> Tensor:
        batch, inputs, height, width = x.shape
        blocks = x.permute(0, 2, 3, 1).reshape(batch, height, width, 2, inputs // 2)
        pixels = blocks.transpose(2, 3).reshape(batch, 2 * height, 2 * width, inputs // 4)
        return pixels.permute(0, 3, 1, 2)


class FoldedInput(nn.Conv2d):
    """Convolution after `Fold`; its weights have the channel order of `nn.PixelUnshuffle`."""

    def forward(self, x: Tensor) -> Tensor:
        outputs, inputs, *kernel = self.weight.shape
        by_channel = self.weight.view(outputs, inputs // 4, 4, *kernel)
        weight = by_channel.transpose(1, 2).reshape(self.weight.shape)
        return F.conv2d(x, weight, self.bias, padding=kernel[0] // 2)


class FoldedOutput(nn.Conv2d):
    """Convolution before `Unfold`; its weights have the channel order of `nn.PixelShuffle`."""

    def forward(self, x: Tensor) -> Tensor:
        outputs, inputs, *kernel = self.weight.shape
        by_channel = self.weight.view(outputs // 4, 4, inputs, *kernel)
        weight = by_channel.transpose(0, 1).reshape(self.weight.shape)
        bias = self.get_parameter("bias").view(-1, 4).T.flatten()
        return F.conv2d(x, weight, bias, padding=kernel[0] // 2)


class ResidualBlock(nn.Module):
    """Residual block of two 3x3 convolutions; initially the identity."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        for parameter in self.second.parameters():
            nn.init.zeros_(parameter)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.first(F.silu(self.norm(x)))
        out: Tensor = self.second(F.silu(hidden))
        return x + out


def stage_widths(width: int, patch: int) -> list[int]:
    """Return the channels after each halving: `width`, then twice as many every time."""
    return [width * 2**level for level in range(patch.bit_length() - 1)]


class ConvEncoder(nn.Module):
    """Map images to mean and raw log variance, latent_dim / tokens of each per position."""

    def __init__(
        self, size: int, patch: int, inputs: int, width: int, depth: int, latent_dim: int
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for level, outputs in enumerate(stage_widths(width, patch)):
            # Only the first kernel is larger than 1: later ones have residual blocks before them.
            layers += [Fold(), FoldedInput(4 * inputs, outputs, 1 if level else 3)]
            layers += [ResidualBlock(outputs) for _ in range(depth)]
            inputs = outputs
        self.stack = nn.Sequential(*layers, nn.GroupNorm(1, inputs), nn.SiLU())
        self.head = nn.Conv2d(inputs, 2 * latent_dim // (size // patch) ** 2, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = self.head(self.stack(x)).flatten(2).transpose(1, 2).chunk(2, dim=2)
        return mean.flatten(1), raw.flatten(1)


class ConvDecoder(nn.Module):
    """Mirror image of the encoder: latents -> parameters and context (`VAE.decode`).

    context: channels for the causal head, 0 for none.
    """

    def __init__(
        self,
        size: int,
        patch: int,
        outputs: int,
        context: int,
        width: int,
        depth: int,
        latent_dim: int,
    ) -> None:
        super().__init__()
        self.side = size // patch
        self.token_dim = latent_dim // self.side**2
        sizes = stage_widths(width, patch)[::-1]
        layers: list[nn.Module] = [nn.Conv2d(self.token_dim, sizes[0], 3, padding=1)]
        for index, channels in enumerate(sizes):
            layers += [ResidualBlock(channels) for _ in range(depth)]
            if index + 1 < len(sizes):
                layers += [FoldedOutput(channels, 4 * sizes[index + 1], 1), Unfold()]
        self.stack = nn.Sequential(*layers, nn.GroupNorm(1, sizes[-1]), nn.SiLU())
        self.head = FoldedOutput(sizes[-1], 4 * outputs, 3)
        self.context = FoldedOutput(sizes[-1], 4 * context, 1) if context else None
        self.unfold = Unfold()
        with torch.no_grad():
            self.head.weight.mul_(HEAD_SCALE)
            nn.init.zeros_(self.head.get_parameter("bias"))

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        tokens = z.view(len(z), self.side**2, self.token_dim).transpose(1, 2)
        h = self.stack(tokens.reshape(len(z), self.token_dim, self.side, self.side))
        out: Tensor = self.unfold(self.head(h))
        context = self.unfold(self.context(h)) if self.context else out[:, :0]
        return out, context
