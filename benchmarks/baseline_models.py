"""The VAEs of two public libraries, their training for some CPU seconds, and their samplers.

- `pythae-mlp`, `pythae-conv`: pythae 0.1.2's `VAE` with the layout of its default networks (one
  hidden layer of 512) or of its convolutional ones for 28 x 28 (128 channels, doubled three times).
- `antixk`: AntixK's PyTorch-VAE `VanillaVAE` (configs/vae.yaml).

Width, latents, loss and learning rate are tuned. At pythae's own width the convolutional networks
have 17.2 million parameters and take 1.1 GFLOP per image and update, nine tenths of it in
convolutions: 35 to 45 images per CPU second, against 8,000 of the MLP. At a quarter of the width it
is a sixteenth of that.

Every baseline is trained by the same loop over tensors in memory (pythae's trainer feeds slower),
with Adam. The clock runs only during updates: checks on the validation split, after which the best
weights are kept as pythae's trainer does, are free.
"""

import math
import os
import shutil
import subprocess
import sys
import time
from abc import abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pydantic.v1.dataclasses
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from genlab.core.errors import GenlabError
from genlab.distributions.gaussian import kl_standard_normal, reparameterize
from genlab.vae.models.vae import to_tensor

SIDE = 28  # the only one of pythae's convolutional networks
BATCH = 64  # of pythae's trainer and of PyTorch-VAE's config alike
CHECKS = 10  # per run
CHECKED_ON = 1_000  # validation images per check
CHUNK = 500
PYTHAE = ("pythae==0.1.2", "cloudpickle>=2.1", "imageio")

Images = npt.NDArray[np.uint8]


class BaselineVAE(nn.Module):
    """A VAE of grey images x: (batch, 1, 28, 28) on [0, 1], its prior N(0, I)."""

    decay = 1.0  # of the learning rate per epoch

    @abstractmethod
    def loss(self, x: Tensor) -> Tensor:
        """Training loss of the baseline."""

    @abstractmethod
    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and log variance of q(z|x), (batch, latents) each."""

    @abstractmethod
    def decode(self, z: Tensor) -> Tensor:
        """The mean of x given z."""


class Pythae(BaselineVAE):
    """pythae's `VAE` around an encoder's body (`features` outputs) and a decoder."""

    def __init__(
        self, body: nn.Module, features: int, decoder: nn.Module, *, latents: int, loss: str
    ) -> None:
        super().__init__()
        import_pythae()
        from pythae.models import VAE, VAEConfig
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

        config = VAEConfig((1, SIDE, SIDE), latents, reconstruction_loss=loss)
        self.vae = VAE(config, encoder=Encoder(), decoder=Decoder())

    def loss(self, x: Tensor) -> Tensor:
        loss: Tensor = self.vae({"data": x}).loss
        return loss

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        output = self.vae.encoder(x)
        return output.embedding, output.log_covariance

    def decode(self, z: Tensor) -> Tensor:
        mean: Tensor = self.vae.decoder(z)["reconstruction"].reshape(-1, 1, SIDE, SIDE)
        return mean


def make_mlp(width: int, latents: int, loss: str) -> Pythae:
    """pythae's default networks: one hidden layer of `width`, 512 in the library."""
    body = nn.Sequential(nn.Flatten(), nn.Linear(SIDE**2, width), nn.ReLU())
    hidden = nn.Sequential(nn.Linear(latents, width), nn.ReLU())
    decoder = nn.Sequential(hidden, nn.Linear(width, SIDE**2), nn.Sigmoid())
    return Pythae(body, width, decoder, latents=latents, loss=loss)


def make_conv(width: int, latents: int, loss: str) -> Pythae:
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
        nn.ConvTranspose2d(narrow, 1, 3, 2, 1, output_padding=1),
        nn.Sigmoid(),
    )
    body = nn.Sequential(*down, nn.Flatten())
    return Pythae(body, broad, decoder, latents=latents, loss=loss)


class VanillaVAE(BaselineVAE):
    """AntixK's PyTorch-VAE `VanillaVAE`, rebuilt from its published settings (configs/vae.yaml).

    Strided 3 x 3 convolutions with BatchNorm and LeakyReLU down to 2 x 2, tanh at the end, 128
    latents, mean squared error + 0.00025 KL, Adam, the rate times 0.95 per epoch. It is made for
    64 x 64 colour images; here the images are padded to 32 x 32 by black and the broadest of its
    five layers is left out, which gives the same 2 x 2 in the middle. Levels are scaled to [-1, 1],
    as its tanh wants them. width: channels of the first layer, 32 in the library.
    """

    decay = 0.95
    kl_weight = 0.00025
    margin = 2

    def __init__(self, width: int = 32, latents: int = 128) -> None:
        super().__init__()
        widths = [width * 2**level for level in range(4)]
        down: list[nn.Module] = []
        for before, after in zip((1, *widths), widths, strict=False):
            down += _with_activation(nn.Conv2d(before, after, 3, 2, 1), after)
        up: list[nn.Module] = []
        narrowing = widths[::-1]
        for before, after in zip(narrowing, (*narrowing[1:], narrowing[-1]), strict=True):
            convolution = nn.ConvTranspose2d(before, after, 3, 2, 1, output_padding=1)
            up += _with_activation(convolution, after)
        flat = 4 * widths[-1]
        self.body = nn.Sequential(*down, nn.Flatten())
        self.mean = nn.Linear(flat, latents)
        self.log_variance = nn.Linear(flat, latents)
        first = (nn.Linear(latents, flat), nn.Unflatten(1, (widths[-1], 2, 2)))
        last = (nn.Conv2d(widths[0], 1, 3, padding=1), nn.Tanh())
        self.decoder = nn.Sequential(*first, *up, *last)

    def loss(self, x: Tensor) -> Tensor:
        padded = self._pad(x)
        mean, log_variance = self._posterior(padded)
        error = F.mse_loss(self.decoder(sample(mean, log_variance)), padded)
        return error + self.kl_weight * kl(mean, log_variance).mean()

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._posterior(self._pad(x))

    def decode(self, z: Tensor) -> Tensor:
        inside = slice(self.margin, -self.margin)
        image: Tensor = self.decoder(z)[..., inside, inside]
        return (image + 1) / 2

    def _pad(self, x: Tensor) -> Tensor:
        return F.pad(2 * x - 1, (self.margin,) * 4, value=-1.0)

    def _posterior(self, padded: Tensor) -> tuple[Tensor, Tensor]:
        flat = self.body(padded)
        return self.mean(flat), self.log_variance(flat)


def _with_activation(convolution: nn.Module, width: int) -> list[nn.Module]:
    return [convolution, nn.BatchNorm2d(width), nn.LeakyReLU()]


def build(contender: str, *, width: int, latents: int, loss: str) -> BaselineVAE:
    """Make an untrained baseline."""
    if contender == "antixk":
        return VanillaVAE(width, latents)
    return (make_conv if contender == "pythae-conv" else make_mlp)(width, latents, loss)


def sample(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Draw z ~ q(z|x)."""
    return reparameterize(mean, log_variance, torch.randn_like(mean))


def kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(q(z|x) || N(0, I)) in nats, (batch,)."""
    return kl_standard_normal(mean, log_variance).sum(1)


def fit(
    baseline: BaselineVAE, train: Images, val: Images, rate: float, seconds: float
) -> dict[str, Any]:
    """Train for `seconds` of this process's CPU time; returns to the weights best on `val`.

    train, val: (n, 28, 28, 1). Returns CPU seconds, images seen, updates and parameters.
    """
    baseline.to(memory_format=torch.channels_last)  # a quarter faster
    optimiser = torch.optim.Adam(baseline.parameters(), rate, fused=True)  # the same steps, cheaper
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, baseline.decay)
    items = to_tensor(np.asarray(train))
    held_out = to_tensor(val[:CHECKED_ON])
    lowest = held_out_loss(baseline, held_out)
    best = deepcopy(baseline.state_dict())
    spent = 0.0
    images_seen = 0
    updates = 0
    next_check = seconds / CHECKS
    for rows in _batches(len(items)):
        start = time.process_time()
        optimiser.zero_grad()
        loss = baseline.loss(items[rows].float() / 255)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        epochs_before = images_seen // len(items)
        images_seen += len(rows)
        updates += 1
        if images_seen // len(items) > epochs_before:
            schedule.step()
        spent += time.process_time() - start
        over = spent >= seconds or not math.isfinite(loss.item())
        if over or spent >= next_check:
            next_check += seconds / CHECKS
            loss_now = held_out_loss(baseline, held_out)
            if loss_now < lowest:
                lowest = loss_now
                best = deepcopy(baseline.state_dict())
        if over:
            break
    baseline.load_state_dict(best)
    baseline.eval()
    return {
        "cpu_seconds": spent,
        "images_seen": images_seen,
        "updates": updates,
        "parameters": sum(weights.numel() for weights in baseline.parameters()),
    }


@torch.no_grad()
def held_out_loss(baseline: BaselineVAE, images: Tensor) -> float:
    """Mean loss in evaluation mode; nan where it is not finite."""
    baseline.eval()
    chunks = images.split(CHUNK)
    total = sum(float(baseline.loss(chunk.float() / 255)) * len(chunk) for chunk in chunks)
    baseline.train()
    return total / len(images)


@torch.no_grad()
def encode(baseline: BaselineVAE, images: Images) -> tuple[Tensor, Tensor]:
    """Mean and log variance of q(z|x) of uint8 images (n, 28, 28, 1): (n, latents) each."""
    means = []
    log_variances = []
    for start in range(0, len(images), CHUNK):
        chunk = to_tensor(images[start : start + CHUNK])
        mean, log_variance = baseline.encode(chunk.float() / 255)
        means.append(mean)
        log_variances.append(log_variance)
    return torch.cat(means), torch.cat(log_variances)


@torch.no_grad()
def decode(baseline: BaselineVAE, z: Tensor) -> Tensor:
    """Means of x given z, rounded to levels: (n, 1, 28, 28) uint8."""
    chunks = [(baseline.decode(chunk).clamp(0, 1) * 255).round() for chunk in z.split(CHUNK)]
    return torch.cat(chunks).to(torch.uint8)


def _batches(n: int) -> Iterator[Tensor]:
    """Yield the rows of batches, for ever, in shuffled passes over all images."""
    while True:
        # Batch normalisation cannot train on a batch of one image.
        yield from (rows for rows in torch.randperm(n).split(BATCH) if len(rows) > 1)


def install_pythae(folder: Path) -> None:
    """Install pythae into `folder`, once and completely, and make it importable.

    Raises a GenlabError where pip cannot.
    """
    if not folder.exists():
        unfinished = folder.with_name(folder.name + ".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        command = [*pip, "--no-deps", "--target", str(unfinished), *PYTHAE]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or ["no message"]
            raise GenlabError(
                f"pip could not install {PYTHAE[0]} ({lines[-1].strip()[:200]}); connect to a"
                " package index, or compare without it: --only antixk"
            )
        os.replace(unfinished, folder)
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def import_pythae() -> None:
    """Import pythae's models, which are written for pydantic 1, with pydantic 2's copy of it."""
    names = {"pydantic": pydantic.v1, "pydantic.dataclasses": pydantic.v1.dataclasses}
    present = {name: sys.modules.get(name) for name in names}
    sys.modules.update(names)
    try:
        import pythae.models  # noqa: F401
    finally:
        for name, module in present.items():
            sys.modules.pop(name)
            if module is not None:
                sys.modules[name] = module
