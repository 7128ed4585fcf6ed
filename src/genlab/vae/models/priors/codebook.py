"""A learned prior whose tokens share one codebook, for codes that form tight clusters.

Grids are discrete, so the codes of a good encoder form a few hundred tight clusters per patch.
Under N(0, I) each of them costs the nats that separate a small cluster from a wide normal. A
mixture whose components lie on those clusters, with weights that depend on earlier tokens, costs
only -log(weight), which is the information that the grid really holds. The ELBO is the usual one
with another p(z) (Chen et al. 2017, Variational Lossy Autoencoder; Tomczak & Welling 2018,
VampPrior).
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genlab.distributions.gaussian import LOG_TWO_PI
from genlab.vae.models.priors.autoregressive import LearnedPrior, ReadTokens, sample_component

# log variance of the posterior: bounded so that no exponential overflows, and from below (a
# standard deviation of 0.018) so that the densities the KL compares stay within float32.
LOG_VAR_RANGE = (-8.0, 3.0)
# Its initial value on grids: a standard deviation of 0.06 among codes about 1 apart, so that codes
# of different patches are distinct from the first update on; codes that overlap would stay so.
LOG_VAR_START = -5.6
# Codes nearer than this many posterior standard deviations are one cluster. On converged grid codes
# (three seeds) clusters have radii up to 11 and centres 22 or more apart.
CLUSTER_RADIUS = 10.0
INACTIVE = -1e9
MEMORY = 0.98  # decay of the running sums behind the components, per update
MIN_COUNT = 1e-4  # tokens in these sums below which a component is not moved


class CodebookPrior(LearnedPrior):
    """p(z) = sum_c p(c) prod_t sum_k w_k(z_<t, c) N(z_t; m_k, diag(v_k)), one codebook for all.

    The network's input is a token's responsibilities under the codebook, so that a tight cluster
    acts as a discrete symbol. The weights w are trained by gradients, the codebook by online EM
    (`statistics`, `observe`), which follows moving clusters; gradient steps would have to be small
    compared to a cluster's width.

    A token is occupied if its nearest component is not `background`, the commonest one. The global
    class is the number of occupied tokens, in eight bins: without it, samples hold too few squares
    that are nearly empty or nearly full. The network also sees how many tokens are occupied so far,
    and how many of them began something new.
    """

    INIT_ITEMS = 2000
    AUTOENCODER_LR = 0.1
    CLASSES = 8
    COUNTERS = 32
    EMBED = 24

    means: Tensor
    variances: Tensor
    inactive: Tensor
    seen: Tensor
    background: Tensor
    class_edges: Tensor

    def __init__(
        self, latent_dim: int, tokens: int, width: int, depth: int, components: int, heads: int
    ) -> None:
        super().__init__(latent_dim, tokens)
        shape = (components, self.token_dim)
        self.register_buffer("means", torch.randn(shape))
        self.register_buffer("variances", torch.full(shape, math.exp(LOG_VAR_START)))
        # 0 for a component in use, INACTIVE for one that `init_from_codes` had no cluster for
        self.register_buffer("inactive", torch.zeros(components))
        # Running sums of responsibility, and of it times codes and squared codes
        self.register_buffer("seen", torch.zeros(components, 1 + 2 * self.token_dim))
        self.register_buffer("background", torch.zeros((), dtype=torch.int64))
        # A class's number is how many of these its count of occupied tokens is above.
        self.register_buffer("class_edges", tokens * torch.arange(1, self.CLASSES) / self.CLASSES)
        self.register_buffer("divisor", torch.full((tokens, 1), float(self.side)), persistent=False)
        self.symbols = nn.Parameter(torch.randn(components, self.EMBED))
        self.position = nn.Parameter(torch.randn(tokens, width) * 0.02)
        self.class_logits = nn.Parameter(torch.zeros(self.CLASSES))
        self.class_embedding = nn.Parameter(torch.randn(self.CLASSES, width) * 0.02)
        self.occupied = nn.Parameter(torch.randn(tokens + 1, width) * 0.02)
        self.begun = nn.Parameter(torch.randn(tokens + 1, width) * 0.02)
        self._make_network(self.EMBED, width, depth, components, heads)

    @torch.no_grad()
    def init_from_codes(self, mean: Tensor, log_var: Tensor, seed: int) -> None:
        """Place the components on clusters of the codes, and the classes on quantiles.

        Greedy farthest points (Gonzalez 1985) until every token is within CLUSTER_RADIUS posterior
        standard deviations of a centre, then two rounds of k-means. So a rare code gets a component
        as well as a common one, and no cluster gets two components that would blur each other.
        Unused components are inactive.
        """
        codes = mean.reshape(-1, self.token_dim)
        std = float((0.5 * log_var).exp().mean())
        centres = self._farthest_points(codes, (CLUSTER_RADIUS * std) ** 2)
        used = len(centres)
        for _ in range(2):
            owner = torch.cdist(codes, centres).argmin(1)
            count = torch.bincount(owner, minlength=used).clamp_min(1)[:, None]
            centres = torch.zeros_like(centres).index_add_(0, owner, codes) / count
        spread = (codes - centres[owner]).square()
        within = torch.zeros_like(centres).index_add_(0, owner, spread) / count
        self.means[:used] = centres
        self.variances[:used] = within + std**2
        self.inactive[used:] = INACTIVE
        squares = self.variances + self.means.square()
        self.seen.copy_(torch.cat([torch.ones_like(squares[:, :1]), self.means, squares], dim=1))
        self.background.copy_(count[:, 0].argmax())
        occupied = (owner != self.background).view(-1, self.tokens).sum(1)
        steps = torch.arange(1, self.CLASSES, device=codes.device) / self.CLASSES
        self.class_edges.copy_(torch.quantile(occupied.float(), steps))

    def _farthest_points(self, codes: Tensor, squared_radius: float) -> Tensor:
        """Choose rows of `codes`, at most one per component, each farthest from those before."""
        centres = codes[:1]
        distance = (codes - centres).square().sum(1)
        while len(centres) < len(self.means) and float(distance.max()) > squared_radius:
            farthest = codes[distance.argmax()][None]
            centres = torch.cat([centres, farthest])
            distance = torch.minimum(distance, (codes - farthest).square().sum(1))
        return centres

    @torch.no_grad()
    def statistics(self, mean: Tensor, log_var: Tensor, weights: Tensor) -> Tensor:
        """Sum each component's responsibilities, and the codes' moments weighted by them.

        Returns (components, 1 + 2 token_dim): counts, first and second moments.
        """
        codes = mean.reshape(-1, self.token_dim)
        squares = codes.square() + log_var.reshape(-1, self.token_dim).exp()
        responsibility = self.component_log_prob(codes).softmax(-1)
        responsibility = responsibility * weights.repeat_interleave(self.tokens)[:, None]
        return responsibility.T @ torch.cat([torch.ones_like(codes[:, :1]), codes, squares], dim=1)

    @torch.no_grad()
    def observe(self, statistics: Tensor, taken: Tensor) -> None:
        """Take one step of online EM (Cappe & Moulines 2009)."""
        self.seen.mul_(1 - (1 - MEMORY) * taken).add_(statistics.nan_to_num() * taken)
        sizes = [1, self.token_dim, self.token_dim]
        count, first, second = torch.split(self.seen, sizes, dim=1)
        in_use = count > MIN_COUNT  # a component without tokens is not moved
        means = torch.where(in_use, first / count, self.means)
        variances = (second / count - means.square()).clamp_min(math.exp(LOG_VAR_RANGE[0]))
        self.variances.copy_(torch.where(in_use, variances, self.variances))
        self.means.copy_(means)
        # Where two components share the commonest cluster, one of them takes over.
        self.background.copy_(count[:, 0].argmax())

    def component_log_prob(self, z: Tensor) -> Tensor:
        """Compute log N(z_t; m_k, diag(v_k)): (..., token_dim) -> (..., components).

        Expanded into products, so that one matrix multiplication does it. Its large terms cancel,
        which bfloat16 is too coarse for.
        """
        precision = self.variances.reciprocal()
        factors = torch.cat([-0.5 * precision, self.means * precision], dim=1)
        with torch.autocast(z.device.type, enabled=False):
            quadratic = torch.cat([z.square(), z], dim=-1) @ factors.T
        constant = (self.means.square() * precision + self.variances.log() + LOG_TWO_PI).sum(1)
        return quadratic - 0.5 * constant + self.inactive

    def _read_tokens(self, z: Tensor) -> ReadTokens:
        density = self.component_log_prob(z.view(len(z), self.tokens, self.token_dim))
        inputs, occupied = self._read(density)
        return ReadTokens(density, self._read_context(inputs), occupied)

    def _find_class(self, z: Tensor, tokens: ReadTokens) -> Tensor:
        """Find the class by the number of occupied tokens."""
        return torch.bucketize(tokens.occupied.sum(1).to(self.class_edges.dtype), self.class_edges)

    def _score(self, tokens: ReadTokens, classes: Tensor) -> Tensor:
        condition = self._condition(classes, tokens.occupied, slice(None))
        logits = self.inactive + self._predict(tokens.context, condition)
        return log_sum_exp(F.log_softmax(logits, dim=-1) + tokens.values)

    def _embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self._read(self.component_log_prob(z))

    def _read(self, density: Tensor) -> tuple[Tensor, Tensor]:
        """Embed tokens by their component densities (..., components); also whether occupied."""
        return density.softmax(-1) @ self.symbols, density.argmax(-1) != self.background

    def _sample_token(self, out: Tensor, generator: torch.Generator) -> Tensor:
        chosen = sample_component(self.inactive + out, generator)[:, 0]
        noise = torch.randn(len(out), self.token_dim, generator=generator).to(out.device)
        return self.means[chosen] + self.variances[chosen].sqrt() * noise

    def _condition(self, classes: Tensor, occupied: Tensor, tokens: slice) -> Tensor:
        """Embed the class and two counts before each token: occupied ones, and new beginnings.

        An occupied token begins something new if no neighbour before it is occupied.
        """
        square = occupied.view(-1, self.side, self.side)
        above = F.pad(square, (1, 1, 1, 0))
        before = (above[:, :-1, :-2], above[:, :-1, 1:-1], above[:, :-1, 2:], above[:, 1:, :-2])
        begins = (square & ~torch.stack(before).any(0)).flatten(1).long()
        full = occupied.long()
        occupied_before = (full.cumsum(1) - full)[:, tokens]
        begun_before = (begins.cumsum(1) - begins)[:, tokens]
        # F.embedding: its backward pass takes two thirds of the time of an index's
        counts = F.embedding(occupied_before, self.occupied)
        counts = counts + F.embedding(begun_before, self.begun)
        return counts + F.embedding(classes, self.class_embedding)[:, None]


def log_sum_exp(x: Tensor) -> Tensor:
    """log sum exp over the last dimension.

    Terms below e^-80 of the largest count as e^-80, which makes no difference to a sum in float32:
    exp is ten times slower where its result is subnormal, as nearly all results are here.
    """
    peak = x.detach().amax(-1, keepdim=True)
    return (x - peak).clamp_min(-80.0).exp().sum(-1).log() + peak[..., 0]
