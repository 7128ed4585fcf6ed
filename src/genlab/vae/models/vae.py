"""The VAE: encoder, prior, decoder and likelihood."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from genlab.distributions import likelihoods
from genlab.distributions.discretized_logistic import DiscretizedLogisticMixture
from genlab.distributions.gaussian import reparameterize
from genlab.distributions.likelihoods import Likelihood, to_unit
from genlab.vae.models.causal_head import CausalHead
from genlab.vae.models.convolutional import ConvDecoder, ConvEncoder
from genlab.vae.models.mixer import MixerDecoder, MixerEncoder
from genlab.vae.models.priors import PRIORS
from genlab.vae.models.priors.codebook import LOG_VAR_RANGE, LOG_VAR_START

Items = npt.NDArray[np.uint8]
Decoded = tuple[Tensor, Tensor]  # see `VAE.decode`

# Initial log variance of the posterior on images: a standard deviation of 0.37, wide enough that
# the KL is small at first, narrow enough that codes still matter.
IMAGE_LOG_VAR_START = -2.0
LIKELIHOODS: dict[str, Callable[[int], Likelihood]] = {
    "categorical": likelihoods.Categorical,
    "bernoulli": likelihoods.Bernoulli,
    "continuous_bernoulli": likelihoods.ContinuousBernoulli,
    "gaussian": likelihoods.Gaussian,
    "gaussian_analytic": partial(likelihoods.Gaussian, analytic=True),
}


@dataclass(frozen=True)
class Architecture:
    """Everything that determines the shapes of the weights; stored in the checkpoint.

    size: side of an item. classes: number of values of a cell or pixel. channels: of a pixel, 0 for
    grids. latent_context: whether p(x|z) depends on z.
    """

    size: int
    classes: int
    channels: int
    patch: int
    width: int
    depth: int
    latent_dim: int
    prior: str
    prior_width: int
    prior_depth: int
    prior_components: int
    likelihood: str
    likelihood_components: int
    causal_channels: int
    prior_heads: int
    latent_context: bool = True

    @property
    def tokens(self) -> int:
        return (self.size // self.patch) ** 2

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of an item as an array, channels last."""
        return (self.size, self.size, self.channels)[: 3 if self.channels else 2]


class VAE(nn.Module):
    """q(z|x), p(z) and p(x|z) of grids (batch, size, size) or images (batch, c, size, size).

    The ELBO (Kingma & Welling 2014, eq. 2) of one item, in nats:

        log p(x) >= E_q(z|x)[ log p(x|z) ] - KL( q(z|x) || p(z) )

    Cells, pixels and latents are summed over; nothing is averaged. q(z|x) = N(mean, diag(var)).
    The KL is closed form for p = N(0, I); for a learned prior it is the unbiased one-sample
    estimate log q(z|x) - log p(z), where p(z) sums over all global classes. Training bounds the
    KL from above by one class (`Prior.bound_token_kl`). The negative ELBO stays above the entropy
    of the data.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = self.architecture = architecture
        self.likelihood = make_likelihood(a)
        outputs = self.likelihood.outputs
        context = a.causal_channels
        shape = (a.width, a.depth, a.latent_dim)
        self.encoder: nn.Module
        self.decoder: nn.Module
        if a.channels:
            self.encoder = ConvEncoder(a.size, a.patch, a.channels, *shape)
            self.decoder = ConvDecoder(a.size, a.patch, outputs, context, *shape)
        else:
            self.encoder = MixerEncoder(a.size, a.patch, a.classes, *shape)
            self.decoder = MixerDecoder(a.size, a.patch, outputs, *shape)
        self.head = CausalHead(a.channels, outputs, context) if context else None
        self.prior = PRIORS[a.prior](
            a.latent_dim,
            a.tokens,
            a.prior_width,
            a.prior_depth,
            a.prior_components,
            a.prior_heads,
        )

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Compute mean and log variance of q(z|x), each (batch, latent_dim).

        Without `latent_context` it is N(0, I), so that the KL is 0. The networks' input is pixel
        levels on [-1, 1], or the colours of grids one-hot.
        """
        if not self.architecture.latent_context:
            mean = torch.zeros(len(x), self.architecture.latent_dim, device=x.device)
            return mean, torch.zeros_like(mean)
        if self.architecture.channels:
            mean, raw = self.encoder(2 * to_unit(x) - 1)
            return mean.float(), bound_log_var(raw.float(), IMAGE_LOG_VAR_START)
        cells = F.one_hot(x.long(), self.architecture.classes).permute(0, 3, 1, 2)
        mean, raw = self.encoder(cells.to(torch.float32))
        return mean.float(), bound_log_var(raw.float(), LOG_VAR_START)

    def decode(self, z: Tensor) -> Decoded:
        """Compute the parameters of p(x|z) and the context of the causal head.

        Parameters: (batch, outputs, size, size), logits for grids. Context: (batch,
        causal_channels, size, size), with 0 channels where there is no causal head.
        """
        if not self.architecture.latent_context:  # the same for all items: computed once
            once = self.decoder(torch.zeros_like(z[:1]))
            parameters, context = (x.expand(len(z), -1, -1, -1) for x in once)
            return parameters.float(), context.float()
        parameters, context = self.decoder(z)
        return parameters.float(), context.float()

    def log_likelihood(self, decoded: Decoded, x: Tensor) -> Tensor:
        """Compute log p(x|z) in nats from the result of `decode`: (batch,)."""
        out, context = decoded
        if self.head:
            out = self.head(out, context, x)
        return self.likelihood.log_prob(out, x)

    def point_estimate(self, z: Tensor) -> Tensor:
        """Return the point estimate of p(x|z), uint8; it does not use the causal head."""
        return self.likelihood.point_estimate(self.decode(z)[0])

    def reconstruct(self, x: Tensor) -> Tensor:
        """Return the point estimate of p(x|z) at the posterior mean: uint8, of the shape of x."""
        return self.point_estimate(self.encode(x)[0])

    def sample(self, z: Tensor, generator: torch.Generator, temperature: float = 1.0) -> Tensor:
        """Draw x ~ p(x|z), uint8; a temperature below 1 narrows the distribution of each pixel."""
        out, context = self.decode(z)
        sample_pixels = partial(
            self.likelihood.sample, generator=generator, temperature=temperature
        )
        if self.head:
            return self.head.sample(out, context, sample_pixels)
        return sample_pixels(out)

    def elbo_terms(self, x: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Compute -log p(x|z) and KL of each item in nats at one z ~ q(z|x), each (batch,).

        noise: (batch, latent_dim) standard normal. The sum of the terms is the negative ELBO.
        """
        mean, log_var = self.encode(x)
        z = reparameterize(mean, log_var, noise)
        return -self.log_likelihood(self.decode(z), x), self.prior.token_kl(mean, log_var, z).sum(1)

    def parameter_counts(self) -> dict[str, int]:
        """Count the trainable parameters of each module."""
        modules = {"encoder": self.encoder, "decoder": self.decoder, "prior": self.prior}
        if self.head:
            modules["causal_head"] = self.head
        counts = {}
        for name, module in modules.items():
            counts[name] = sum(parameter.numel() for parameter in module.parameters())
        return counts


def make_likelihood(a: Architecture) -> Likelihood:
    """Make the likelihood that an architecture names. Raises KeyError for another name."""
    if a.likelihood == "discretized_logistic_mixture":
        return DiscretizedLogisticMixture(a.channels, a.likelihood_components)
    return LIKELIHOODS[a.likelihood](a.channels or a.classes)


def bound_log_var(raw: Tensor, start: float) -> Tensor:
    """Limit smoothly to LOG_VAR_RANGE; raw = 0 gives `start`."""
    low, high = LOG_VAR_RANGE
    share = (start - low) / (high - low)
    return low + (high - low) * torch.sigmoid(
        raw * 4.0 / (high - low) + math.log(share / (1 - share))
    )


def to_tensor(items: Items) -> Tensor:
    """Copy grids (n, h, w), or images (n, h, w, c) as (n, c, h, w), to a tensor."""
    if items.ndim == 4:
        items = items.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.array(items, order="C"))


def to_array(items: Tensor) -> Items:
    """The inverse of `to_tensor`: uint8 arrays with channels last."""
    array = items.cpu().numpy()
    return array if array.ndim == 3 else np.ascontiguousarray(array.transpose(0, 2, 3, 1))
