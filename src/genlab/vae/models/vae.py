"""The VAE: encoder, prior, decoder and likelihood."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from genlab.distributions import likelihoods
from genlab.distributions.discretized_logistic import DiscretizedLogisticMixture
from genlab.distributions.gaussian import reparameterize
from genlab.distributions.likelihoods import Likelihood
from genlab.vae.models import convolutional, mixer
from genlab.vae.models.priors import make_prior

Items = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Architecture:
    """Everything that shapes the weights; stored in the checkpoint.

    size: side of an item; classes: values of a cell or pixel; channels: of a pixel, 0 for grids.
    """

    network: str
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

    @property
    def tokens(self) -> int:
        return (self.size // self.patch) ** 2

    @property
    def item_shape(self) -> tuple[int, ...]:
        """Shape of an item as an array, channels last."""
        return (self.size, self.size, self.channels)[: 3 if self.channels else 2]


@dataclass(frozen=True)
class ElboTerms:
    """ELBO terms per item in nats, each of shape (batch,)."""

    log_likelihood: Tensor
    kl: Tensor

    @property
    def neg_elbo(self) -> Tensor:
        return self.kl - self.log_likelihood


class VAE(nn.Module):
    """q(z|x), p(z) and p(x|z) of grids (batch, size, size) or images (batch, c, size, size).

    The ELBO (Kingma & Welling 2014, eq. 2) of one item, in nats:

        log p(x) >= E_q(z|x)[ log p(x|z) ] - KL( q(z|x) || p(z) )

    Cells, pixels and latents are summed over; nothing is averaged. q(z|x) = N(mean, diag(var)).
    The KL is closed form for p = N(0, I); for a learned prior it is the unbiased one-sample
    estimate log q(z|x) - log p(z). The negative ELBO stays above the entropy of the data.
    """

    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        a = self.architecture = architecture
        self.likelihood = make_likelihood(a)
        self.encoder, self.decoder = _make_networks(a, self.likelihood.outputs)
        self.prior = make_prior(
            a.prior, a.latent_dim, a.tokens, a.prior_width, a.prior_depth, a.prior_components
        )

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of q(z|x), each (batch, latent_dim)."""
        mean, log_var = self.encoder(x)
        return mean, log_var

    def decode(self, z: Tensor) -> Tensor:
        """The parameters of p(x|z): (batch, outputs, size, size); logits for grids."""
        out: Tensor = self.decoder(z)
        return out

    def reconstruct(self, x: Tensor) -> Tensor:
        """The point estimate of p(x|z) at the posterior mean: uint8, of the shape of x."""
        return self.likelihood.point_estimate(self.decode(self.encode(x)[0]))

    def elbo_terms(self, x: Tensor, noise: Tensor) -> ElboTerms:
        """ELBO terms at one z ~ q(z|x); noise: (batch, latent_dim) standard normal."""
        mean, log_var = self.encode(x)
        z = reparameterize(mean, log_var, noise)
        log_likelihood = self.likelihood.log_prob(self.decode(z), x)
        return ElboTerms(log_likelihood, self.prior.token_kl(mean, log_var, z).sum(1))

    def parameter_counts(self) -> dict[str, int]:
        """Trainable numbers of each part."""
        parts = {"encoder": self.encoder, "decoder": self.decoder, "prior": self.prior}
        return {k: sum(p.numel() for p in part.parameters()) for k, part in parts.items()}


def make_likelihood(a: Architecture) -> Likelihood:
    """Make the likelihood that an architecture names. Raises ValueError for another name."""
    match a.likelihood:
        case "categorical":
            return likelihoods.Categorical(a.classes)
        case "bernoulli":
            return likelihoods.Bernoulli(a.channels)
        case "continuous_bernoulli":
            return likelihoods.ContinuousBernoulli(a.channels)
        case "gaussian" | "gaussian_analytic":
            return likelihoods.Gaussian(a.channels, analytic=a.likelihood == "gaussian_analytic")
        case "discretized_logistic_mixture":
            return DiscretizedLogisticMixture(a.channels, a.likelihood_components)
    raise ValueError(f"no likelihood is called {a.likelihood!r}")


def _make_networks(a: Architecture, outputs: int) -> tuple[nn.Module, nn.Module]:
    """Make the encoder and the decoder, in this order: weights are drawn as they are made."""
    match a.network, bool(a.channels):
        case "conv", True:
            shape = (a.patch, a.width, a.depth, a.latent_dim // a.tokens)
            return (
                convolutional.ConvEncoder(a.channels, *shape),
                convolutional.ConvDecoder(a.size, *shape, outputs),
            )
        case "conv", False:
            dense = (a.size, a.classes, a.width, a.depth, a.latent_dim)
            return convolutional.ConvGridEncoder(*dense), convolutional.ConvGridDecoder(*dense)
        case "mixer", True:
            rest = (a.width, a.depth, a.latent_dim)
            return (
                mixer.MixerImageEncoder(a.size, a.patch, a.channels, *rest),
                mixer.MixerImageDecoder(a.size, a.patch, outputs, *rest),
            )
        case "mixer", False:
            patches = (a.size, a.patch, a.classes, a.width, a.depth, a.latent_dim)
            return mixer.MixerEncoder(*patches), mixer.MixerDecoder(*patches)
    raise ValueError(f"network must be mixer or conv: {a.network!r}")


def to_tensor(items: Items) -> Tensor:
    """Grids (n, h, w), or images (n, h, w, c) as (n, c, h, w); always a copy."""
    if items.ndim == 4:
        items = items.transpose(0, 3, 1, 2)
    return torch.from_numpy(np.array(items, order="C"))


def to_array(items: Tensor) -> Items:
    """The inverse of `to_tensor`: uint8 arrays with channels last."""
    array = items.cpu().numpy()
    return array if array.ndim == 3 else np.ascontiguousarray(array.transpose(0, 2, 3, 1))
