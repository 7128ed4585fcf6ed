"""p(z) of images: every token has a mixture of its own, told by the tokens before it.

Codes of images are no discrete symbols: they spread, and neighbours go together. So the prior reads
the tokens of a square in reading order, and says of each where it may lie, as a mixture of normals
whose weights, means and variances depend on the tokens before (a mixture density network, Bishop
1994, over an autoregressive order, as in PixelCNN). Trained together with the encoder it is the
ELBO with a learned p(z) (Chen et al. 2017, Variational Lossy Autoencoder); fitted to the codes of a
finished model it is a sampler (`samplers`).
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from sklearn.cluster import KMeans
from torch import Tensor, nn

from genlab.vae.models.networks import MLP
from genlab.vae.models.windows import CausalWindow

LOG_STD_RANGE = (-6.0, 4.0)
START = 0.3  # of the usual scale of the head's weights: mixtures begin broad and alike
LEAST_SHARE = 1e-4  # that a plan is begun with
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class MixtureDensityPrior(nn.Module):
    """p(z) = sum_c p(c) prod_t sum_k w_k(z_<t, c) N(z_t; m_k(z_<t, c), diag(s_k(z_<t, c)^2)).

    The tokens lie on a square. Two causal windows, one read after the other, show each token its
    neighbours; a running mean shows it the whole of what was read.

    The plan c is drawn first: which of PLANS clusters of whole codes this one is to fall into.
    Reading order alone lets a shoe begin as a shirt, since its first tokens are empty either way. z
    tells its plan c(z), the nearest cluster; scoring takes that one term of the sum, and the ELBO
    stays a bound. Until `init_from_codes` has found the clusters there is one plan.
    latent_dim must be a multiple of tokens, and tokens a square; raises ValueError otherwise.
    """

    PLANS = 64
    WINDOW_ROWS = 3
    WINDOW_SIDE = 3
    SUMMARY = 16
    COUNTERS = 48

    def __init__(
        self, latent_dim: int, tokens: int, width: int, depth: int, components: int
    ) -> None:
        super().__init__()
        self.side = math.isqrt(tokens)
        if self.side**2 != tokens or latent_dim % tokens:
            raise ValueError(f"latent_dim must be a multiple of {tokens} tokens, got {latent_dim}")
        self.tokens, self.token_dim, self.components = tokens, latent_dim // tokens, components
        self.window = CausalWindow(self.side, self.WINDOW_ROWS, self.WINDOW_SIDE)
        seen = len(self.window.offsets)
        self.position = nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.read = nn.Linear(seen * self.token_dim, width)
        self.first = nn.Sequential(*(MLP(width, 2 * width) for _ in range(depth // 2)))
        self.summary = nn.Linear(width, self.SUMMARY)
        self.reread = nn.Linear(seen * self.SUMMARY, width, bias=False)
        nn.init.zeros_(self.reread.weight)
        self.counters = nn.Linear(width, self.COUNTERS)
        self.recount = nn.Linear(self.COUNTERS, width, bias=False)
        nn.init.zeros_(self.recount.weight)
        self.second = nn.Sequential(*(MLP(width, 2 * width) for _ in range(depth - depth // 2)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, components * (1 + 2 * self.token_dim))
        with torch.no_grad():
            self.head.weight.mul_(START)
            # Components begin apart, else all of them would learn the same.
            means = self.head.bias[components : components * (1 + self.token_dim)]
            means.copy_(torch.randn(means.shape))
        self.plan = nn.Parameter(torch.zeros(self.PLANS, width))
        self.plan_logits = nn.Parameter(torch.zeros(self.PLANS))
        self.centres: Tensor
        self.settled: Tensor
        self.register_buffer("centres", torch.zeros(self.PLANS, latent_dim))
        self.register_buffer("settled", torch.zeros((), dtype=torch.bool))
        self.share: Tensor
        self.register_buffer("share", 1 / torch.arange(1, tokens + 1)[:, None], persistent=False)

    @torch.no_grad()
    def init_from_codes(self, codes: Tensor, seed: int) -> None:
        """Find the clusters of whole codes (n, latent_dim), n >= PLANS, that plans stand for."""
        model = KMeans(self.PLANS, n_init=1, max_iter=30, random_state=seed)
        model.fit(codes.cpu().numpy())
        shares = torch.bincount(torch.from_numpy(model.labels_), minlength=self.PLANS)
        self.centres.copy_(torch.from_numpy(model.cluster_centers_))
        self.plan_logits.copy_((shares / shares.sum()).clamp_min(LEAST_SHARE).log())
        self.settled.fill_(True)

    @torch.no_grad()
    def global_class(self, z: Tensor) -> Tensor:
        """The plan c(z) that each z fulfils: (batch, latent_dim) -> (batch,) integers."""
        return torch.cdist(z, self.centres).argmin(1)

    def token_log_prob(self, z: Tensor) -> Tensor:
        """log p(z_t | z_<t, c(z)): (batch, latent_dim) -> (batch, tokens), nats.

        The first token carries log p(c(z)) too.
        """
        if not self.settled:
            return self._planned_log_prob(z, None)
        plan = self.global_class(z)
        chosen = F.log_softmax(self.plan_logits, dim=0)[plan]
        within = self._planned_log_prob(z, F.embedding(plan, self.plan))
        return within + F.pad(chosen[:, None], (0, self.tokens - 1))

    def _planned_log_prob(self, z: Tensor, plan: Tensor | None) -> Tensor:
        """log p(z_t | z_<t, c): (batch, tokens); plan: (batch, width)."""
        z = z.view(len(z), self.tokens, self.token_dim)
        h = self.read(self.window.gather(z)) + self.position
        h = self.first(h if plan is None else h + plan[:, None])
        counted = torch.cumsum(self.counters(h).relu(), dim=1) * self.share
        h = h + self.reread(self.window.gather(self.summary(h))) + self.recount(counted)
        logits, means, log_std = self._mixture(self.head(self.norm(self.second(h))))
        deviation = (z[:, :, None] - means) * (-log_std).exp()
        density = -0.5 * deviation.square().sum(-1) - log_std.sum(-1)
        mixed = torch.logsumexp(F.log_softmax(logits, dim=-1) + density, dim=-1)
        return mixed - self.token_dim * HALF_LOG_TWO_PI

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        """`count` draws, token by token: (count, latent_dim).

        `temperature` divides the logits and scales the standard deviations.
        """
        device = self.position.device  # the generator's numbers come from the CPU on any device
        # One row of zeros more, for everything beyond the square.
        z = torch.zeros(count, self.tokens + 1, self.token_dim, device=device)
        summaries = torch.zeros(count, self.tokens + 1, self.SUMMARY, device=device)
        counted = torch.zeros(count, self.COUNTERS, device=device)
        planned = torch.zeros((), device=device)
        if self.settled:
            shares = (self.plan_logits / temperature).softmax(0).cpu()
            plan = torch.multinomial(shares, count, replacement=True, generator=generator)
            planned = self.plan[plan.to(device)]
        for t in range(self.tokens):
            window = self.window.places(t)
            h = self.first(self.read(z[:, window].flatten(1)) + self.position[t] + planned)
            counted = counted + self.counters(h).relu()
            summaries[:, t] = self.summary(h)
            h = h + self.reread(summaries[:, window].flatten(1)) + self.recount(counted / (t + 1))
            logits, means, log_std = self._mixture(self.head(self.norm(self.second(h))))
            shares = (logits / temperature).softmax(-1).cpu()
            chosen = torch.multinomial(shares, 1, generator=generator).to(device)
            chosen = chosen[:, :, None].expand(-1, -1, self.token_dim)
            noise = torch.randn(count, self.token_dim, generator=generator).to(device)
            std = log_std.gather(1, chosen)[:, 0].exp() * temperature
            z[:, t] = means.gather(1, chosen)[:, 0] + std * noise
        return z[:, :-1].flatten(1)

    def _mixture(self, out: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Logits (..., k), means and log standard deviations (..., k, token_dim)."""
        k, d = self.components, self.token_dim
        logits, means, log_std = torch.split(out, [k, k * d, k * d], dim=-1)
        return (
            logits,
            means.reshape(*means.shape[:-1], k, d),
            log_std.reshape(*log_std.shape[:-1], k, d).clamp(*LOG_STD_RANGE),
        )
