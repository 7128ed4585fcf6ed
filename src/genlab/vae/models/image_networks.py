"""Encoders and decoders of images, whose codes lie on a square of tokens.

`conv` halves the image log2(patch) times, with residual blocks of 3x3 convolutions at every size,
and reads latent_dim / tokens latents off each place of the coarsest map; the decoder is its mirror
image. Pixels are folded into channels (Shi et al. 2016) rather than strided over: no pixel is
skipped, and every product is dense. `mixer` is the grids' own network over patches of pixels.

Every encoder maps levels (batch, channels, side, side) uint8 to (mean, log_var), each
(batch, latent_dim), token by token; every decoder maps latents (batch, latent_dim) to
(batch, outputs, side, side).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genlab.distributions.pixels import unit
from genlab.vae.models.networks import MixerDecoder, MixerEncoder, bounded_log_var

# Posteriors of images begin with a standard deviation of 0.37: wide enough that the KL is small
# at first, narrow enough that the decoder hears the codes.
LOG_VAR_START = -2.0
HEAD_SCALE = 0.3  # of the usual scale of the decoder's last weights: the likelihood begins broad


def centred(x: Tensor) -> Tensor:
    """Levels 0..255 as numbers on [-1, 1]."""
    return 2 * unit(x) - 1


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions beside the identity, which it starts as."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(1, width)
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        nn.init.zeros_(self.second.weight)
        assert self.second.bias is not None
        nn.init.zeros_(self.second.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.first(F.silu(self.norm(x)))
        out: Tensor = self.second(F.silu(hidden))
        return x + out


def widths(width: int, patch: int) -> list[int]:
    """Channels after each halving: `width`, then twice as many at each further one."""
    return [width * 2**level for level in range(int(math.log2(patch)))]


class ConvEncoder(nn.Module):
    """Fold, convolve, `depth` residual blocks, at each halving; then the latents of each place."""

    def __init__(self, channels: int, patch: int, width: int, depth: int, token_dim: int) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        seen = channels
        for level, wide in enumerate(widths(width, patch)):
            # Only the first convolution looks around: later ones have blocks that do.
            layers += [nn.PixelUnshuffle(2), _conv(4 * seen, wide, 1 if level else 3)]
            layers += [ResidualBlock(wide) for _ in range(depth)]
            seen = wide
        self.stack = nn.Sequential(*layers, nn.GroupNorm(1, seen), nn.SiLU())
        self.head = nn.Conv2d(seen, 2 * token_dim, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        mean, raw = self.head(self.stack(centred(x))).flatten(2).transpose(1, 2).chunk(2, dim=2)
        return mean.flatten(1), bounded_log_var(raw.flatten(1), LOG_VAR_START)


class ConvDecoder(nn.Module):
    """The encoder's mirror image: latents of each place -> `outputs` numbers a pixel."""

    def __init__(
        self, side: int, patch: int, width: int, depth: int, token_dim: int, outputs: int
    ) -> None:
        super().__init__()
        self.side, self.token_dim = side // patch, token_dim
        sizes = widths(width, patch)[::-1]
        layers: list[nn.Module] = [_conv(token_dim, sizes[0], 3)]
        for wide, following in zip(sizes, [*sizes[1:], None], strict=True):
            layers += [ResidualBlock(wide) for _ in range(depth)]
            if following is not None:
                layers += [_conv(wide, 4 * following, 1), nn.PixelShuffle(2)]
        self.stack = nn.Sequential(*layers, nn.GroupNorm(1, sizes[-1]), nn.SiLU())
        self.head = nn.Conv2d(sizes[-1], 4 * outputs, 3, padding=1)
        with torch.no_grad():
            self.head.weight.mul_(HEAD_SCALE)
            assert self.head.bias is not None
            self.head.bias.zero_()

    def forward(self, z: Tensor) -> Tensor:
        places = z.view(len(z), self.side**2, self.token_dim).transpose(1, 2)
        h = self.stack(places.reshape(len(z), self.token_dim, self.side, self.side))
        return F.pixel_shuffle(self.head(h), 2)


class MixerImageEncoder(MixerEncoder):
    """The grids' mixer over patches of pixels."""

    log_var_start = LOG_VAR_START

    def cut(self, x: Tensor) -> Tensor:
        return F.pixel_unshuffle(centred(x), self.patch).flatten(2).transpose(1, 2)


class MixerImageDecoder(MixerDecoder):
    """The grids' mixer, to `classes` numbers of each pixel."""

    def join(self, tokens: Tensor) -> Tensor:
        side = math.isqrt(self.tokens)
        maps = tokens.transpose(1, 2).reshape(len(tokens), -1, side, side)
        return F.pixel_shuffle(maps, self.patch)


def _conv(inputs: int, outputs: int, kernel: int) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2)
