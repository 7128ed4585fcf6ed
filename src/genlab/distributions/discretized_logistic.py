"""The discretised mixture of logistics of PixelCNN++ (Salimans et al. 2017)."""

import math
from typing import Any

import torch
from torch import Tensor

from genlab.distributions.likelihoods import (
    HALF_LEVEL,
    LEVELS,
    ImageLikelihood,
    to_levels,
    to_unit,
    uniform_like,
)

LOG_SCALE_RANGE = (-7.0, 3.0)


class LogBinMass(torch.autograd.Function):
    """Log mass that a logistic distribution has on a level's bin, elementwise; differentiable.

    With u and l the bin's edges in units of the scale, and sigma the logistic function,

        log(sigma(u) - sigma(l)) = log sigma(u) + log sigma(-l) + log(1 - exp(l - u)),

    in which nothing cancels, however far out in a tail the bin is. The bin of the first level has
    l = -inf, that of the last level u = inf. Autograd would compute six logarithms and keep fifteen
    tensors, where this computes one.
    """

    @staticmethod
    def forward(ctx: Any, centred: Tensor, log_scale: Tensor, level: Tensor) -> Tensor:
        """centred: level minus mean, both on [-1, 1]; level: 0 .. 255."""
        inverse = (-log_scale).exp()
        half = inverse * (2 * HALF_LEVEL)
        middle = inverse * centred
        first = level == 0
        last = level == LEVELS - 1
        upper = (middle + half).masked_fill_(last, math.inf)
        lower = (middle - half).masked_fill_(first, -math.inf)
        tanh = half.tanh()
        # 1 - exp(l - u), by tanh, which loses no digits where the bin is narrow
        inside = (2 * tanh / (1 + tanh)).masked_fill_(first | last, 1.0)
        # log sigma(u) = min(u, 0) - log(1 + exp(-|u|)), and likewise of -l
        tails = (1 + (-upper.abs()).exp()) * (1 + (-lower.abs()).exp())
        ctx.save_for_backward(inverse, half, middle, upper, lower, tanh, first | last)
        return (inside / tails).log_() + upper.clamp_max(0) - lower.clamp_min(0)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        """Gradients in centred and log_scale."""
        inverse, half, middle, upper, lower, tanh, outermost = ctx.saved_tensors
        above = (-upper).sigmoid()  # d log sigma(u) / du
        below = lower.sigmoid()  # -d log sigma(-l) / dl
        of_middle = gradient * (above - below)
        of_inside = ((1 - tanh) / tanh).masked_fill_(outermost, 0.0)
        of_half = gradient * (above + below + of_inside)
        # d middle / d log_scale = -middle, and d half / d log_scale = -half
        return of_middle * inverse, -(of_middle * middle + of_half * half), None


class DiscretizedLogisticMixture(ImageLikelihood):
    """A mixture of logistics per pixel, integrated over the bin of each level.

    All channels of a pixel share the mixture indicator. The mean of a channel depends linearly on
    the values of the earlier channels.
    """

    def __init__(self, channels: int, components: int) -> None:
        links = channels * (channels - 1) // 2
        super().__init__(components * (1 + 2 * channels + links))
        self.channels = channels
        self.components = components
        self.links = links

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        # One plane per number: operations on few numbers per pixel would not be vectorised.
        logits, means, log_scales, links = self._split(out.contiguous())
        value = 2 * to_unit(x)[:, None].contiguous() - 1  # (batch, 1, channels, h, w) on [-1, 1]
        centred = value - self._shift(means, links, value)
        mass = LogBinMass.apply(centred, log_scales, x[:, None])
        weighted = mass.sum(2) + logits.log_softmax(1)
        return torch.logsumexp(weighted, dim=1).sum((1, 2))

    def mean(self, out: Tensor) -> Tensor:
        logits, means, _, links = self._split(out)
        weights = logits.softmax(1)[:, :, None]
        return ((weights * self._chain(means, links)).sum(1) + 1) / 2

    def point_estimate(self, out: Tensor) -> Tensor:
        """Return the mean of each pixel's likeliest component.

        Where a pixel is either dark or light, the mean of the mixture is a grey in between, which
        looks blurred.
        """
        logits, means, _, links = self._split(out)
        likeliest = logits.argmax(1)[:, None, None]
        chained = self._chain(_select(means, likeliest), _select(links, likeliest))
        return to_levels((chained[:, 0] + 1) / 2)

    def sample_unit(
        self, out: Tensor, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        logits, means, log_scales, links = self._split(out)
        weights = (logits / temperature).softmax(1).permute(0, 2, 3, 1).cpu()
        # The same draws as torch.multinomial's (Gumbel's trick), without its checks in every call.
        noise = torch.empty_like(weights, memory_format=torch.contiguous_format)
        chosen = (weights / noise.exponential_(generator=generator)).argmax(-1)
        chosen = chosen.to(out.device)[:, None, None]
        means, log_scales, links = (_select(x, chosen) for x in (means, log_scales, links))
        u = uniform_like(means, generator).clamp(1e-5, 1 - 1e-5)
        away = temperature * log_scales.exp() * (u.log() - torch.log1p(-u))
        return (self._chain(means, links, away)[:, 0] + 1) / 2

    def _split(self, out: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Split out into logits (batch, k, h, w) and means, log scales and links.

        The latter are (batch, k, channels or links, h, w). For an output of zeros, the components'
        means are spread evenly over the levels.
        """
        k = self.components
        c = self.channels
        sizes = [k, k * c, k * c, k * self.links]
        logits, means, log_scales, links = torch.split(out, sizes, dim=1)
        centres = torch.linspace(-1, 1, k + 2, device=out.device, dtype=out.dtype)[1:-1]
        means = means.reshape(len(out), k, c, *out.shape[2:]) + centres.view(1, k, 1, 1, 1)
        log_scales = (log_scales.reshape(means.shape) - 1.5).clamp(*LOG_SCALE_RANGE)
        shape = (len(out), k, self.links, *out.shape[2:])
        return logits, means, log_scales, links.reshape(shape).tanh()

    def _chain(self, means: Tensor, links: Tensor, noise: float | Tensor = 0.0) -> Tensor:
        """Compute channels one after the other, each given the earlier ones, within [-1, 1]."""
        value = (means + noise).clamp(-1, 1)
        for _ in range(1, self.channels):
            value = (self._shift(means, links, value) + noise).clamp(-1, 1)
        return value

    def _shift(self, means: Tensor, links: Tensor, value: Tensor) -> Tensor:
        """Shift means by the earlier channels: channel c by links . value[:c]."""
        shifted = [means[:, :, :1]]
        start = 0
        for channel in range(1, self.channels):
            weights = links[:, :, start : start + channel]
            shift = (weights * value[:, :, :channel]).sum(2, keepdim=True)
            shifted.append(means[:, :, channel : channel + 1] + shift)
            start += channel
        return torch.cat(shifted, dim=2)


def _select(x: Tensor, chosen: Tensor) -> Tensor:
    """Select one component per pixel. x: (batch, k, c, h, w); chosen: (batch, 1, 1, h, w)."""
    return x.gather(1, chosen.expand(-1, 1, x.shape[2], -1, -1))
