"""Encoders and decoders of grids.

`mixer` cuts the grid into patches, one token each, and alternates mixing over tokens with mixing
over channels (Tolstikhin et al. 2021); its latents lie on the patches. `conv` is the usual stack of
strided convolutions with one dense code; on sparse grids it stands at the all-black baseline and is
kept as the case that collapses.

Every encoder maps integer grids (batch, size, size) to (mean, log_var), each (batch, latent_dim);
every decoder maps latents (batch, latent_dim) to logits (batch, classes, size, size).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# log variance of the posterior: bounded so that no exponential overflows, and from below (a
# standard deviation of 0.018) so that the densities the KL compares stay within float32.
LOG_VAR_RANGE = (-8.0, 3.0)
# Where it starts: codes of different patches are told apart from the first update on (a standard
# deviation of 0.06 among codes about 1 apart), since codes that begin blurred stay so.
LOG_VAR_START = -5.6


def bounded_log_var(raw: Tensor, start: float = LOG_VAR_START) -> Tensor:
    """Smoothly limit to LOG_VAR_RANGE; raw = 0 gives `start`."""
    low, high = LOG_VAR_RANGE
    share = (start - low) / (high - low)
    return low + (high - low) * torch.sigmoid(
        raw * 4.0 / (high - low) + math.log(share / (1 - share))
    )


def patch_tokens(x: Tensor, patch: int, classes: int) -> Tensor:
    """One-hot cells of each patch: (batch, size, size) -> (batch, tokens, patch^2 * classes)."""
    batch, size, _ = x.shape
    side = size // patch
    cells = F.one_hot(x.long(), classes).to(torch.float32)
    cells = cells.view(batch, side, patch, side, patch, classes).permute(0, 1, 3, 2, 4, 5)
    return cells.reshape(batch, side * side, patch * patch * classes)


def unpatch_logits(tokens: Tensor, patch: int, classes: int) -> Tensor:
    """(batch, tokens, patch^2 * classes) -> (batch, classes, size, size)."""
    batch, count, _ = tokens.shape
    side = round(count**0.5)
    cells = tokens.view(batch, side, side, patch, patch, classes).permute(0, 5, 1, 3, 2, 4)
    return cells.reshape(batch, classes, side * patch, side * patch)


class MLP(nn.Module):
    """Residual two-layer perceptron over the last axis; starts as the identity."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.up(self.norm(x))
        out: Tensor = self.down(hidden.relu_())
        return x + out


class MixerBlock(nn.Module):
    """Mix over tokens, then over channels: (batch, tokens, width) -> the same."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.token_norm = nn.LayerNorm(width)
        self.token_up = nn.Linear(tokens, tokens)
        self.token_down = nn.Linear(tokens, tokens)
        nn.init.zeros_(self.token_down.weight)
        nn.init.zeros_(self.token_down.bias)
        self.channels = MLP(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.token_up(self.token_norm(x).transpose(1, 2))
        x = x + self.token_down(mixed.relu_()).transpose(1, 2)
        out: Tensor = self.channels(x)
        return out


class MixerEncoder(nn.Module):
    """Patches -> mixer blocks -> mean and log variance of `latent_dim` latents.

    With at least as many latents as tokens, each token carries latent_dim / tokens of them; with
    fewer, each latent is read off a run of tokens / latent_dim neighbours.
    """

    log_var_start = LOG_VAR_START

    def __init__(
        self, size: int, patch: int, classes: int, width: int, depth: int, latent_dim: int
    ) -> None:
        super().__init__()
        self.patch, self.classes, self.latent_dim = patch, classes, latent_dim
        tokens = (size // patch) ** 2
        self.groups = min(tokens, latent_dim)
        self.embed = nn.Linear(patch * patch * classes, width)
        self.blocks = nn.Sequential(*(MixerBlock(tokens, width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width * tokens // self.groups, 2 * latent_dim // self.groups)

    def cut(self, x: Tensor) -> Tensor:
        """An item as patches: (batch, tokens, patch^2 * classes)."""
        return patch_tokens(x, self.patch, self.classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.norm(self.blocks(self.embed(self.cut(x))))
        mean, raw = self.head(h.reshape(len(x), self.groups, -1)).chunk(2, dim=2)
        raw = raw.reshape(len(x), -1)
        return mean.reshape(len(x), -1), bounded_log_var(raw, self.log_var_start)


class MixerDecoder(nn.Module):
    """The encoder's mirror image: latents -> tokens -> mixer blocks -> logits of every cell."""

    def __init__(
        self, size: int, patch: int, classes: int, width: int, depth: int, latent_dim: int
    ) -> None:
        super().__init__()
        self.patch, self.classes = patch, classes
        self.tokens = (size // patch) ** 2
        self.groups = min(self.tokens, latent_dim)
        per_group = latent_dim // self.groups
        # A wide first layer: the code of a patch lies in few dimensions, far from linear in them.
        self.lift = nn.Linear(per_group, 2 * width)
        self.embed = nn.Linear(2 * width, width * self.tokens // self.groups)
        self.blocks = nn.Sequential(*(MixerBlock(self.tokens, width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, patch * patch * classes)

    def forward(self, z: Tensor) -> Tensor:
        lifted: Tensor = self.lift(z.view(len(z), self.groups, -1))
        h = self.embed(lifted.relu_()).view(len(z), self.tokens, -1)
        return self.join(self.head(self.norm(self.blocks(h))))

    def join(self, tokens: Tensor) -> Tensor:
        """Patches (batch, tokens, patch^2 * classes) as an item's numbers."""
        return unpatch_logits(tokens, self.patch, self.classes)


class ConvEncoder(nn.Module):
    """Strided 4x4 convolutions, halving the side `depth` times, then one dense code."""

    def __init__(self, size: int, classes: int, width: int, depth: int, latent_dim: int) -> None:
        super().__init__()
        self.classes = classes
        layers: list[nn.Module] = []
        channels = classes
        for level in range(depth):
            out = width * 2**level
            layers += [nn.Conv2d(channels, out, 4, stride=2, padding=1), nn.ReLU()]
            channels = out
        self.stack = nn.Sequential(*layers, nn.Flatten())
        self.head = nn.Linear(channels * (size // 2**depth) ** 2, 2 * latent_dim)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        cells = F.one_hot(x.long(), self.classes).permute(0, 3, 1, 2).to(torch.float32)
        mean, raw = self.head(self.stack(cells)).chunk(2, dim=1)
        return mean, bounded_log_var(raw)


class ConvDecoder(nn.Module):
    """One dense layer, then transposed 4x4 convolutions that double the side `depth` times."""

    def __init__(self, size: int, classes: int, width: int, depth: int, latent_dim: int) -> None:
        super().__init__()
        self.side, self.channels = size // 2**depth, width * 2 ** (depth - 1)
        self.embed = nn.Linear(latent_dim, self.channels * self.side**2)
        layers: list[nn.Module] = []
        channels = self.channels
        for level in reversed(range(depth)):
            out = width * 2 ** (level - 1) if level else width
            layers += [nn.ReLU(), nn.ConvTranspose2d(channels, out, 4, stride=2, padding=1)]
            channels = out
        self.stack = nn.Sequential(*layers, nn.ReLU(), nn.Conv2d(channels, classes, 3, padding=1))

    def forward(self, z: Tensor) -> Tensor:
        h = self.embed(z).view(len(z), self.channels, self.side, self.side)
        logits: Tensor = self.stack(h)
        return logits
