"""Train one model of the comparison, ours or a baseline, and fit its samplers."""

import math
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from benchmarks import baseline_models
from genlab.core.params import load_params
from genlab.datasets.images import LEVELS, load_images
from genlab.distributions.likelihoods import HALF_LEVEL, Gaussian
from genlab.evaluation.evaluators.image_samples import TEMPERATURES
from genlab.vae.models.vae import to_array
from genlab.vae.sampling import densities, posterior, rejection, samplers
from genlab.vae.sampling.latents import DrawLatents
from genlab.vae.training.run import load_items
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer

Images = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Draw = Callable[[int, int], Images]
"""Draw a number of images with a seed."""

OURS = "ours"
SAMPLERS = ("prior", "gmm", "rejection")  # of every contender
VALIDATED = 2_000  # validation images whose likelihood is computed
CHUNK = 1_000  # images whose likelihood is computed at once


@dataclass(frozen=True)
class Settings:
    """One run. loss, rate, width, latents: of a baseline; epochs: of ours, 0 for the params'.

    seconds: CPU seconds of a baseline's training. samples: drawn to fit the samplers.
    """

    contender: str
    loss: str = ""
    rate: float | None = None
    width: int = 0
    latents: int = 0
    seconds: float = 0.0
    epochs: int = 0
    seed: int = 0
    samples: int = 10_000

    TUNED: ClassVar = ("loss", "rate", "width", "latents")

    @property
    def title(self) -> str:
        """Contender and tuned settings."""
        if self.rate is None:
            return self.contender
        tuned = (f"lr {self.rate:g}", f"width {self.width}", f"{self.latents} latents")
        return " ".join(word for word in (self.contender, self.loss, *tuned) if word)


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained contender, as the judge measures it.

    samplers: candidates for the best one; validation_nats: minus the ELBO of each image over 256
    levels at one posterior draw, (n,). test: reconstructions of the test images, uint8
    (n, h, w, c), and their nats. facts: cpu_seconds, images_seen, updates, parameters, and others
    to record.
    """

    samplers: Mapping[str, Draw]
    validation_nats: Floats
    test: Callable[[], tuple[Images, Floats]]
    facts: dict[str, Any]


def run_baseline(settings: Settings, data: Path) -> Outcome:
    """Train a baseline for its CPU seconds; bits/dim are those of a Gaussian around its mean."""
    torch.manual_seed(settings.seed)
    train, val, test = (load_images(data, name) for name in ("train", "val", "test"))
    model = baseline_models.build(
        settings.contender,
        width=settings.width,
        latents=settings.latents,
        loss=settings.loss,
    )
    assert settings.rate is not None
    facts = baseline_models.fit(model, train, val, settings.rate, settings.seconds)
    means, kl = decode_posterior(model, val[:VALIDATED])
    sigma = fit_sigma(val[:VALIDATED], means)

    def measure_test() -> tuple[Images, Floats]:
        means, kl = decode_posterior(model, test)
        mean, _ = baseline_models.encode(model, test)
        reconstructions = to_array(baseline_models.decode(model, mean))
        return reconstructions, kl + gaussian_nats(test, means, sigma)

    started = time.process_time()
    draws = fit_samplers(model, train, settings)
    facts |= {"sigma": sigma, "sampler_seconds": time.process_time() - started}
    nats = kl + gaussian_nats(val[:VALIDATED], means, sigma)
    return Outcome(draws, nats, measure_test, facts)


def decode_posterior(model: baseline_models.BaselineVAE, images: Images) -> tuple[Images, Floats]:
    """Decode one posterior draw of each image; also returns the KL of its posterior in nats."""
    mean, log_variance = baseline_models.encode(model, images)
    z = baseline_models.sample(mean, log_variance)
    kl = baseline_models.kl(mean, log_variance).double().numpy()
    return to_array(baseline_models.decode(model, z)), kl


def fit_samplers(
    model: baseline_models.BaselineVAE, train: Images, settings: Settings
) -> dict[str, Draw]:
    """Fit SAMPLERS to a baseline, to as many training images as those of our model."""
    real = train[: max(samplers.PER_DRAW * settings.samples, samplers.MIXED)]
    codes = baseline_models.sample(*baseline_models.encode(model, real))
    decode = partial(baseline_models.decode, model)

    def prior(count: int, generator: torch.Generator) -> Tensor:
        return torch.randn(count, codes.shape[1], generator=generator)

    gmm, _ = densities.fit_gmm(codes[: samplers.MIXED].double().numpy(), settings.seed)
    count = samplers.PER_DRAW * settings.samples
    accepted, _ = rejection.fit_rejection(prior, decode, real[:count], codes[:count], settings.seed)

    def draw(latents: DrawLatents, count: int, seed: int) -> Images:
        return to_array(decode(latents(count, torch.Generator().manual_seed(seed))))

    fitted = dict(zip(SAMPLERS, (prior, gmm, accepted), strict=True))
    return {name: partial(draw, latents) for name, latents in fitted.items()}


def run_ours(settings: Settings, folder: Path, data: Path) -> Outcome:
    """Train our model on one thread, with the params as they are; fit SAMPLERS.

    Where it has a causal head, each sampler is a candidate at each pixel temperature.
    """
    epochs = settings.epochs or None
    params = load_params().with_overrides(seed=settings.seed, threads=1, device="cpu")
    params = params.for_dataset(data.name).with_overrides(epochs=epochs)
    _, train, val = load_items(params, params.dataset(data.name), data)
    task = make_task(params, train, LEVELS)
    # A killed run starts again: only a part of its CPU seconds would be counted.
    shutil.rmtree(folder, ignore_errors=True)
    trainer = Trainer(params, task, val, folder)
    started = time.process_time()
    model = trainer.run(lambda *_: None)
    trained = time.process_time() - started
    seed = settings.seed
    nats = np.add(*posterior.elbo_terms(model, val[:VALIDATED], seed))
    started = time.process_time()
    fitted = [samplers.fit(model, name, train, seed, settings.samples) for name in SAMPLERS]
    facts = {
        "cpu_seconds": trained,
        "images_seen": trainer.progress.updates * params.batch_size,
        "updates": trainer.progress.updates,
        "parameters": sum(model.parameter_counts().values()),
        "sampler_seconds": time.process_time() - started,
    }
    trainer.remove_state()

    def draw(sampler: samplers.Sampler, temperature: float | None, count: int, seed: int) -> Images:
        return samplers.sample(model, sampler, count, seed, temperature)

    def measure_test() -> tuple[Images, Floats]:
        test = load_images(data, "test")
        nats = np.add(*posterior.elbo_terms(model, test, seed))
        return posterior.reconstruct(model, test), nats

    temperatures = TEMPERATURES if model.head else (None,)
    draws = {}
    for sampler in fitted:
        for temperature in temperatures:
            name = sampler.name
            if temperature is not None:
                name = f"{name} at temperature {temperature:g}"
            draws[name] = partial(draw, sampler, temperature)
    return Outcome(draws, nats, measure_test, facts)


def fit_sigma(images: Images, means: Images) -> float:
    """Find the sigma on [0, 1] that minimises `gaussian_nats`."""

    def nats(log_sigma: float) -> float:
        return float(gaussian_nats(images, means, math.exp(log_sigma)).mean())

    bounds = (math.log(HALF_LEVEL), 0.0)
    return math.exp(minimize_scalar(nats, bounds=bounds, method="bounded").x)


@torch.no_grad()
def gaussian_nats(images: Images, means: Images, sigma: float) -> Floats:
    """-log p of each image under a Gaussian around `means`, discretised to the levels. (n,)."""
    gaussian = Gaussian(1)
    gaussian.log_sigma.fill_(math.log(sigma))
    chunks = []
    for start in range(0, len(images), CHUNK):
        rows = slice(start, start + CHUNK)
        x = torch.from_numpy(np.array(images[rows])).permute(0, 3, 1, 2)
        mean = torch.from_numpy(np.array(means[rows])).float() / 255
        chunks.append(-gaussian.log_prob(mean.permute(0, 3, 1, 2), x).numpy())
    return np.concatenate(chunks).astype(np.float64)
