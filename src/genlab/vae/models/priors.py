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

from genlab.vae.models.mixture_density import MixtureDensityPrior
from genlab.vae.models.networks import LOG_VAR_RANGE, LOG_VAR_START, MLP
from genlab.vae.models.windows import CausalWindow

# Codes nearer than this many posterior standard deviations are one cluster. On settled grid codes
# (three seeds) clusters have radii up to 11 and centres 22 or more apart.
APART = 10.0
INACTIVE = -1e9
MEMORY = 0.98  # of the running sums behind the components, from update to update
LEAST_SEEN = 1e-4  # tokens in that memory below which a component is left as it is
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


class CodebookPrior(nn.Module):
    """p(z) = sum_c p(c) prod_t sum_k w_k(z_<t, c) N(z_t; m_k, diag(v_k)), one codebook for all.

    The tokens lie on a square; the weights w see the tokens before t, in reading order, through
    two causal windows (`WINDOW_ROWS` above, `WINDOW_SIDE` to each side), running sums of what was
    read so far and two plain counts. A token enters through its responsibilities under the
    codebook, so that a tight cluster acts as a discrete symbol. The weights are trained by
    gradients, the codebook by online EM (`moments`, `observe`), which follows moving clusters where
    gradient steps would have to be small against a cluster's width.

    The plan c says how full the square is to be, before the first token is drawn: one of PLANS
    classes of the number of occupied tokens, those nearest to another component than `ground`, the
    commonest. Reading order alone spreads objects at an even rate, and so makes too few squares
    that are nearly empty or full. z tells its plan c(z), so scoring takes one term of the sum:
    log p(c(z)) + log p(z | c(z)) <= log p(z), and the ELBO stays a bound.
    latent_dim must be a multiple of tokens; raises ValueError otherwise.
    """

    PLANS = 8

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
        self.means: Tensor
        self.variances: Tensor
        self.inactive: Tensor
        self.seen: Tensor
        shape = (components, self.token_dim)
        self.register_buffer("means", torch.randn(shape))
        self.register_buffer("variances", torch.full(shape, math.exp(LOG_VAR_START)))
        # 0 for a component in use, INACTIVE for one that `init_from_codes` had no cluster for.
        self.register_buffer("inactive", torch.zeros(components))
        # Running sums of responsibility, and of it times codes and squared codes.
        self.register_buffer("seen", torch.zeros(components, 1 + 2 * self.token_dim))
        self.ground: Tensor
        self.plan_edges: Tensor
        self.register_buffer("ground", torch.zeros((), dtype=torch.int64))
        # A plan's number is how many of these its count of occupied tokens is above.
        self.register_buffer("plan_edges", tokens * torch.arange(1, self.PLANS) / self.PLANS)
        self.symbols = nn.Parameter(torch.randn(components, self.EMBED))
        self.window = CausalWindow(self.side, self.WINDOW_ROWS, self.WINDOW_SIDE)
        seen = len(self.window.offsets)
        self.position = nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.plan_logits = nn.Parameter(torch.zeros(self.PLANS))
        self.plan = nn.Parameter(torch.randn(self.PLANS, width) * 0.02)
        self.occupied = nn.Parameter(torch.randn(tokens + 1, width) * 0.02)
        self.begun = nn.Parameter(torch.randn(tokens + 1, width) * 0.02)
        self.read = nn.Linear(seen * self.EMBED, width)
        self.first = nn.Sequential(*(MLP(width, 2 * width) for _ in range(depth // 2)))
        self.summary = nn.Linear(width, self.SUMMARY)
        self.reread = nn.Linear(seen * self.SUMMARY, width, bias=False)
        nn.init.zeros_(self.reread.weight)
        self.counters = nn.Linear(width, self.COUNTERS)
        self.recount = nn.Linear(self.COUNTERS, width, bias=False)
        self.second = nn.Sequential(*(MLP(width, 2 * width) for _ in range(depth - depth // 2)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, components)

    @torch.no_grad()
    def init_from_codes(self, codes: Tensor, std: float) -> int:
        """Put the components on the clusters of `codes`, before training the prior.

        codes: (n * tokens, token_dim), the tokens of n squares, one square after the other.

        Greedy farthest points (Gonzalez 1985), until every code is within APART * `std`, the
        posterior's standard deviation, of a centre; then two rounds of k-means. So a rare code gets
        a component as well as a common one, and no cluster gets two that would blur each other.
        Components that are left over are inactive. Returns the number in use.
        """
        centres = codes[:1]
        distance = (codes - centres).square().sum(1)
        while len(centres) < len(self.means) and float(distance.max()) > (APART * std) ** 2:
            farthest = codes[distance.argmax()][None]
            centres = torch.cat([centres, farthest])
            distance = torch.minimum(distance, (codes - farthest).square().sum(1))
        used = len(centres)
        for _ in range(2):
            owner = torch.cdist(codes, centres).argmin(1)
            count = torch.bincount(owner, minlength=len(centres)).clamp_min(1)[:, None]
            centres = torch.zeros_like(centres).index_add_(0, owner, codes) / count
        spread = (codes - centres[owner]).square()
        within = torch.zeros_like(centres).index_add_(0, owner, spread) / count
        self.means[:used] = centres
        self.variances[:used] = within + std**2
        self.inactive[used:] = INACTIVE
        squares = self.variances + self.means.square()
        self.seen.copy_(torch.cat([torch.ones_like(squares[:, :1]), self.means, squares], dim=1))
        self.ground.copy_(count[:, 0].argmax())
        full = (owner != self.ground).view(-1, self.tokens).sum(1)
        steps = torch.arange(1, self.PLANS, device=full.device) / self.PLANS
        self.plan_edges.copy_(torch.quantile(full.float(), steps))
        return used

    @torch.no_grad()
    def moments(self, mean: Tensor, log_var: Tensor) -> Tensor:
        """What codes N(mean, exp(log_var)), each (batch, latent_dim), say about the components.

        Sums over tokens of each component's responsibility, and of it times the code's first and
        second moments: (components, 1 + 2 token_dim).
        """
        codes = mean.reshape(-1, self.token_dim)
        squares = codes.square() + log_var.reshape(-1, self.token_dim).exp()
        share = self.component_log_prob(codes).softmax(-1)
        rows = torch.cat([torch.ones_like(codes[:, :1]), codes, squares], dim=1)
        return share.T @ rows

    @torch.no_grad()
    def observe(self, moments: Tensor) -> None:
        """One step of online EM (Cappe & Moulines 2009): forget a little, add, read off."""
        self.seen.mul_(MEMORY).add_(moments)
        count, first = self.seen[:, :1], self.seen[:, 1 : 1 + self.token_dim]
        second = self.seen[:, 1 + self.token_dim :]
        known = count > LEAST_SEEN  # a component that fades away stays where it was
        means = torch.where(known, first / count, self.means)
        variances = (second / count - means.square()).clamp_min(math.exp(LOG_VAR_RANGE[0]))
        self.variances.copy_(torch.where(known, variances, self.variances))
        self.means.copy_(means)
        # Followed too: where two components share the common cluster, one of them takes it over.
        self.ground.copy_(count[:, 0].argmax())

    def component_log_prob(self, z: Tensor) -> Tensor:
        """log N(z_t; m_k, diag(v_k)): (..., token_dim) -> (..., components).

        Expanded into products, so that the work is one matrix multiplication.
        """
        precision = self.variances.reciprocal()
        factors = torch.cat([-0.5 * precision, self.means * precision], dim=1)
        quadratic = torch.cat([z.square(), z], dim=-1) @ factors.T
        constant = (self.means.square() * precision + self.variances.log() + LOG_TWO_PI).sum(1)
        return quadratic - 0.5 * constant + self.inactive

    def token_log_prob(self, z: Tensor) -> Tensor:
        """log p(z_t | z_<t, c(z)): (batch, latent_dim) -> (batch, tokens), nats.

        The first token carries log p(c(z)) too.
        """
        plan = self.global_class(z)
        planned = F.log_softmax(self.plan_logits, dim=0)[plan]
        return self.planned_log_prob(z, plan) + F.pad(planned[:, None], (0, self.tokens - 1))

    def planned_log_prob(self, z: Tensor, plan: Tensor) -> Tensor:
        """log p(z_t | z_<t, c) under given plans (batch,): (batch, tokens), nats."""
        density = self.component_log_prob(z.view(len(z), self.tokens, self.token_dim))
        weights = self.log_weights(density, plan)
        return log_sum_exp(weights + density)

    def global_class(self, z: Tensor) -> Tensor:
        """The plan c(z) that each z fulfils: (batch, latent_dim) -> (batch,) integers."""
        density = self.component_log_prob(z.detach().view(len(z), self.tokens, self.token_dim))
        full = self._occupancy(density).sum((1, 2))
        return torch.bucketize(full.to(self.plan_edges.dtype), self.plan_edges)

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        """`count` draws, token by token: (count, latent_dim); `temperature` divides the logits."""
        device = self.means.device  # the generator's numbers come from the CPU on any device
        shares = (self.plan_logits / temperature).softmax(0).cpu()
        plan = torch.multinomial(shares, count, replacement=True, generator=generator).to(device)
        # One row of zeros more, for everything beyond the square.
        embedded = torch.zeros(count, self.tokens + 1, self.EMBED, device=device)
        summaries = torch.zeros(count, self.tokens + 1, self.SUMMARY, device=device)
        counted = torch.zeros(count, self.COUNTERS, device=device)
        # One row above and a column to each side, so that every token has its neighbours.
        edged = (count, self.side + 1, self.side + 2)
        occupancy = torch.zeros(edged, dtype=torch.bool, device=device)
        full, begun = torch.zeros_like(plan), torch.zeros_like(plan)
        z = torch.zeros(count, self.tokens, self.token_dim, device=device)
        for t in range(self.tokens):
            y, x = divmod(t, self.side)
            window = self.window.places(t)
            h = self.first(self.read(embedded[:, window].flatten(1)) + self.position[t])
            counted = counted + self.counters(h).relu() / self.side
            summaries[:, t] = self.summary(h)
            h = h + self.reread(summaries[:, window].flatten(1)) + self.recount(counted)
            h = h + (self._so_far(full, begun) + F.embedding(plan, self.plan))
            logits = self.inactive + self.head(self.norm(self.second(h))) / temperature
            shares = logits.softmax(-1).cpu()
            chosen = torch.multinomial(shares, 1, generator=generator)[:, 0].to(device)
            noise = torch.randn(count, self.token_dim, generator=generator).to(device)
            z[:, t] = self.means[chosen] + self.variances[chosen].sqrt() * noise
            density = self.component_log_prob(z[:, t])
            embedded[:, t] = density.softmax(-1) @ self.symbols
            is_full = density.argmax(-1) != self.ground
            begins = is_full & ~(occupancy[:, y, x : x + 3].any(1) | occupancy[:, y + 1, x])
            occupancy[:, y + 1, x + 1] = is_full
            full, begun = full + is_full, begun + begins
        return z.flatten(1)

    def log_weights(self, density: Tensor, plan: Tensor) -> Tensor:
        """log w of every component at every token: (batch, tokens, components).

        density: what `component_log_prob` gives, of the same shape; plan: (batch,).
        """
        embedded = density.softmax(-1) @ self.symbols
        h = self.first(self.read(self.window.gather(embedded)) + self.position)
        counted = torch.cumsum(self.counters(h).relu(), dim=1) / self.side
        h = h + self.reread(self.window.gather(self.summary(h))) + self.recount(counted)
        h = h + self._counts(self._occupancy(density), plan)
        return F.log_softmax(self.inactive + self.head(self.norm(self.second(h))), dim=-1)

    def _occupancy(self, density: Tensor) -> Tensor:
        """Which tokens another component than the ground is nearest to: (batch, side, side)."""
        return (density.argmax(-1) != self.ground).view(-1, self.side, self.side)

    def _counts(self, occupancy: Tensor, plan: Tensor) -> Tensor:
        """What is planned and how much of it stands before each token: (batch, tokens, width).

        Counted are the occupied tokens, and those of them with no occupied neighbour among the
        tokens before them, where something new begins.
        """
        above = F.pad(occupancy, (1, 1, 1, 0))
        behind = (above[:, :-1, :-2], above[:, :-1, 1:-1], above[:, :-1, 2:], above[:, 1:, :-2])
        begins = occupancy & ~torch.stack(behind).any(0)
        full, begun = occupancy.flatten(1).long(), begins.flatten(1).long()
        so_far = self._so_far(full.cumsum(1) - full, begun.cumsum(1) - begun)
        return so_far + F.embedding(plan, self.plan)[:, None]

    def _so_far(self, full: Tensor, begun: Tensor) -> Tensor:
        """Two counts, of one shape, as vectors: (..., width)."""
        # F.embedding, whose backward pass takes two thirds of the time of an index's.
        return F.embedding(full, self.occupied) + F.embedding(begun, self.begun)


Prior = StandardPrior | CodebookPrior | MixtureDensityPrior


def make_prior(
    name: str, latent_dim: int, tokens: int, width: int, depth: int, components: int
) -> Prior:
    """The prior called `name`. Raises ValueError that lists the known ones."""
    if name == "standard":
        return StandardPrior(latent_dim)
    if name == "autoregressive":
        return CodebookPrior(latent_dim, tokens, width, depth, components)
    if name == "autoregressive_mixture":
        return MixtureDensityPrior(latent_dim, tokens, width, depth, components)
    raise ValueError(f"prior must be standard, autoregressive or autoregressive_mixture: {name!r}")


def log_sum_exp(x: Tensor) -> Tensor:
    """log sum exp over the last dimension.

    Terms below e^-80 of the greatest are taken as e^-80, which float32 cannot tell from nothing in
    the sum: exp is ten times slower where its result is no normal number, as nearly all are here.
    """
    peak = x.detach().amax(-1, keepdim=True)
    return (x - peak).clamp_min(-80.0).exp().sum(-1).log() + peak[..., 0]
