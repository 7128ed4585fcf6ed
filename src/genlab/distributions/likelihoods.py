"""Likelihoods p(x | z) of grids and of images with 256 levels, given the decoder's output.

out: (batch, outputs, height, width), the decoder's output. Grids x: (batch, height, width) integers
in [0, classes). Images x: (batch, channels, height, width) uint8; a level v stands for v / 255.

- `categorical`: each cell of a grid is one of `classes` colours.
- `gaussian` and `discretized_logistic_mixture` give probabilities to the 256 levels: their bits per
  dimension compare with each other and with a code length.
- `continuous_bernoulli` is a density on [0, 1]: its nats compare among densities alone.
- `bernoulli` of a grey value is neither, since it leaves out the continuous Bernoulli's constant:
  its nats compare with nothing but themselves.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 256
HALF_LEVEL = 0.5 / (LEVELS - 1)  # half of the distance between two levels on [0, 1]
MIN_SIGMA = HALF_LEVEL  # a Gaussian narrower than one level gains nothing and only overfits
SIGMA_MEMORY = 0.99  # of the running mean behind the analytic sigma
TINY = 1e-12


class Likelihood(nn.Module, ABC):
    """p(x | z) as a module; given z, cells and pixels are independent of each other.

    outputs: numbers per cell or pixel that the decoder gives.
    """

    comparable = True  # whether log_prob is that of discrete values, and so a code length

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    @abstractmethod
    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        """log p(x | z), summed over cells, pixels and channels, in nats: (batch,)."""

    @abstractmethod
    def point_estimate(self, out: Tensor) -> Tensor:
        """The item shown as the reconstruction: uint8, of the shape of x."""

    @abstractmethod
    def sample(self, out: Tensor, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        """x ~ p(x | z), uint8; random numbers come from the CPU.

        temperature: 1 draws from p itself, less from a narrower distribution.
        """

    def statistics(self, out: Tensor, x: Tensor) -> Tensor | None:
        """Mean over the batch of what `observe` follows, or None."""
        return None

    def observe(self, statistics: Tensor, taken: Tensor) -> None:
        """Update running means with the `statistics` of an update; taken: (), 0 to leave it out."""


class Categorical(Likelihood):
    """Each cell of a grid is one of `outputs` colours; the point estimate takes the likeliest."""

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        return -F.cross_entropy(out, x.long(), reduction="none").flatten(1).sum(1)

    def point_estimate(self, out: Tensor) -> Tensor:
        return out.argmax(1).to(torch.uint8)

    def sample(self, out: Tensor, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        cells = out.permute(0, 2, 3, 1).cpu() / temperature
        drawn = torch.multinomial(cells.softmax(-1).flatten(0, 2), 1, generator=generator)
        return drawn.view(cells.shape[:3]).to(torch.uint8)


class ImageLikelihood(Likelihood):
    """A likelihood of images; the point estimate is the mean. By default an output per channel."""

    @abstractmethod
    def mean(self, out: Tensor) -> Tensor:
        """E[x | z] on [0, 1]: (batch, channels, height, width)."""

    @abstractmethod
    def sample_unit(
        self, out: Tensor, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        """x ~ p(x | z) on [0, 1]: (batch, channels, height, width)."""

    def point_estimate(self, out: Tensor) -> Tensor:
        return to_levels(self.mean(out))

    def sample(self, out: Tensor, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        return to_levels(self.sample_unit(out, generator, temperature))


class Bernoulli(ImageLikelihood):
    """Each channel's grey value as the probability of white: cross entropy, no density."""

    comparable = False

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        nll = F.binary_cross_entropy_with_logits(out, to_unit(x), reduction="none")
        return -nll.sum((1, 2, 3))

    def mean(self, out: Tensor) -> Tensor:
        return out.sigmoid()

    def sample_unit(
        self, out: Tensor, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        return (uniform_like(out, generator) < (out / temperature).sigmoid()).to(out.dtype)


class ContinuousBernoulli(ImageLikelihood):
    """The Bernoulli normalised to a density on [0, 1] (Loaiza-Ganem & Cunningham 2019)."""

    comparable = False

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        log_prob: Tensor = self._density(out).log_prob(to_unit(x))
        return log_prob.sum((1, 2, 3))

    def mean(self, out: Tensor) -> Tensor:
        mean: Tensor = self._density(out).mean
        return mean

    def sample_unit(
        self, out: Tensor, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        drawn: Tensor = self._density(out / temperature).icdf(uniform_like(out, generator))
        return drawn.clamp(0, 1)

    def _density(self, out: Tensor) -> Any:
        return torch.distributions.ContinuousBernoulli(logits=out, validate_args=False)


class Gaussian(ImageLikelihood):
    """A normal with one sigma per channel, integrated over the bin of each level.

    The first and the last level hold the tails. sigma is learned, or analytic: the root of the mean
    squared error, which maximises the likelihood for given means (Rybkin, Daniilidis & Levine
    2021), of the batch in training and of a running mean elsewhere.
    """

    def __init__(self, channels: int, *, analytic: bool = False) -> None:
        super().__init__(channels)
        self.analytic = analytic
        self.log_sigma = nn.Parameter(torch.full((channels,), -2.0), requires_grad=not analytic)
        self.mean_square: Tensor
        self.register_buffer("mean_square", torch.full((channels,), math.exp(-4.0)))

    def sigma(self, error: Tensor | None = None) -> Tensor:
        """Standard deviation of each channel on [0, 1]; error: that of the batch, in training."""
        if not self.analytic:
            return self.log_sigma.exp().clamp_min(MIN_SIGMA)
        if self.training and error is not None:
            return error.square().mean((0, 2, 3)).sqrt().clamp_min(MIN_SIGMA)
        return self.mean_square.sqrt().clamp_min(MIN_SIGMA)

    @torch.no_grad()
    def statistics(self, out: Tensor, x: Tensor) -> Tensor | None:
        """Mean squared error of each channel, where sigma is analytic: (channels,)."""
        return (to_unit(x) - out).square().mean((0, 2, 3)) if self.analytic else None

    @torch.no_grad()
    def observe(self, statistics: Tensor, taken: Tensor) -> None:
        self.mean_square.lerp_(statistics.nan_to_num(), (1 - SIGMA_MEMORY) * taken)

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        error = to_unit(x) - out
        sigma = self.sigma(error)[:, None, None]
        low, high = (error - HALF_LEVEL) / sigma, (error + HALF_LEVEL) / sigma
        # Mirrored where both edges are on the right, so that the difference is of small numbers.
        right = low + high > 0
        a, b = torch.where(right, -high, low), torch.where(right, -low, high)
        log_a, log_b = torch.special.log_ndtr(a), torch.special.log_ndtr(b)
        inside = log_b + torch.log1p(-(log_a - log_b).clamp_max(-TINY).exp())
        first, last = torch.special.log_ndtr(high), torch.special.log_ndtr(-low)
        mass = torch.where(x == 0, first, torch.where(x == LEVELS - 1, last, inside))
        return mass.sum((1, 2, 3))

    def mean(self, out: Tensor) -> Tensor:
        return out.clamp(0, 1)

    def sample_unit(
        self, out: Tensor, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        noise = torch.randn(out.shape, generator=generator).to(out)
        return (out + temperature * self.sigma()[:, None, None] * noise).clamp(0, 1)


def to_unit(x: Tensor) -> Tensor:
    """Levels 0..255 as numbers on [0, 1]."""
    return x.to(torch.get_default_dtype()) / (LEVELS - 1)


def to_levels(x: Tensor) -> Tensor:
    """Numbers on [0, 1] as the nearest of the 256 levels, uint8."""
    return (x * (LEVELS - 1)).round().clamp(0, LEVELS - 1).to(torch.uint8)


def uniform_like(x: Tensor, generator: torch.Generator) -> Tensor:
    """Uniform numbers on [0, 1) from a CPU generator, on the device and in the type of x."""
    return torch.rand(x.shape, generator=generator).to(x)
