"""p(z): the standard normal, or a learned autoregressive mixture over the latents' tokens.

Why a learned prior. Grids are discrete, so the codes of a good encoder form a few hundred tight
clusters a patch; under N(0, I) each of them costs the nats that separate a small blob from a wide
normal. A mixture whose components sit on those clusters, with weights that depend on the tokens
before (in reading order), pays -log(weight) alone: the information that the grid really holds. It
is the usual ELBO with another p(z), for any parameters (Chen et al. 2017, Variational Lossy
Autoencoder; Tomczak & Welling 2018, VampPrior).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genlab.vae.networks import LOG_VAR_START, MLP

LOG_SCALE_RANGE = (-4.0, 1.5)
LOG_TWO_PI = math.log(2.0 * math.pi)


def normal_log_prob(z: Tensor, mean: Tensor, log_var: Tensor) -> Tensor:
    """log N(z; mean, exp(log_var)), elementwise, nats."""
    return -0.5 * ((z - mean).square() * (-log_var).exp() + log_var + LOG_TWO_PI)


class StandardPrior(nn.Module):
    """N(0, I) over `latent_dim` latents; each latent counts as a token of its own."""

    def __init__(self, latent_dim: int) -> None:
        super().__init__()
        self.latent_dim = latent_dim

    @property
    def tokens(self) -> int:
        return self.latent_dim

    def token_log_prob(self, z: Tensor) -> Tensor:
        """log p of each token: (batch, latent_dim) -> (batch, tokens), nats."""
        return -0.5 * (z.square() + LOG_TWO_PI)

    def sample(self, count: int, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        """`count` draws: (count, latent_dim); `temperature` scales the standard deviation."""
        return torch.randn(count, self.latent_dim, generator=generator) * temperature


class AutoregressivePrior(nn.Module):
    """p(z) = prod_t sum_k w_k(z_<t) N(z_t; m_k, s_k^2 I): one codebook of components for all tokens.

    The tokens lie on a square; the weights w see the tokens before t, in reading order, through
    two causal windows (`WINDOW_ROWS` above, `WINDOW_SIDE` to each side) and a running sum over
    everything before, which lets it count. A token enters through its responsibilities under the
    codebook, so that a tight cluster acts as a discrete symbol.
    latent_dim must be a multiple of tokens; raises ValueError otherwise.
    """

    WINDOW_ROWS = 3
    WINDOW_SIDE = 3
    EMBED = 24
    SUMMARY = 16
    COUNTERS = 32

    def __init__(
        self, latent_dim: int, tokens: int, width: int, depth: int, components: int
    ) -> None:
        super().__init__()
        self.side = math.isqrt(tokens)
        if self.side**2 != tokens or latent_dim % tokens:
            raise ValueError(f"latent_dim must be a multiple of {tokens} tokens, got {latent_dim}")
        self.tokens, self.token_dim = tokens, latent_dim // tokens
        self.means = nn.Parameter(torch.randn(components, self.token_dim))
        self.log_scales = nn.Parameter(torch.full((components,), 0.5 * LOG_VAR_START))
        self.symbols = nn.Parameter(torch.randn(components, self.EMBED))
        self.offsets = [
            (-dy, dx)
            for dy in range(self.WINDOW_ROWS, 0, -1)
            for dx in range(-self.WINDOW_SIDE, self.WINDOW_SIDE + 1)
        ] + [(0, -dx) for dx in range(self.WINDOW_SIDE, 0, -1)]
        self.position = nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.read = nn.Linear(len(self.offsets) * self.EMBED, width)
        self.first = nn.Sequential(*(MLP(width, 2 * width) for _ in range(depth // 2)))
        self.summary = nn.Linear(width, self.SUMMARY)
        self.reread = nn.Linear(len(self.offsets) * self.SUMMARY, width, bias=False)
        nn.init.zeros_(self.reread.weight)
        self.counters = nn.Linear(width, self.COUNTERS)
        self.recount = nn.Linear(self.COUNTERS, width, bias=False)
        self.second = nn.Sequential(*(MLP(width, 2 * width) for _ in range(depth - depth // 2)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, components)

    @property
    def scales(self) -> Tensor:
        """Standard deviation of each component: (components,)."""
        return self.log_scales.clamp(*LOG_SCALE_RANGE).exp()

    @torch.no_grad()
    def settle(self, codes: Tensor) -> None:
        """Put the components on the clusters of `codes` (n, token_dim), before training the prior.

        Greedy farthest points (Gonzalez 1985), then two rounds of k-means: rare codes get a
        component as well as the common ones, which density alone would not give them.
        """
        centres = codes[:1]
        distance = (codes - centres).square().sum(1)
        while len(centres) < len(self.means):
            farthest = codes[distance.argmax()][None]
            centres = torch.cat([centres, farthest])
            distance = torch.minimum(distance, (codes - farthest).square().sum(1))
        for _ in range(2):
            owner = torch.cdist(codes, centres).argmin(1)
            count = torch.bincount(owner, minlength=len(centres)).clamp_min(1)[:, None]
            centres = torch.zeros_like(centres).index_add_(0, owner, codes) / count
        spread = (codes - centres[owner]).square().mean(1)
        variance = torch.zeros(len(centres)).to(codes).index_add_(0, owner, spread) / count[:, 0]
        self.means.copy_(centres)
        self.log_scales.copy_(0.5 * (variance + math.exp(LOG_VAR_START)).log())

    def component_log_prob(self, z: Tensor) -> Tensor:
        """log N(z_t; m_k, s_k^2 I): (..., token_dim) -> (..., components).

        Expanded into products, so that the work is one matrix multiplication.
        """
        precision = self.scales**-2
        quadratic = (
            z.square().sum(-1, keepdim=True) * precision
            - 2.0 * z @ (self.means * precision[:, None]).T
            + self.means.square().sum(1) * precision
        )
        log_norm = self.token_dim * (self.scales.log() + 0.5 * LOG_TWO_PI)
        return -0.5 * quadratic - log_norm

    def token_log_prob(self, z: Tensor) -> Tensor:
        """log p(z_t | z_<t): (batch, latent_dim) -> (batch, tokens), nats."""
        density = self.component_log_prob(z.view(len(z), self.tokens, self.token_dim))
        embedded = density.softmax(-1) @ self.symbols
        weights = self._log_weights(embedded)
        return torch.logsumexp(weights + density, dim=-1)

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        """`count` draws, token by token: (count, latent_dim); `temperature` divides the logits."""
        outside = self.tokens  # one row of zeros stands for everything beyond the square
        device = self.means.device  # the generator's numbers come from the CPU on any device
        embedded = torch.zeros(count, self.tokens + 1, self.EMBED, device=device)
        summaries = torch.zeros(count, self.tokens + 1, self.SUMMARY, device=device)
        counted = torch.zeros(count, self.COUNTERS, device=device)
        z = torch.zeros(count, self.tokens, self.token_dim, device=device)
        for t in range(self.tokens):
            y, x = divmod(t, self.side)
            window = [
                (y + dy) * self.side + x + dx
                if y + dy >= 0 and 0 <= x + dx < self.side
                else outside
                for dy, dx in self.offsets
            ]
            h = self.first(self.read(embedded[:, window].flatten(1)) + self.position[t])
            counted = counted + self.counters(h).relu() / self.side
            summaries[:, t] = self.summary(h)
            h = h + self.reread(summaries[:, window].flatten(1)) + self.recount(counted)
            logits = self.head(self.norm(self.second(h))) / temperature
            shares = logits.softmax(-1).cpu()
            chosen = torch.multinomial(shares, 1, generator=generator)[:, 0].to(device)
            noise = torch.randn(count, self.token_dim, generator=generator).to(device)
            z[:, t] = self.means[chosen] + self.scales[chosen, None] * noise
            embedded[:, t] = self.component_log_prob(z[:, t]).softmax(-1) @ self.symbols
        return z.flatten(1)

    def _log_weights(self, embedded: Tensor) -> Tensor:
        """log w of every component at every token: (batch, tokens, components)."""
        h = self.first(self.read(self._windows(embedded)) + self.position)
        counted = torch.cumsum(self.counters(h).relu(), dim=1) / self.side
        h = h + self.reread(self._windows(self.summary(h))) + self.recount(counted)
        return F.log_softmax(self.head(self.norm(self.second(h))), dim=-1)

    def _windows(self, x: Tensor) -> Tensor:
        """Each token's causal window: (batch, tokens, c) -> (batch, tokens, offsets * c).

        Shifted slices, since an index gather has a slow backward pass on a CPU.
        """
        batch, _, channels = x.shape
        rows, side, wide = self.WINDOW_ROWS, self.side, self.WINDOW_SIDE
        padded = F.pad(x.view(batch, side, side, channels), (0, 0, wide, wide, rows, 0))
        slices = [
            padded[:, rows + dy : rows + dy + side, wide + dx : wide + dx + side]
            for dy, dx in self.offsets
        ]
        return torch.cat(slices, dim=-1).view(batch, self.tokens, -1)
