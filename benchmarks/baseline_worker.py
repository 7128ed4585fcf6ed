"""Train one baseline for some CPU seconds and write what the judge needs.

    python benchmarks/baseline_worker.py JOB.json RUN.npz

It runs as a process with pythae's folder first on the path: pythae needs pydantic 1, genlab needs
pydantic 2, so that nothing here imports it except pythae itself. Every baseline is trained by the
same loop over tensors in memory (pythae's trainer feeds slower), with Adam. The clock runs only
during updates: checks on the validation split, after which the best weights are kept as pythae's
trainer does, and the fit of the mixture are free.
"""

from __future__ import annotations

import json
import math
import sys
import time
import warnings
from abc import abstractmethod
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from torch import Tensor, nn
from torch.nn import functional as F

from genlab.core.io import read_json, write_npz

SIDE = 28  # the only one of pythae's convolutional networks
BATCH = 64  # of pythae's trainer and of PyTorch-VAE's config alike
CHECKS, CHECKED_ON = 10, 1_000  # checks per run, and validation images of each
VALIDATED = 2_000  # validation images that are decoded for the judge
CHUNK = 500
COMPONENTS = 10  # pythae's GaussianMixtureSampler
FITTED_ON = 20_000  # training images that the mixture is fitted to
RIDGE = 1e-4  # added to the mixture's covariances, which are singular where a latent is unused
KIND = "baseline_run"
KEYS = (
    "facts", "reconstructions", "val_means", "val_kl", "test_means", "test_kl", "normal", "gmm"
)  # fmt: skip

Images = npt.NDArray[np.uint8]


class BaselineVAE(nn.Module):
    """A VAE of grey images x: (batch, 1, 28, 28) on [0, 1]."""

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
    """pythae's `VAE`: its default networks (one hidden layer of 512), or its convolutional ones."""

    def __init__(self, *, convolutional: bool, latents: int, loss: str) -> None:
        super().__init__()
        from pythae.models import VAE, VAEConfig
        from pythae.models.nn.benchmarks.mnist import Decoder_Conv_AE_MNIST, Encoder_Conv_VAE_MNIST

        config = VAEConfig((1, SIDE, SIDE), latents, reconstruction_loss=loss)
        encoder = Encoder_Conv_VAE_MNIST(config) if convolutional else None
        decoder = Decoder_Conv_AE_MNIST(config) if convolutional else None
        self.vae = VAE(config, encoder=encoder, decoder=decoder)

    def loss(self, x: Tensor) -> Tensor:
        loss: Tensor = self.vae({"data": x}).loss
        return loss

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        found = self.vae.encoder(x)
        return found.embedding, found.log_covariance

    def decode(self, z: Tensor) -> Tensor:
        mean: Tensor = self.vae.decoder(z)["reconstruction"].reshape(-1, 1, SIDE, SIDE)
        return mean


class VanillaVAE(BaselineVAE):
    """AntixK's PyTorch-VAE `VanillaVAE`, rebuilt from its published settings (configs/vae.yaml).

    Strided 3 x 3 convolutions with BatchNorm and LeakyReLU down to 2 x 2, tanh at the end, 128
    latents, mean squared error + 0.00025 KL, Adam, the rate times 0.95 per epoch. It is made for
    64 x 64 colour images; here the images are padded to 32 x 32 by black and the broadest of its
    five layers is left out, which gives the same 2 x 2 in the middle. Levels are scaled to [-1, 1],
    as its tanh wants them.
    """

    decay = 0.95
    widths = (32, 64, 128, 256)
    latents = 128
    kl_weight = 0.00025
    margin = 2

    def __init__(self) -> None:
        super().__init__()
        down: list[nn.Module] = []
        for before, after in zip((1, *self.widths), self.widths, strict=False):
            down += _activated(nn.Conv2d(before, after, 3, 2, 1), after)
        up: list[nn.Module] = []
        narrowing = self.widths[::-1]
        for before, after in zip(narrowing, (*narrowing[1:], narrowing[-1]), strict=True):
            up += _activated(nn.ConvTranspose2d(before, after, 3, 2, 1, output_padding=1), after)
        flat = 4 * self.widths[-1]
        self.body = nn.Sequential(*down, nn.Flatten())
        self.mean, self.log_variance = nn.Linear(flat, self.latents), nn.Linear(flat, self.latents)
        first = (nn.Linear(self.latents, flat), nn.Unflatten(1, (self.widths[-1], 2, 2)))
        last = (nn.Conv2d(self.widths[0], 1, 3, padding=1), nn.Tanh())
        self.decoder = nn.Sequential(*first, *up, *last)

    def loss(self, x: Tensor) -> Tensor:
        padded = self._padded(x)
        mean, log_variance = self._posterior(padded)
        error = F.mse_loss(self.decoder(sample(mean, log_variance)), padded)
        return error + self.kl_weight * kl(mean, log_variance).mean()

    def encode(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._posterior(self._padded(x))

    def decode(self, z: Tensor) -> Tensor:
        inside = slice(self.margin, -self.margin)
        image: Tensor = self.decoder(z)[..., inside, inside]
        return (image + 1) / 2

    def _padded(self, x: Tensor) -> Tensor:
        return F.pad(2 * x - 1, (self.margin,) * 4, value=-1.0)

    def _posterior(self, padded: Tensor) -> tuple[Tensor, Tensor]:
        flat = self.body(padded)
        return self.mean(flat), self.log_variance(flat)


def _activated(convolution: nn.Module, width: int) -> list[nn.Module]:
    return [convolution, nn.BatchNorm2d(width), nn.LeakyReLU()]


def build(name: str, loss: str) -> BaselineVAE:
    """An untrained baseline. Latents: pythae's default, and those of its MNIST networks."""
    if name == "antixk":
        return VanillaVAE()
    convolutional = name == "pythae-conv"
    return Pythae(convolutional=convolutional, latents=16 if convolutional else 10, loss=loss)


def sample(mean: Tensor, log_variance: Tensor) -> Tensor:
    """Draw z ~ q(z|x)."""
    return mean + (0.5 * log_variance).exp() * torch.randn_like(mean)


def kl(mean: Tensor, log_variance: Tensor) -> Tensor:
    """KL(q(z|x) || N(0, I)) in nats, (batch,)."""
    return 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)


def fit(
    baseline: BaselineVAE, train: Tensor, val: Tensor, rate: float, seconds: float
) -> dict[str, Any]:
    """Train for `seconds` of this process's CPU time and keep the weights best on `val`.

    train, val: (n, 1, 28, 28) uint8. Returns CPU seconds, images seen and updates.
    """
    optimiser = torch.optim.Adam(baseline.parameters(), rate, fused=True)  # the same steps, cheaper
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimiser, baseline.decay)
    val = val[:CHECKED_ON]
    lowest, best = held_out_loss(baseline, val), deepcopy(baseline.state_dict())
    spent, seen, updates, due = 0.0, 0, 0, seconds / CHECKS
    for rows in _batches(len(train)):
        start = time.process_time()
        optimiser.zero_grad()
        loss = baseline.loss(train[rows].float() / 255)
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        seen, updates = seen + len(rows), updates + 1
        if seen // len(train) > (seen - len(rows)) // len(train):
            schedule.step()
        spent += time.process_time() - start
        over = spent >= seconds or not math.isfinite(loss.item())
        if over or spent >= due:
            due += seconds / CHECKS
            if (found := held_out_loss(baseline, val)) < lowest:
                lowest, best = found, deepcopy(baseline.state_dict())
        if over:
            break
    baseline.load_state_dict(best)
    return {"cpu_seconds": spent, "images_seen": seen, "updates": updates}


@torch.no_grad()
def held_out_loss(baseline: BaselineVAE, images: Tensor) -> float:
    """Mean loss in evaluation mode; nan where it is not finite."""
    baseline.eval()
    parts = images.split(CHUNK)
    total = sum(float(baseline.loss(part.float() / 255)) * len(part) for part in parts)
    baseline.train()
    return total / len(images)


@torch.no_grad()
def decode_all(
    baseline: BaselineVAE, splits: dict[str, Tensor], count: int, seed: int
) -> dict[str, Any]:
    """Arrays that the judge needs of a trained baseline.

    Images, uint8 (n, 28, 28, 1): `reconstructions` of test images from the posterior's mean;
    `val_means`, `test_means` from one posterior draw; `normal` from N(0, I); `gmm` from a mixture
    fitted to posterior draws of training images. KL in nats, (n,): `val_kl`, `test_kl`.
    """
    baseline.eval()
    torch.manual_seed(seed)
    arrays: dict[str, Any] = {}
    for name in ("val", "test"):
        mean, log_variance = _encoded(baseline, splits[name])
        decoded = _decoded(baseline, sample(mean, log_variance))
        arrays[f"{name}_means"] = _levels(decoded)
        arrays[f"{name}_kl"] = kl(mean, log_variance).numpy()
    arrays["reconstructions"] = _levels(_decoded(baseline, mean))  # of test, which comes last
    codes = sample(*_encoded(baseline, splits["train"][: min(FITTED_ON, 2 * count)]))
    arrays["normal"] = _levels(_decoded(baseline, torch.randn(count, codes.shape[1])))
    arrays["gmm"] = _levels(_decoded(baseline, _mixture_draws(codes.numpy(), count, seed)))
    return arrays


def _mixture_draws(codes: npt.NDArray[np.float32], count: int, seed: int) -> Tensor:
    mixture = GaussianMixture(COMPONENTS, reg_covar=RIDGE, random_state=seed)
    with warnings.catch_warnings():
        # A mixture that still creeps after sklearn's 100 rounds samples no worse.
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixture.fit(codes)
    draws, _ = mixture.sample(count)
    return torch.from_numpy(draws).float()


def _encoded(baseline: BaselineVAE, images: Tensor) -> tuple[Tensor, Tensor]:
    means, log_variances = zip(
        *(baseline.encode(part.float() / 255) for part in images.split(CHUNK)), strict=True
    )
    return torch.cat(means), torch.cat(log_variances)


def _decoded(baseline: BaselineVAE, z: Tensor) -> Tensor:
    return torch.cat([baseline.decode(part) for part in z.split(CHUNK)])


def _batches(n: int) -> Iterator[Tensor]:
    """Rows of each batch, for ever: shuffled rounds over all images."""
    while True:
        # Batch normalisation cannot train on a batch of one image.
        yield from (rows for rows in torch.randperm(n).split(BATCH) if len(rows) > 1)


def _levels(x: Tensor) -> Images:
    found: Images = (x.clamp(0, 1) * 255).round().to(torch.uint8).numpy()
    return found.transpose(0, 2, 3, 1)


def main(job_path: Path, output: Path) -> None:
    """Do the job of the file `job_path` and write `output`."""
    job = read_json(job_path, producer_command="python benchmarks/run.py baselines")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    torch.manual_seed(job["seed"])
    folder = Path(job["data"])
    splits = {
        name: torch.from_numpy(np.load(folder / f"{name}.npy").transpose(0, 3, 1, 2).copy())
        for name in ("train", "val", "test")
    }
    splits["val"], splits["test"] = splits["val"][:VALIDATED], splits["test"][: job["samples"]]
    baseline = build(job["contender"], job["loss"])
    facts = fit(baseline, splits["train"], splits["val"], job["rate"], job["seconds"])
    facts["parameters"] = sum(each.numel() for each in baseline.parameters())
    arrays = decode_all(baseline, splits, job["samples"], job["seed"])
    write_npz(output, {"facts": np.array(json.dumps(facts)), **arrays}, kind=KIND)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
