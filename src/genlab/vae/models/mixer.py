"""Encoder and decoder of grids: an MLP-Mixer over patches (Tolstikhin et al. 2021).

A grid is cut into patches, one token each; blocks mix over tokens and over channels in turn, and
each patch gives some of the latents. The encoder maps (batch, inputs, size, size) to a mean and a
raw log variance (`VAE.encode`), each (batch, latent_dim); the decoder maps latents to the
parameters and an empty context (`VAE.decode`).
"""

from torch import Tensor, nn

from genlab.vae.models.layers import TokenLinear


class MLP(nn.Module):
    """Residual two-layer perceptron over the last axis; initially the identity."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = TokenLinear(width, hidden)
        self.down = TokenLinear(hidden, width)
        nn.init.zeros_(self.down.weight)
        nn.init.zeros_(self.down.bias)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.up(self.norm(x))
        out: Tensor = self.down(hidden.relu_())
        return x + out


class MixerBlock(nn.Module):
    """Mix over tokens, then over channels; keeps the shape (batch, tokens, width)."""

    def __init__(self, tokens: int, width: int) -> None:
        super().__init__()
        self.token_norm = nn.LayerNorm(width)
        self.token_up = TokenLinear(tokens, tokens)
        self.token_down = TokenLinear(tokens, tokens)
        nn.init.zeros_(self.token_down.weight)
        nn.init.zeros_(self.token_down.bias)
        self.channels = MLP(width, 2 * width)

    def forward(self, x: Tensor) -> Tensor:
        mixed: Tensor = self.token_up(self.token_norm(x).transpose(1, 2).contiguous())
        x = x + self.token_down(mixed.relu_()).transpose(1, 2)
        out: Tensor = self.channels(x)
        return out


class MixerEncoder(nn.Module):
    """Patches -> mixer blocks -> mean and raw log variance of `latent_dim` latents.

    With at least as many latents as tokens, each token gives latent_dim / tokens of them; with
    fewer, each latent comes from tokens / latent_dim consecutive tokens.
    """

    def __init__(
        self, size: int, patch: int, inputs: int, width: int, depth: int, latent_dim: int
    ) -> None:
        super().__init__()
        self.patch = patch
        tokens = (size // patch) ** 2
        self.groups = min(tokens, latent_dim)
        self.embed = TokenLinear(patch * patch * inputs, width)
        self.blocks = nn.Sequential(*(MixerBlock(tokens, width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = TokenLinear(width * tokens // self.groups, 2 * latent_dim // self.groups)

    def cut(self, x: Tensor) -> Tensor:
        """Cut into patches: (batch, inputs, size, size) -> (batch, tokens, patch^2 * inputs)."""
        batch, inputs, size, _ = x.shape
        patch = self.patch
        side = size // patch
        cells = x.permute(0, 2, 3, 1).reshape(batch, side, patch, side, patch, inputs)
        return cells.transpose(2, 3).reshape(batch, side * side, -1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.norm(self.blocks(self.embed(self.cut(x))))
        mean, raw = self.head(h.reshape(len(x), self.groups, -1)).chunk(2, dim=2)
        return mean.flatten(1), raw.flatten(1)


class MixerDecoder(nn.Module):
    """Latents -> tokens -> mixer blocks -> `outputs` numbers per cell."""

    def __init__(
        self, size: int, patch: int, outputs: int, width: int, depth: int, latent_dim: int
    ) -> None:
        super().__init__()
        self.patch = patch
        self.side = size // patch
        self.tokens = self.side**2
        self.groups = min(self.tokens, latent_dim)
        per_group = latent_dim // self.groups
        # A wide first layer: a patch has few latents, and is far from linear in them.
        self.lift = TokenLinear(per_group, 2 * width)
        self.embed = TokenLinear(2 * width, width * self.tokens // self.groups)
        self.blocks = nn.Sequential(*(MixerBlock(self.tokens, width) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = TokenLinear(width, patch * patch * outputs)

    def join(self, tokens: Tensor) -> Tensor:
        """Join patches: (batch, tokens, patch^2 * outputs) -> (batch, outputs, size, size)."""
        side = self.side
        patch = self.patch
        cells = tokens.reshape(len(tokens), side, side, patch, patch, -1).permute(0, 5, 1, 3, 2, 4)
        return cells.reshape(len(tokens), -1, side * patch, side * patch)

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        lifted: Tensor = self.lift(z.view(len(z), self.groups, -1))
        h = self.embed(lifted.relu_()).reshape(len(z), self.tokens, -1)
        out = self.join(self.head(self.norm(self.blocks(h))))
        return out, out[:, :0]  # no context: grids have no causal head
