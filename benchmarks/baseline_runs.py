"""Trains one model of the comparison with baselines, ours or a baseline, and draws from it."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from scipy.optimize import minimize_scalar

import genlab
from benchmarks.baseline_worker import KEYS, KIND, VALIDATED
from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.io import read_npz, write_json
from genlab.core.params import Params, load_params
from genlab.datasets.images import LEVELS, load_images
from genlab.datasets.registry import find_dataset
from genlab.distributions.likelihoods import HALF_LEVEL, Gaussian
from genlab.vae.sampling import posterior, samplers
from genlab.vae.training.batches import epoch_generator
from genlab.vae.training.run import load_items
from genlab.vae.training.tasks import Task, make_task
from genlab.vae.training.trainer import Trainer

Images = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

PYTHAE = ("pythae==0.1.2", "pydantic<2", "cloudpickle>=2.1", "imageio")
WORKER = Path(__file__).with_name("baseline_worker.py")
OURS = "ours"
SAMPLER_FRACTION = 0.2  # of our seconds, for fitting what accepts or rejects draws
TIMED = 8  # updates that the pace is measured on
CHUNK = 1_000  # images whose likelihood is computed at once


@dataclass(frozen=True)
class Settings:
    """One run. loss, rate: empty and None where the contender has its own.

    samples: drawn by each sampler, and the number of test images that are used.
    """

    contender: str
    loss: str
    rate: float | None
    seconds: float
    seed: int
    samples: int

    @property
    def title(self) -> str:
        """Contender, loss and learning rate, as far as there are any."""
        rate = "" if self.rate is None else f"lr {self.rate:g}"
        return " ".join(part for part in (self.contender, self.loss, rate) if part)


@dataclass(frozen=True, eq=False)
class Outcome:
    """What a run hands to the judge.

    reconstructions: of the test images; samples: by sampler; uint8 (n, h, w, c). *_nats: minus the
    ELBO of each image over 256 levels at one posterior draw, (n,). facts: cpu_seconds, images_seen,
    updates, parameters, and others to record.
    """

    reconstructions: Images
    samples: dict[str, Images]
    validation_nats: Floats
    test_nats: Floats
    facts: dict[str, Any]


def install_pythae(folder: Path) -> None:
    """Install pythae and what it needs into `folder`, once and completely.

    Raises a GenlabError where pip cannot.
    """
    if folder.exists():
        return
    part = folder.with_name(folder.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command = [*pip, "--no-deps", "--target", str(part), *PYTHAE]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise GenlabError(
            f"pip could not install {PYTHAE[0]} ({_last_line(done.stderr)}); connect to a package"
            " index, or compare without it: --only antixk,ours"
        )
    os.replace(part, folder)


def run_baseline(settings: Settings, folder: Path, data: Path, environment: Path) -> Outcome:
    """Train a baseline in a subprocess, or read the run that it left in `folder`."""
    output = folder / "run.npz"
    if not output.exists():
        write_json(folder / "job.json", {**asdict(settings), "data": str(data.resolve())})
        library = Path(genlab.__file__).parents[1]
        path = os.pathsep.join(str(each.resolve()) for each in (environment, library))
        done = subprocess.run(
            [sys.executable, str(WORKER), str(folder / "job.json"), str(output)],
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
        )
        if done.returncode:
            raise GenlabError(
                f"{folder}: {settings.contender} failed ({_last_line(done.stderr)}); fix it, or"
                " leave it out: --only"
            )
    found = read_npz(output, kind=KIND, keys=KEYS, producer_command=f"rm {output}; make bench")
    images = {
        "val": load_images(data, "val")[:VALIDATED],
        "test": load_images(data, "test")[: settings.samples],
    }
    sigma = fit_sigma(images["val"], found["val_means"])
    nats = {
        split: found[f"{split}_kl"] + gaussian_nats(images[split], found[f"{split}_means"], sigma)
        for split in images
    }
    samples = {name: found[name] for name in ("normal", "gmm")}
    facts = {**json.loads(str(found["facts"])), "sigma": sigma}
    return Outcome(found["reconstructions"], samples, nats["val"], nats["test"], facts)


def run_ours(settings: Settings, folder: Path, data: Path) -> Outcome:
    """Train the default model for about as many epochs as its CPU seconds allow, and draw from it.

    Fitting a discriminator is training too: SAMPLER_FRACTION of the seconds are left for it.
    """
    params = load_params().with_overrides(seed=settings.seed, threads=1, device="cpu")
    params = params.for_dataset(data.name)
    engine.deterministic(params.seed, 1)
    _, train, val = load_items(params, find_dataset(data.name), data)
    task = make_task(params, data.name, train, LEVELS)
    seconds = settings.seconds * (1 - SAMPLER_FRACTION)
    epochs = max(1, round(seconds / _seconds_per_epoch(params, task, val, folder)))
    params = params.with_overrides(epochs=epochs)
    # A killed run starts again: only a part of its CPU seconds would be counted.
    shutil.rmtree(folder / "making", ignore_errors=True)
    trainer = Trainer(params, task, val, folder / "making")
    start = time.process_time()
    model = trainer.run(lambda *_: None)
    trained = time.process_time() - start
    test = load_images(data, "test")[: settings.samples]
    seed, fitted = settings.seed, 0.0
    nats = [sum(posterior.elbo_terms(model, x, seed)) for x in (val[:VALIDATED], test)]
    samples = {}
    for name in samplers.names(model):
        if name in ("accepted", "prior"):
            start = time.process_time()
            sampler = samplers.fit(model, name, train, seed, settings.samples)
            fitted += time.process_time() - start
            samples[name] = samplers.sample(model, sampler, settings.samples, seed)
    facts = {
        "cpu_seconds": trained + fitted,
        "sampler_seconds": fitted,
        "images_seen": trainer.progress.updates * params.batch_size,
        "updates": trainer.progress.updates,
        "parameters": sum(model.parameter_counts().values()),
    }
    trainer.remove_state()
    return Outcome(posterior.reconstruct(model, test), samples, nats[0], nats[1], facts)


def _seconds_per_epoch(params: Params, task: Task, val: Images, folder: Path) -> float:
    """CPU seconds of an epoch, from a few updates and one validation."""
    trainer = Trainer(params, task, val, folder / "timing")
    generator, batches = epoch_generator(params.seed, 0), trainer.batches(0)
    for _ in range(TIMED):  # the first updates are slower
        trainer.update(next(batches), params.beta_max, generator)
    start = time.process_time()
    for _ in range(TIMED):
        trainer.update(next(batches), params.beta_max, generator)
    update = (time.process_time() - start) / TIMED
    start = time.process_time()
    trainer.validate(params.beta_max)
    return update * trainer.updates_per_epoch + time.process_time() - start


def fit_sigma(images: Images, means: Images) -> float:
    """The sigma on [0, 1] at which `gaussian_nats` is lowest."""

    def nats(log_sigma: float) -> float:
        return float(gaussian_nats(images, means, math.exp(log_sigma)).mean())

    bounds = (math.log(HALF_LEVEL), 0.0)
    return math.exp(minimize_scalar(nats, bounds=bounds, method="bounded").x)


@torch.no_grad()
def gaussian_nats(images: Images, means: Images, sigma: float) -> Floats:
    """-log p of each image under a Gaussian around `means`, discretised to the levels. (n,)."""
    gaussian = Gaussian(1)
    gaussian.log_sigma.fill_(math.log(sigma))
    found = []
    for start in range(0, len(images), CHUNK):
        rows = slice(start, start + CHUNK)
        x, mean = (torch.from_numpy(np.array(each[rows])) for each in (images, means))
        mean = mean.float() / 255
        found.append(-gaussian.log_prob(mean.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2)).numpy())
    return np.concatenate(found).astype(np.float64)


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1].strip()[:200] if lines else "no message"
