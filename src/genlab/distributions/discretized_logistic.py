"""The discretised mixture of logistics of PixelCNN++ (Salimans et al. 2017)."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from genlab.distributions.likelihoods import (
    HALF_LEVEL,
    LEVELS,
    TINY,
    ImageLikelihood,
    to_levels,
    to_unit,
    uniform_like,
)

LOG_SCALE_RANGE = (-7.0, 3.0)


class DiscretizedLogisticMixture(ImageLikelihood):
    """A mixture of logistics per pixel, integrated over the bin of each level.

    One mixture indicator per pixel for all channels; the mean of a later channel depends linearly
    on the values of the earlier ones. So both the grey and its uncertainty vary by pixel.
    """

    def __init__(self, channels: int, components: int) -> None:
        links = channels * (channels - 1) // 2
        super().__init__(components * (1 + 2 * channels + links))
        self.channels, self.components, self.links = channels, components, links

    def log_prob(self, out: Tensor, x: Tensor) -> Tensor:
        logits, means, log_scales, links = self._split(out)
        value = 2 * to_unit(x)[:, None] - 1  # (batch, 1, channels, h, w) on [-1, 1]
        centred = value - self._shifted(means, links, value)
        inverse = (-log_scales).exp()
        upper, lower = inverse * (centred + 2 * HALF_LEVEL), inverse * (centred - 2 * HALF_LEVEL)
        mass = upper.sigmoid() - lower.sigmoid()
        # Where a bin is far out in a tail, its mass is density times width.
        middle = inverse * centred
        density = middle - log_scales - 2 * F.softplus(middle) + math.log(4 * HALF_LEVEL)
        inside = torch.where(mass > 1e-5, mass.clamp_min(TINY).log(), density)
        level = x[:, None]
        first, last = F.logsigmoid(upper), F.logsigmoid(-lower)
        each = torch.where(level == 0, first, torch.where(level == LEVELS - 1, last, inside))
        return torch.logsumexp(each.sum(2) + logits.log_softmax(1), dim=1).sum((1, 2))

    def mean(self, out: Tensor) -> Tensor:
        logits, means, _, links = self._split(out)
        weights = logits.softmax(1)[:, :, None]
        return ((weights * self._chained(means, links)).sum(1) + 1) / 2

    def point_estimate(self, out: Tensor) -> Tensor:
        """The mean of each pixel's likeliest component.

        Where a pixel may be dark or light, the mean of the whole mixture is a grey that it never
        is: a blur.
        """
        logits, means, _, links = self._split(out)
        likeliest = logits.argmax(1)[:, None, None]
        chained = self._chained(_select(means, likeliest), _select(links, likeliest))
        return to_levels((chained[:, 0] + 1) / 2)

    def sample_unit(
        self, out: Tensor, generator: torch.Generator, temperature: float = 1.0
    ) -> Tensor:
        logits, means, log_scales, links = self._split(out)
        logits = logits / temperature
        batch, _, height, width = out.shape
        weights = logits.softmax(1).permute(0, 2, 3, 1).reshape(-1, self.components).cpu()
        chosen = torch.multinomial(weights, 1, generator=generator).view(batch, 1, 1, height, width)
        chosen = chosen.to(out.device)
        means, log_scales, links = (_select(x, chosen) for x in (means, log_scales, links))
        u = uniform_like(means, generator).clamp(1e-5, 1 - 1e-5)
        noise = temperature * log_scales.exp() * (u.log() - torch.log1p(-u))
        return (self._chained(means, links, noise)[:, 0] + 1) / 2

    def _split(self, out: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Logits (batch, k, h, w); means, log scales and links (batch, k, channels or links, h, w).

        Where the decoder gives zeros, the components are spread over the levels.
        """
        k, c = self.components, self.channels
        sizes = [k, k * c, k * c, k * self.links]
        logits, means, log_scales, links = torch.split(out, sizes, dim=1)
        centres = torch.linspace(-1, 1, k + 2, device=out.device, dtype=out.dtype)[1:-1]
        means = means.reshape(len(out), k, c, *out.shape[2:]) + centres.view(1, k, 1, 1, 1)
        log_scales = (log_scales.reshape(means.shape) - 1.5).clamp(*LOG_SCALE_RANGE)
        shape = (len(out), k, self.links, *out.shape[2:])
        return logits, means, log_scales, links.reshape(shape).tanh()

    def _chained(self, means: Tensor, links: Tensor, noise: float | Tensor = 0.0) -> Tensor:
        """Channels one after the other, each given the ones before it, within [-1, 1]."""
        value = (means + noise).clamp(-1, 1)
        for _ in range(1, self.channels):
            value = (self._shifted(means, links, value) + noise).clamp(-1, 1)
        return value

    def _shifted(self, means: Tensor, links: Tensor, value: Tensor) -> Tensor:
        """Means given the earlier channels: channel c gains links . value[:c]."""
        shifted = [means[:, :, :1]]
        start = 0
        for channel in range(1, self.channels):
            weights = links[:, :, start : start + channel]
            shift = (weights * value[:, :, :channel]).sum(2, keepdim=True)
            shifted.append(means[:, :, channel : channel + 1] + shift)
            start += channel
        return torch.cat(shifted, dim=2)


def _select(x: Tensor, chosen: Tensor) -> Tensor:
    """One component of each pixel: of x (batch, k, c, h, w), chosen (batch, 1, 1, h, w)."""
    return x.gather(1, chosen.expand(-1, 1, x.shape[2], -1, -1))
