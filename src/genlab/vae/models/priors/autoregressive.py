"""The network that the two learned priors share: tokens of a square, read row by row."""

import math
from abc import abstractmethod
from typing import ClassVar, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genlab.vae.models.layers import CausalAttention, GatedMLP, TokenLinear
from genlab.vae.models.priors.base import Prior


class ReadTokens(NamedTuple):
    """Tokens of codes as the network reads them, before a class is chosen.

    values: (batch, tokens, d), tokens or their component densities. context: (batch, tokens,
    width), features of the tokens before each. occupied: (batch, tokens), see `_embed`.
    """

    values: Tensor
    context: Tensor
    occupied: Tensor


class LearnedPrior(Prior):
    """Autoregressive prior: a distribution per token, given a global class and earlier tokens.

    The tokens lie on a square and are read row by row. Two causal windows, applied one after the
    other, show each token its neighbours; running sums of `COUNTERS` features show it all earlier
    tokens, and so does attention if it has heads. The first tokens of very different items may look
    alike, so one of `CLASSES` global classes c is drawn first:

        p(z) = sum_c p(c) prod_t p(z_t | z_<t, c)

    `token_log_prob` sums over all classes. z determines its class c(z), and training takes only the
    term of that class, log p(c(z)) + log p(z | c(z)) <= log p(z), which needs one pass in place of
    `CLASSES` (`bound_token_log_prob`).

    A subclass makes its own parameters, then the shared ones by `_make_network`.
    latent_dim must be a multiple of tokens, and tokens a square; raises ValueError otherwise.
    """

    CLASSES: ClassVar[int]
    COUNTERS: ClassVar[int]
    REACH = 3  # rows above, and columns to each side, that a window holds
    SUMMARY = 16

    position: nn.Parameter
    class_logits: nn.Parameter
    class_embedding: nn.Parameter
    divisor: Tensor  # of the running sums at each token: (tokens, 1)

    def __init__(self, latent_dim: int, tokens: int) -> None:
        super().__init__()
        self.side = math.isqrt(tokens)
        if self.side**2 != tokens or latent_dim % tokens:
            raise ValueError(f"latent_dim must be a multiple of {tokens} tokens, got {latent_dim}")
        self.tokens = tokens
        self.token_dim = latent_dim // tokens

    def _make_network(self, inputs: int, width: int, depth: int, outputs: int, heads: int) -> None:
        """Make the layers from `inputs` features to `outputs` numbers per token.

        heads: of the attention before each block of the second half, 0 for no attention.
        """
        offsets = 2 * self.REACH * (self.REACH + 1)
        self.inputs = inputs
        self.read = TokenLinear(offsets * inputs, width)
        self.first = nn.Sequential(*(GatedMLP(width) for _ in range(depth // 2)))
        self.summary = TokenLinear(width, self.SUMMARY)
        self.reread = TokenLinear(offsets * self.SUMMARY, width, bias=False)
        nn.init.zeros_(self.reread.weight)
        self.counters = TokenLinear(width, self.COUNTERS)
        self.recount = TokenLinear(self.COUNTERS, width, bias=False)
        self.second = nn.Sequential()
        for _ in range(depth - depth // 2):
            if heads:
                self.second.append(CausalAttention(width, heads))
            self.second.append(GatedMLP(width))
        self.norm = nn.LayerNorm(width)
        self.head = TokenLinear(width, outputs)

    def _over_windows(self, layer: nn.Linear, x: Tensor) -> Tensor:
        """Apply `layer` to the tokens before each token, up to REACH rows and columns away.

        x: (batch, tokens, c) -> (batch, tokens, outputs), with zeros outside of the square. The
        layer's inputs are ordered by position, then channel. Computed as a convolution with zero
        weights at the token and after it, so that no window is copied.
        """
        batch, _, channels = x.shape
        reach = self.REACH
        side = self.side
        weight = F.pad(layer.weight, (0, channels * (reach + 1)))
        kernel = weight.view(-1, reach + 1, 2 * reach + 1, channels).permute(0, 3, 1, 2)
        square = x.reshape(batch, side, side, channels).permute(0, 3, 1, 2)
        padded = F.pad(square, (0, 0, reach, 0))
        out = F.conv2d(padded, kernel, layer.bias, padding=(0, reach))
        return out.permute(0, 2, 3, 1).reshape(batch, self.tokens, -1)

    def _window_tokens(self) -> Tensor:
        """List the tokens in each token's window: (tokens, window), -1 outside of the square."""
        reach = self.REACH
        side = self.side
        numbers = torch.arange(self.tokens, device=self.position.device).view(side, side)
        padded = F.pad(numbers, (reach, reach, reach, 0), value=-1)
        windows = padded.unfold(0, reach + 1, 1).unfold(1, 2 * reach + 1, 1)
        return windows.reshape(self.tokens, -1)[:, : 2 * reach * (reach + 1)]

    def _read_context(self, inputs: Tensor) -> Tensor:
        """Compute features of the tokens before each token: (batch, tokens, width).

        inputs: (batch, tokens, inputs). The features do not depend on the class.
        """
        h = self.first(self._over_windows(self.read, inputs) + self.position)
        counted = torch.cumsum(self.counters(h).relu(), dim=1) * self.divisor.reciprocal()
        further = self._over_windows(self.reread, self.summary(h))
        context: Tensor = h + further + self.recount(counted)
        return context

    def _predict(self, context: Tensor, condition: Tensor) -> Tensor:
        """Compute the network's output at every token: (batch, tokens, outputs).

        condition: from `_condition`, broadcastable to context (batch, tokens, width).
        """
        out: Tensor = self.head(self.norm(self.second(context + condition)))
        return out.to(self.position.dtype)

    def token_log_prob(self, z: Tensor) -> Tensor:
        tokens = self._read_tokens(z)
        joint = []
        for c, class_log_prob in enumerate(self.class_shares()):
            classes = torch.full((len(z),), c, device=z.device)
            joint.append(self._score(tokens, classes).cumsum(1) + class_log_prob)
        # log p(z_1, ..., z_t), whose differences are the tokens' log p(z_t | z_<t)
        prefixes: Tensor = torch.stack(joint).logsumexp(0)
        return prefixes - F.pad(prefixes[:, :-1], (1, 0))

    def bound_token_log_prob(self, z: Tensor) -> Tensor:
        """log p(z_t | z_<t, c(z)) in nats, with log p(c(z)) in the first token: (batch, tokens)."""
        tokens = self._read_tokens(z)
        classes = self._find_class(z, tokens)
        class_log_prob = self.class_shares()[classes]
        within = self._score(tokens, classes)
        return within + F.pad(class_log_prob[:, None], (0, self.tokens - 1))

    def class_log_prob(self, z: Tensor, classes: Tensor) -> Tensor:
        """Compute log p(z_t | z_<t, c) in nats for classes c (batch,): (batch, tokens)."""
        return self._score(self._read_tokens(z), classes)

    def class_shares(self) -> Tensor:
        """log p(c) of each class: (CLASSES,), nats."""
        return F.log_softmax(self.class_logits, dim=0)

    @torch.no_grad()
    def global_class(self, z: Tensor) -> Tensor:
        """Find the class c(z): (batch, latent_dim) -> (batch,)."""
        return self._find_class(z, self._read_tokens(z))

    @abstractmethod
    def _read_tokens(self, z: Tensor) -> ReadTokens:
        """Compute what the scores of all classes have in common."""

    @abstractmethod
    def _find_class(self, z: Tensor, tokens: ReadTokens) -> Tensor:
        """Find the class c(z): (batch,)."""

    @abstractmethod
    def _score(self, tokens: ReadTokens, classes: Tensor) -> Tensor:
        """Compute log p(z_t | z_<t, c) in nats for classes c (batch,): (batch, tokens)."""

    @torch.no_grad()
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        device = self.position.device  # random numbers come from the CPU, whatever the device
        classes = self._sample_classes(count, generator)
        # One more row, of zeros, for everything outside of the square
        rows = self.tokens + 1
        z = torch.zeros(count, rows, self.token_dim, device=device)
        inputs = torch.zeros(count, rows, self.inputs, device=device)
        summaries = torch.zeros(count, rows, self.SUMMARY, device=device)
        counted = torch.zeros(count, self.COUNTERS, device=device)
        occupied = torch.zeros(count, self.tokens, dtype=torch.bool, device=device)
        caches = {
            layer: self.position.new_zeros(2, count, layer.heads, self.tokens, layer.size)
            for layer in self.second
            if isinstance(layer, CausalAttention)
        }
        for t, window in enumerate(self._window_tokens()):  # -1 is the last row
            h = self.first(self.read(inputs[:, window].flatten(1)) + self.position[t])
            counted = counted + self.counters(h).relu()
            summaries[:, t] = self.summary(h)
            h = h + self.reread(summaries[:, window].flatten(1))
            h = h + self.recount(counted / self.divisor[t])
            h = h + self._condition(classes, occupied, slice(t, t + 1))[:, 0]
            for layer in self.second:
                h = layer.step(h, caches[layer], t) if layer in caches else layer(h)
            z[:, t] = self._sample_token(self.head(self.norm(h)), generator)
            inputs[:, t], occupied[:, t] = self._embed(z[:, t])
        return z[:, :-1].flatten(1)

    def _sample_classes(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw global classes: (count,) integers."""
        weights = self.class_logits.softmax(0).cpu()
        drawn = torch.multinomial(weights, count, replacement=True, generator=generator)
        return drawn.to(self.position.device)

    @abstractmethod
    def _condition(self, classes: Tensor, occupied: Tensor, tokens: slice) -> Tensor:
        """Compute what is added before the second blocks, (batch or 1, tokens or 1, width).

        occupied: (batch, tokens), as `_embed` returns it. tokens: which tokens to compute it for.
        """

    @abstractmethod
    def _sample_token(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """Draw a token from the network's output (batch, outputs): (batch, token_dim)."""

    @abstractmethod
    def _embed(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Embed tokens (..., token_dim) for later ones: (..., inputs); also whether occupied."""


def sample_component(logits: Tensor, generator: torch.Generator) -> Tensor:
    """Draw one component per row of logits (batch, k): (batch, 1) integers."""
    weights = logits.softmax(-1).cpu()
    return torch.multinomial(weights, 1, generator=generator).to(logits.device)
