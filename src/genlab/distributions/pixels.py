"""Likelihoods of images with 256 levels: log p(x|z) of one image given what the decoder says of it.

x: (batch, channels, height, width) uint8; a level v stands for v / 255 in [0, 1]. `out`: what the
decoder gives, (batch, outputs, height, width). log_prob is summed over pixels and channels, nats.

- `gaussian` and `discretized_logistic_mixture` give probabilities to the 256 levels: their bits per
  dimension compare with each other and with a code length.
- `continuous_bernoulli` is a density on [0, 1] (Loaiza-Ganem & Cunningham 2019): its nats compare
  among densities alone.
- `bernoulli` of a grey value is neither, since it leaves out the continuous Bernoulli's constant:
  its nats compare with nothing but themselves.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genlab.distributions.likelihoods import Likelihood

LEVELS = 256
HALF = 0.5 / (LEVELS - 1)  # half of the distance between two levels on [0, 1]
LEAST_SIGMA = HALF  # a Gaussian narrower than one level gains nothing and only overfits
SIGMA_MEMORY = 0.99  # of the running mean behind the analytic sigma
LOG_SCALE_RANGE = (-7.0, 3.0)
NEAR_HALF = 0.02  # distance of a probability from 1/2 at which the constant's series is taken
TINY = 1e-12


class PixelLikelihood(Likelihood):
    """A likelihood of images with `channels` channels; it shows the mean."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.channels = channels

    @property
    def outputs(self) -> int:
        """Numbers a pixel that the decoder gives."""
        return self.channels

    @abstractmethod
    def mean(self, out: Tensor) -> Tensor:
        """E[x|z] on [0, 1]: (batch, channels, height, width)."""

    @abstractmethod
    def draw(self, out: Tensor, generator: torch.Generator) -> Tensor:
        """x ~ p(x|z) on [0, 1], of the same shape; random numbers come from the CPU."""

    def shown(self, out: Tensor) -> Tensor:
        return levels(self.mean(out))

    def drawn(self, out: Tensor, generator: torch.Generator) -> Tensor:
        return levels(self.draw(out, generator))

    def squared_error(self, out: Tensor, x: Tensor) -> Tensor | None:
        """Mean squared error of each channel, where `observe` wants it: (channels,)."""
        return None

    def observe(self, squared_error: Tensor) -> None:
        """Take in the squared error of an update's whole batch."""


class Bernoulli(PixelLikelihood):
    """Each channel's grey value as the probability of white: cross entropy, no density."""

    comparable = False

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        return -F.binary_cross_entropy_with_logits(out, unit(x), reduction="none").sum((1, 2, 3))

    def mean(self, out: Tensor) -> Tensor:
        return out.sigmoid()

    def draw(self, out: Tensor, generator: torch.Generator) -> Tensor:
        return (_uniform(out, generator) < out.sigmoid()).to(out.dtype)


class ContinuousBernoulli(Bernoulli):
    """The Bernoulli with the constant that makes it a density on [0, 1]."""

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        return super().log_prob(out, x) + log_constant(out.sigmoid()).sum((1, 2, 3))

    def mean(self, out: Tensor) -> Tensor:
        # E[x] = p / (2p - 1) + 1 / (2 artanh(1 - 2p)), which is 1/2 at p = 1/2.
        p = out.sigmoid()
        near = (p - 0.5).abs() < NEAR_HALF
        q = torch.where(near, torch.full_like(p, 0.25), p).clamp(1e-6, 1 - 1e-6)
        far = q / (2 * q - 1) + 1 / (2 * torch.atanh(1 - 2 * q))
        return torch.where(near, 0.5 + (p - 0.5) / 3, far)

    def draw(self, out: Tensor, generator: torch.Generator) -> Tensor:
        # The inverse of F(x) = (p^x (1 - p)^(1 - x) + p - 1) / (2p - 1).
        u, p = _uniform(out, generator), out.sigmoid()
        near = (p - 0.5).abs() < 1e-3
        q = torch.where(near, torch.full_like(p, 0.25), p).clamp(1e-6, 1 - 1e-6)
        odds = q / (1 - q)
        return torch.where(near, u, torch.log1p(u * (odds - 1)) / odds.log()).clamp(0, 1)


class Gaussian(PixelLikelihood):
    """A normal around the decoder's mean, one sigma a channel, its mass shared out to the levels.

    A level holds the mass of its bin; the first and the last hold the tails. sigma is learned, or
    analytic: the root of the mean squared error, which is the likeliest sigma for given means
    (Rybkin, Daniilidis & Levine 2021), of the batch in training and of a running mean elsewhere.
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
            return self.log_sigma.exp().clamp_min(LEAST_SIGMA)
        batch = self.training and error is not None
        square = error.square().mean((0, 2, 3)) if batch and error is not None else self.mean_square
        return square.sqrt().clamp_min(LEAST_SIGMA)

    @torch.no_grad()
    def squared_error(self, out: Tensor, x: Tensor) -> Tensor | None:
        return (unit(x) - out).square().mean((0, 2, 3)) if self.analytic else None

    @torch.no_grad()
    def observe(self, squared_error: Tensor) -> None:
        self.mean_square.lerp_(squared_error, 1 - SIGMA_MEMORY)

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        error = unit(x) - out
        sigma = self.sigma(error)[:, None, None]
        low, high = (error - HALF) / sigma, (error + HALF) / sigma
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

    def draw(self, out: Tensor, generator: torch.Generator) -> Tensor:
        noise = torch.randn(out.shape, generator=generator).to(out)
        return (out + self.sigma()[:, None, None] * noise).clamp(0, 1)


class LogisticMixture(PixelLikelihood):
    """A mixture of logistics shared out to the levels (Salimans et al. 2017, PixelCNN++).

    One mixture indicator a pixel for all channels; the mean of a later channel depends linearly on
    the values of the earlier ones. It can say both which grey and how sure, pixel by pixel.
    """

    def __init__(self, channels: int, components: int) -> None:
        super().__init__(channels)
        self.components = components
        self.links = channels * (channels - 1) // 2

    @property
    def outputs(self) -> int:
        return self.components * (1 + 2 * self.channels + self.links)

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        logits, means, log_scales, links = self._split(out)
        value = 2 * unit(x)[:, None] - 1  # (batch, 1, channels, h, w) on [-1, 1]
        centred = value - self._linked(means, links, value)
        inverse = (-log_scales).exp()
        upper, lower = inverse * (centred + 2 * HALF), inverse * (centred - 2 * HALF)
        mass = upper.sigmoid() - lower.sigmoid()
        # Where a bin is far out in a tail, its mass is density times width.
        middle = inverse * centred
        density = middle - log_scales - 2 * F.softplus(middle) + math.log(4 * HALF)
        inside = torch.where(mass > 1e-5, mass.clamp_min(TINY).log(), density)
        level = x[:, None]
        first, last = F.logsigmoid(upper), F.logsigmoid(-lower)
        each = torch.where(level == 0, first, torch.where(level == LEVELS - 1, last, inside))
        return torch.logsumexp(each.sum(2) + logits.log_softmax(1), dim=1).sum((1, 2))

    def mean(self, out: Tensor) -> Tensor:
        logits, means, _, links = self._split(out)
        shares = logits.softmax(1)[:, :, None]
        chained = means.clamp(-1, 1)
        for _ in range(1, self.channels):  # the mean given the means of earlier channels
            chained = self._linked(means, links, chained).clamp(-1, 1)
        return ((shares * chained).sum(1) + 1) / 2

    def shown(self, out: Tensor) -> Tensor:
        """The mean of each pixel's likeliest component.

        Where a pixel may be dark or light, the mean of the whole mixture is a grey that it never
        is: a blur.
        """
        logits, means, _, links = self._split(out)
        likeliest = logits.argmax(1)[:, None, None]
        means, links = _pick(means, likeliest), _pick(links, likeliest)
        chained = means.clamp(-1, 1)
        for _ in range(1, self.channels):
            chained = self._linked(means, links, chained).clamp(-1, 1)
        return levels((chained[:, 0] + 1) / 2)

    def draw(self, out: Tensor, generator: torch.Generator) -> Tensor:
        logits, means, log_scales, links = self._split(out)
        batch, _, height, width = out.shape
        shares = logits.softmax(1).permute(0, 2, 3, 1).reshape(-1, self.components).cpu()
        chosen = torch.multinomial(shares, 1, generator=generator).view(batch, 1, 1, height, width)
        chosen = chosen.to(out.device)

        means, log_scales, links = (_pick(x, chosen) for x in (means, log_scales, links))
        u = _uniform(means, generator).clamp(1e-5, 1 - 1e-5)
        noise = log_scales.exp() * (u.log() - torch.log1p(-u))
        value = (means + noise).clamp(-1, 1)
        for _ in range(1, self.channels):
            value = (self._linked(means, links, value) + noise).clamp(-1, 1)
        return (value[:, 0] + 1) / 2

    def _split(self, out: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Logits (batch, k, h, w); means, log scales and links (batch, k, channels or links, h, w).

        The decoder's zero stands for components spread over the levels, a fifth of them wide.
        """
        k, c = self.components, self.channels
        sizes = [k, k * c, k * c, k * self.links]
        logits, means, log_scales, links = torch.split(out, sizes, dim=1)
        centres = torch.linspace(-1, 1, k + 2, device=out.device, dtype=out.dtype)[1:-1]
        means = means.reshape(len(out), k, c, *out.shape[2:]) + centres.view(1, k, 1, 1, 1)
        log_scales = (log_scales.reshape(means.shape) - 1.5).clamp(*LOG_SCALE_RANGE)
        shape = (len(out), k, self.links, *out.shape[2:])
        return logits, means, log_scales, links.reshape(shape).tanh()

    def _linked(self, means: Tensor, links: Tensor, value: Tensor) -> Tensor:
        """Means moved by what the earlier channels are: channel c gains links . value[:c]."""
        moved = [means[:, :, :1]]
        at = 0
        for channel in range(1, self.channels):
            weights = links[:, :, at : at + channel]
            shift = (weights * value[:, :, :channel]).sum(2, keepdim=True)
            moved.append(means[:, :, channel : channel + 1] + shift)
            at += channel
        return torch.cat(moved, dim=2) if len(moved) > 1 else moved[0]


def _pick(x: Tensor, chosen: Tensor) -> Tensor:
    """One component of each pixel: of x (batch, k, c, h, w), chosen (batch, 1, 1, h, w)."""
    return x.gather(1, chosen.expand(-1, 1, x.shape[2], -1, -1))


def make(name: str, channels: int, components: int) -> PixelLikelihood:
    """The likelihood called `name`. Raises ValueError that lists the known ones."""
    if name == "bernoulli":
        return Bernoulli(channels)
    if name == "continuous_bernoulli":
        return ContinuousBernoulli(channels)
    if name in ("gaussian", "gaussian_analytic"):
        return Gaussian(channels, analytic=name == "gaussian_analytic")
    if name == "discretized_logistic_mixture":
        return LogisticMixture(channels, components)
    raise ValueError(f"likelihood of images must be one of {', '.join(NAMES)}: {name!r}")


NAMES = (
    "bernoulli",
    "continuous_bernoulli",
    "gaussian",
    "gaussian_analytic",
    "discretized_logistic_mixture",
)


def unit(x: Tensor) -> Tensor:
    """Levels 0..255 as numbers on [0, 1]."""
    return x.to(torch.get_default_dtype()) / (LEVELS - 1)


def levels(x: Tensor) -> Tensor:
    """Numbers on [0, 1] as the nearest of the 256 levels, uint8."""
    return (x * (LEVELS - 1)).round().clamp(0, LEVELS - 1).to(torch.uint8)


def log_constant(p: Tensor) -> Tensor:
    """log of 2 artanh(1 - 2p) / (1 - 2p), the continuous Bernoulli's constant; log 2 at 1/2."""
    near = (p - 0.5).abs() < NEAR_HALF
    q = torch.where(near, torch.full_like(p, 0.25), p).clamp(1e-6, 1 - 1e-6)
    far = (2 * torch.atanh(1 - 2 * q) / (1 - 2 * q)).abs().log()
    d = (p - 0.5).square()
    return torch.where(near, math.log(2.0) + 4 / 3 * d + 104 / 45 * d.square(), far)


def _uniform(like: Tensor, generator: torch.Generator) -> Tensor:
    return torch.rand(like.shape, generator=generator).to(like)
