"""Likelihoods p(x | z) of grids and of images with 256 levels, given the decoder's output.

out: (batch, outputs, height, width), the decoder's output. x of grids: (batch, height, width)
integers in [0, classes). x of images: (batch, channels, height, width) uint8; level v is v / 255.

- `categorical`: each cell of a grid is one of `classes` colours.
- `gaussian` and `discretized_logistic_mixture` are probabilities of the 256 levels: their bits per
  dimension are comparable with each other and with a code length.
- `continuous_bernoulli` is a density on [0, 1]: its nats are comparable with those of densities.
- `bernoulli` of a grey value is neither, since it omits the constant of the continuous Bernoulli:
  its nats are comparable only with its own.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

LEVELS = 256
HALF_LEVEL = 0.5 / (LEVELS - 1)  # half the distance between two levels on [0, 1]
MIN_SIGMA = HALF_LEVEL  # a Gaussian narrower than one level only overfits
SIGMA_MEMORY = 0.99  # decay of the running mean from which the analytic sigma is computed
TINY = 1e-12


class Likelihood(nn.Module, ABC):
    """Base class of p(x | z); given z, cells and pixels are independent.

    outputs: number of outputs of the decoder per cell or pixel.
    """

    comparable = True  # whether log_prob is of discrete values, and therefore a code length

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    @abstractmethod
    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        """Return log p(x | z), summed over cells, pixels and channels, in nats: (batch,)."""

    @abstractmethod
    def point_estimate(self, out: Tensor) -> Tensor:
        """Return the reconstruction: uint8, of the shape of x."""

    @abstractmethod
    def sample(self, out: Tensor, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        """Sample x ~ p(x | z), uint8; generator: on the CPU.

        temperature: 1 samples from p itself, less from a narrower distribution.
        """

    def statistics(self, out: Tensor, x: Tensor) -> Tensor | None:
        """Return the batch mean of what `observe` averages, or None."""
        return None

    def observe(self, statistics: Tensor, taken: Tensor) -> None:
        """Update running means by the `statistics` of a batch; taken: (), 0 skips the batch."""


class Categorical(Likelihood):
    """Each cell of a grid is one of `outputs` colours; the point estimate is the likeliest."""

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        return -F.cross_entropy(out, x.long(), reduction="none").flatten(1).sum(1)

    def point_estimate(self, out: Tensor) -> Tensor:
        return out.argmax(1).to(torch.uint8)

    def sample(self, out: Tensor, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        cells = out.permute(0, 2, 3, 1).cpu() / temperature
        drawn = torch.multinomial(cells.softmax(-1).flatten(0, 2), 1, generator=generator)
        return drawn.view(cells.shape[:3]).to(torch.uint8)


class ImageLikelihood(Likelihood):
    """Base class of likelihoods of images; the point estimate is the mean."""

    @abstractmethod
    def mean(self, out: Tensor) -> Tensor:
        """Return E[x | z] on [0, 1]: (batch, channels, height, width)."""

    @abstractmethod
    def sample_unit(
        self, out: Tensor, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        """Sample x ~ p(x | z) on [0, 1]: (batch, channels, height, width)."""

    def point_estimate(self, out: Tensor) -> Tensor:
        return to_levels(self.mean(out))

    def sample(self, out: Tensor, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        return to_levels(self.sample_unit(out, generator, temperature))


class Bernoulli(ImageLikelihood):
    """Each channel's grey value as the probability of white: a cross entropy, not a density."""

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
    """A Gaussian with one sigma per channel, integrated over the bin of each level.

    The first and the last level contain the tails. sigma is learned, or analytic: the root mean
    squared error, which maximises the likelihood for given means (Rybkin, Daniilidis & Levine
    2021), of the batch in training, and else of a running mean.
    """

    def __init__(self, channels: int, *, analytic: bool = False) -> None:
        super().__init__(channels)
        self.analytic = analytic
        self.log_sigma = nn.Parameter(torch.full((channels,), -2.0), requires_grad=not analytic)
        self.mean_square: Tensor
        self.register_buffer("mean_square", torch.full((channels,), math.exp(-4.0)))

    def sigma(self, error: Tensor | None = None) -> Tensor:
        """Return the standard deviation of each channel on [0, 1].

        error: x minus the decoder's output for a batch, used in training if sigma is analytic.
        """
        if not self.analytic:
            return self.log_sigma.exp().clamp_min(MIN_SIGMA)
        if self.training and error is not None:
            return error.square().mean((0, 2, 3)).sqrt().clamp_min(MIN_SIGMA)
        return self.mean_square.sqrt().clamp_min(MIN_SIGMA)

    @torch.no_grad()
    def statistics(self, out: Tensor, x: Tensor) -> Tensor | None:
        """Return the mean squared error of each channel if sigma is analytic: (channels,)."""
        return (to_unit(x) - out).square().mean((0, 2, 3)) if self.analytic else None

    @torch.no_grad()
    def observe(self, statistics: Tensor, taken: Tensor) -> None:
        self.mean_square.lerp_(statistics.nan_to_num(), (1 - SIGMA_MEMORY) * taken)

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        error = to_unit(x) - out
        sigma = self.sigma(error)[:, None, None]
        low = (error - HALF_LEVEL) / sigma
        high = (error + HALF_LEVEL) / sigma
        # A bin right of the mean is mirrored to the left, where the difference loses no digits.
        right = low + high > 0
        lower = torch.where(right, -high, low)
        upper = torch.where(right, -low, high)
        log_lower = torch.special.log_ndtr(lower)
        log_upper = torch.special.log_ndtr(upper)
        inside = log_upper + torch.log1p(-(log_lower - log_upper).clamp_max(-TINY).exp())
        first = torch.special.log_ndtr(high)
        last = torch.special.log_ndtr(-low)
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
    """Convert levels 0..255 to numbers on [0, 1]."""
    return x.to(torch.get_default_dtype()) / (LEVELS - 1)


def to_levels(x: Tensor) -> Tensor:
    """Round numbers on [0, 1] to the nearest of the 256 levels, uint8."""
    return (x * (LEVELS - 1)).round().clamp(0, LEVELS - 1).to(torch.uint8)


def uniform_like(x: Tensor, generator: torch.Generator) -> Tensor:
    """Draw uniform numbers on [0, 1) from a CPU generator, with the device and dtype of x."""
    return torch.rand(x.shape, generator=generator).to(x)
