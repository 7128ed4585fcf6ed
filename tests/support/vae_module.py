"""A small VAE of 28 x 28 grey images, written to the contract of a generated module.

Its `encoder` and `decoder` also fit `genlab.vae.models.vae.VAE`, so that the pipeline's evaluator
can measure the same weights: see `as_pipeline_model`.
"""

from typing import Any

import tiny
from safetensors.torch import load
from torch import Tensor, nn

from genlab.vae.models.vae import VAE

LATENTS = 32
COMPONENTS = 3
SOURCE = f"""
import math

import torch
from torch import nn

LATENTS, COMPONENTS = {LATENTS}, {COMPONENTS}


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 4, 2, 1), nn.SiLU(), nn.Conv2d(24, 48, 4, 2, 1), nn.SiLU(),
            nn.Flatten(), nn.Linear(48 * 49, 2 * LATENTS),
        )

    def forward(self, x):
        return self.net(x).chunk(2, dim=1)


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(LATENTS, 48 * 49), nn.SiLU(), nn.Unflatten(1, (48, 7, 7)),
            nn.ConvTranspose2d(48, 32, 4, 2, 1), nn.SiLU(),
            nn.ConvTranspose2d(32, 24, 4, 2, 1), nn.SiLU(),
            nn.Conv2d(24, 3 * COMPONENTS, 3, padding=1),
        )

    def forward(self, z):
        return self.net(z)


def bound(raw, start=-2.0, low=-8.0, high=3.0):
    share = (start - low) / (high - low)
    offset = math.log(share / (1 - share))
    return low + (high - low) * torch.sigmoid(raw * 4 / (high - low) + offset)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder, self.decoder = Encoder(), Decoder()

    def encode(self, x):
        mean, raw = self.encoder(2 * x - 1)
        return mean, bound(raw)

    def decode(self, z):
        return self.decoder(z)
"""


class WithoutContext(nn.Module):
    """Decoder with the pipeline's interface: parameters, and a context without channels."""

    def __init__(self, decoder: nn.Module) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, z: Tensor) -> tuple[Tensor, Tensor]:
        parameters = self.decoder(z)
        return parameters, parameters[:, :0]


def as_pipeline_model(weights: bytes) -> VAE:
    """The pipeline's VAE with encoder and decoder of the module, and these weights."""
    names: dict[str, Any] = {}
    exec(SOURCE, names)
    module = names["Model"]()
    module.load_state_dict(load(weights))
    shapes = {"latent_dim": 49, "likelihood_components": COMPONENTS, "prior": "standard"}
    model = VAE(tiny.image_architecture(**shapes)).eval()
    model.encoder = module.encoder
    model.decoder = WithoutContext(module.decoder)
    object.__setattr__(model.architecture, "latent_dim", LATENTS)
    return model.eval()
