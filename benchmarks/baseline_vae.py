"""The VAE of a public library, pythae 0.1.2, with its own networks, and its samplers.

Networks are the library's: `mlp-512` has the layout of its default encoder and decoder, `conv-128`
that of its convolutional ones for 28 x 28; another number is another width of the same layout. At
the library's own width the convolutions have 17.2 million parameters and take 1.1 GFLOP per image
and update.

Losses are those of `BetaVAE` (`mse`, `bce`) or two more: `gaussian`, a Gaussian whose sigma is the
root mean squared error of the batch (Rybkin, Daniilidis & Levine 2021), and `mixture`, our model's
mixture of discretised logistics, for which the decoder's last layer has more outputs and no
sigmoid. But for `mixture`, bits/dim are those of a Gaussian around the decoder's output that is
discretised to the 256 levels, with one sigma fitted on validation. All include the KL, whatever its
weight in training.
"""

import math
import time
from functools import partial
from pathlib import Path
from typing import Any

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor, nn

from benchmarks.baseline_outcomes import (
    TEMPERATURES,
    VALIDATED,
    Draw,
    Floats,
    Images,
    Outcome,
    shrink,
)
from benchmarks.baseline_packages import install
from benchmarks.baseline_settings import Settings
from benchmarks.baseline_training import CHUNK, LibraryModel, fit
from genlab.datasets.images import load_images
from genlab.distributions.discretized_logistic import DiscretizedLogisticMixture
from genlab.distributions.gaussian import kl_standard_normal, reparameterize
from genlab.distributions.likelihoods import HALF_LEVEL, Gaussian, ImageLikelihood, to_unit
from genlab.vae.models.vae import to_array, to_tensor
from genlab.vae.sampling import densities, samplers
from genlab.vae.sampling.latents import DrawLatents

SIDE = 28  # the only one of pythae's convolutional networks
COMPONENTS = 4  # of the mixture, as params.yaml has them


class LibraryVAE(LibraryModel):
    """pythae's `BetaVAE` of grey images (batch, 1, 28, 28) with the library's networks.

    body: encoder up to its last layer, with `features` outputs. decoder: to (batch, outputs, 28,
    28) on [0, 1], or to the parameters of the mixture.
    """

    def __init__(
        self,
        body: nn.Module,
        features: int,
        decoder: nn.Module,
        *,
        latents: int,
        likelihood: str,
        kl_weight: float,
    ) -> None:
        super().__init__()
        from pythae.models import BetaVAE, BetaVAEConfig
        from pythae.models.base.base_utils import ModelOutput
        from pythae.models.nn import BaseDecoder, BaseEncoder

        class Encoder(BaseEncoder):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.body = body
                self.mean, self.log_var = (nn.Linear(features, latents) for _ in range(2))

            def forward(self, x: Tensor) -> Any:
                flat = self.body(x)
                return ModelOutput(embedding=self.mean(flat), log_covariance=self.log_var(flat))

        class Decoder(BaseDecoder):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.network = decoder

            def forward(self, z: Tensor) -> Any:
                return ModelOutput(reconstruction=self.network(z))

        library_loss = likelihood if likelihood in ("mse", "bce") else "mse"
        config = BetaVAEConfig(
            (1, SIDE, SIDE), latents, beta=kl_weight, reconstruction_loss=library_loss
        )
        self.vae = BetaVAE(config, encoder=Encoder(), decoder=Decoder())
        self.trained_by = likelihood
        self.kl_weight = kl_weight
        self.likelihood: ImageLikelihood = Gaussian(1)
        if likelihood == "mixture":
            self.likelihood = DiscretizedLogisticMixture(1, COMPONENTS)

    def loss(self, x: Tensor) -> Tensor:
        """Compute the training loss of `trained_by`."""
        unit = to_unit(x)
        loss: Tensor
        if self.trained_by in ("mse", "bce"):
            loss = self.vae({"data": unit}).loss
            return loss
        mean, log_var = self.encode(x)
        out = self.decode(reparameterize(mean, log_var, torch.randn_like(mean)))
        if self.trained_by == "gaussian":
            cost = 0.5 * unit[0].numel() * (out - unit).square().mean().log()
        else:
            cost = -self.likelihood.log_prob(out, x).mean()
        loss = cost + self.kl_weight * kl_standard_normal(mean, log_var).sum(1).mean()
        return loss

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of q(z|x), (batch, latents) each."""
        output = self.vae.encoder(to_unit(x))
        return output.embedding, output.log_covariance

    def decode(self, z: Tensor) -> Tensor:
        """The decoder's output, (batch, outputs, 28, 28)."""
        out: Tensor = self.vae.decoder(z)["reconstruction"]
        return out.reshape(len(z), -1, SIDE, SIDE)


def build(network: str, likelihood: str, kl_weight: float, latents: int, **_: object) -> LibraryVAE:
    """Make an untrained model. network: `mlp-WIDTH` or `conv-WIDTH`."""
    layout, _, width = network.partition("-")
    outputs = 3 * COMPONENTS if likelihood == "mixture" else 1
    make = make_conv if layout == "conv" else make_mlp
    body, features, decoder = make(int(width), latents, outputs)
    return LibraryVAE(
        body, features, decoder, latents=latents, likelihood=likelihood, kl_weight=kl_weight
    )


def make_mlp(width: int, latents: int, outputs: int) -> tuple[nn.Module, int, nn.Module]:
    """pythae's default networks: one hidden layer of `width`, 512 in the library."""
    body = nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, width), nn.ReLU())
    layers = [nn.Linear(latents, width), nn.ReLU(), nn.Linear(width, outputs * SIDE**2)]
    return body, width, nn.Sequential(*layers, *_bound(outputs))


def make_conv(width: int, latents: int, outputs: int) -> tuple[nn.Module, int, nn.Module]:
    """pythae's convolutional networks; width: channels of the first layer, 128 in the library."""
    widths = [width * 2**level for level in range(4)]
    down: list[nn.Module] = []
    for before, after in zip([1, *widths], widths, strict=False):
        down += [nn.Conv2d(before, after, 4, 2, 1), nn.BatchNorm2d(after), nn.ReLU()]
    _, narrow, middle, broad = widths
    decoder = nn.Sequential(
        nn.Linear(latents, broad * 4 * 4),
        nn.Unflatten(1, (broad, 4, 4)),
        nn.ConvTranspose2d(broad, middle, 3, 2, 1),
        nn.BatchNorm2d(middle),
        nn.ReLU(),
        nn.ConvTranspose2d(middle, narrow, 3, 2, 1, output_padding=1),
        nn.BatchNorm2d(narrow),
        nn.ReLU(),
        nn.ConvTranspose2d(narrow, outputs, 3, 2, 1, output_padding=1),
        *_bound(outputs),
    )
    return nn.Sequential(*down, nn.Flatten()), broad, decoder


def _bound(outputs: int) -> list[nn.Module]:
    """The library's last layer; a mixture has parameters of any size."""
    return [nn.Sigmoid()] if outputs == 1 else []


def run_pythae(settings: Settings, data: Path) -> Outcome:
    """Train a library's VAE for its CPU seconds and fit its samplers."""
    install(settings.contender)
    torch.manual_seed(settings.seed)
    train, val, test = (load_images(data, name) for name in ("train", "val", "test"))
    options = dict(settings.options)
    model = build(**options)
    facts = fit(model, train, val, options, settings.seconds)
    if isinstance(model.likelihood, Gaussian):
        facts["sigma"] = fit_sigma(model, val)
    started = time.process_time()
    draws = fit_samplers(model, train, settings.seed)
    facts["sampler_seconds"] = time.process_time() - started

    def measure_test() -> tuple[Images, Floats]:
        return reconstruct(model, test), compute_nats(model, test)

    return Outcome(draws, compute_nats(model, val[:VALIDATED]), measure_test, facts)


@torch.no_grad()
def encode(model: LibraryVAE, images: Images) -> tuple[Tensor, Tensor]:
    """Mean and log variance of q(z|x) of uint8 images (n, 28, 28, 1): (n, latents) each."""
    chunks = [model.encode(chunk) for chunk in to_tensor(images).split(CHUNK)]
    means, log_variances = zip(*chunks, strict=True)
    return torch.cat(means), torch.cat(log_variances)


@torch.no_grad()
def decode(model: LibraryVAE, z: Tensor) -> Images:
    """Point estimates of x given z: (n, 28, 28, 1) uint8."""
    likelihood = model.likelihood
    return to_array(
        torch.cat([likelihood.point_estimate(model.decode(chunk)) for chunk in z.split(CHUNK)])
    )


def reconstruct(model: LibraryVAE, images: Images) -> Images:
    """Point estimates of x given the posterior means."""
    return decode(model, encode(model, images)[0])


@torch.no_grad()
def compute_nats(model: LibraryVAE, images: Images) -> Floats:
    """Minus the ELBO of each image over 256 levels at one posterior draw, (n,)."""
    mean, log_var = encode(model, images)
    z = reparameterize(mean, log_var, torch.randn_like(mean))
    chunks = zip(z.split(CHUNK), to_tensor(images).split(CHUNK), strict=True)
    nats = [-model.likelihood.log_prob(model.decode(codes), x) for codes, x in chunks]
    total: Floats = (torch.cat(nats) + kl_standard_normal(mean, log_var).sum(1)).double().numpy()
    return total


@torch.no_grad()
def fit_sigma(model: LibraryVAE, val: Images) -> float:
    """Set the Gaussian's sigma on [0, 1] to the one with the least nats on validation images."""
    gaussian = model.likelihood
    assert isinstance(gaussian, Gaussian)
    mean, log_var = encode(model, val[:CHUNK])
    out = model.decode(reparameterize(mean, log_var, torch.randn_like(mean)))
    x = to_tensor(val[:CHUNK])

    def nats(log_sigma: float) -> float:
        gaussian.log_sigma.fill_(log_sigma)
        return -float(gaussian.log_prob(out, x).mean())

    bounds = (math.log(HALF_LEVEL), 0.0)
    best = minimize_scalar(nats, bounds=bounds, method="bounded").x
    gaussian.log_sigma.fill_(best)
    return math.exp(best)


def fit_samplers(model: LibraryVAE, train: Images, seed: int) -> dict[str, Draw]:
    """Fit the samplers of `baseline_genlab`; the temperature is that of the latents."""
    mean, log_var = encode(model, train[: samplers.MIXED])
    codes = reparameterize(mean, log_var, torch.randn_like(mean))

    def prior(count: int, generator: torch.Generator) -> Tensor:
        return torch.randn(count, codes.shape[1], generator=generator)

    gmm, _ = densities.fit_gmm(codes.double().numpy(), seed)

    def draw(latents: DrawLatents, count: int, seed: int) -> Images:
        return decode(model, latents(count, torch.Generator().manual_seed(seed)))

    draws = {}
    for name, latents in (("prior", prior), ("gmm", gmm)):
        for temperature in TEMPERATURES:
            title = f"{name} at temperature {temperature:g}"
            draws[title] = partial(draw, shrink(latents, temperature))
    return draws
