"""Train this project's image model, or a part of it, for some CPU seconds."""

import shutil
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from benchmarks.baseline_outcomes import (
    TEMPERATURES,
    VALIDATED,
    Draw,
    Floats,
    Images,
    Outcome,
    shrink,
)
from benchmarks.baseline_settings import Settings
from genlab.core.params import Params, load_params
from genlab.datasets.images import LEVELS, load_images
from genlab.vae.models.vae import VAE, Items
from genlab.vae.sampling import posterior, samplers
from genlab.vae.training.run import load_items
from genlab.vae.training.schedules import Phases
from genlab.vae.training.tasks import Task, make_task
from genlab.vae.training.trainer import Trainer

EPOCHS = 20  # of a run: the phases are fractions of it, and each ends with a validation
CHECKED_ON = 500  # validation images per epoch
PROBED = 8  # updates per epoch of the run that measures the cost of an update
PARTS: dict[str, dict[str, Any]] = {
    "ours": {},
    # Nothing to fit a prior to, and nothing to reconstruct: all of the time trains the head.
    "no-latents": {"latent_context": False, "prior": "standard", "auxiliary": 0.0},
    "no-head": {"causal_channels": 0},
}
"""What differs from params.yaml, by contender."""


class TimedTrainer(Trainer):
    """A trainer that knows the CPU seconds of its epochs without validations and saved states."""

    def __init__(self, params: Params, task: Task, val: Items, state_dir: Path) -> None:
        super().__init__(params, task, val, state_dir)
        self.setup_seconds = 0.0  # of a learned prior, from codes
        self.epoch_seconds: list[float] = []

    def _enter_phase(self, epoch: int) -> None:
        started = time.process_time()
        super()._enter_phase(epoch)
        self.setup_seconds += time.process_time() - started

    def _train_epoch(self, epoch: int, bar: "tqdm[Any]") -> dict[str, float]:
        started = time.process_time()
        losses = super()._train_epoch(epoch, bar)
        self.epoch_seconds.append(time.process_time() - started)
        return losses


def run_genlab(settings: Settings, folder: Path, data: Path) -> Outcome:
    """Train on one thread for about `settings.seconds`; fit the samplers.

    The clock runs only during updates, as it does for the libraries.
    """
    params = make_params(settings, data.name)
    _, train, val = load_items(params, params.dataset(data.name), data)
    task = make_task(params, train, LEVELS)
    updates = fit_updates(params, task, val, folder, settings.seconds)
    params = params.with_overrides(samples_per_epoch=updates * params.batch_size)
    model, facts = train_model(params, task, val, folder)
    seed = settings.seed
    has_latents = settings.contender != "no-latents"
    validation_nats = np.add(*posterior.elbo_terms(model, val[:VALIDATED], seed))

    def measure_test() -> tuple[Images | None, Floats | None]:
        test = load_images(data, "test")
        nats = np.add(*posterior.elbo_terms(model, test, seed))
        return posterior.reconstruct(model, test) if has_latents else None, nats

    started = time.process_time()
    draws = fit_samplers(model, train, seed, ("prior", "gmm") if has_latents else ("prior",))
    facts["sampler_seconds"] = time.process_time() - started
    return Outcome(draws, validation_nats, measure_test, facts)


def make_params(settings: Settings, dataset: str) -> Params:
    """Make the params of a run, whose epochs are not yet adapted to its seconds."""
    overrides = {**PARTS[settings.contender], **dict(settings.options)}
    params = load_params().with_overrides(seed=settings.seed, threads=1, device="cpu", **overrides)
    return params.for_dataset(dataset).with_overrides(epochs=EPOCHS, patience=EPOCHS)


def fit_updates(params: Params, task: Task, val: Items, folder: Path, seconds: float) -> int:
    """Compute how many updates per epoch take `seconds` in all, from a short run of each phase."""
    phases = Phases.from_params(params)
    alone = phases.epochs - phases.joint
    # The first epoch of a phase allocates memory, so that the second one is measured.
    probe = params.with_overrides(
        epochs=4 if alone else 2,
        prior_share=0.5 if alone else 0.0,
        samples_per_epoch=PROBED * params.batch_size,
    )
    trainer = _make_trainer(probe, task, val, folder)
    trainer.run(lambda *_: None)
    trainer.remove_state()
    total = phases.joint * trainer.epoch_seconds[1]
    if alone:
        total += alone * trainer.epoch_seconds[3]
    return max(1, round(max(seconds - trainer.setup_seconds, 0.0) * PROBED / total))


def train_model(params: Params, task: Task, val: Items, folder: Path) -> tuple[VAE, dict[str, Any]]:
    """Train a model; returns it with the CPU seconds of its updates and other facts."""
    trainer = _make_trainer(params, task, val, folder)
    model = trainer.run(lambda *_: None)
    trainer.remove_state()
    seconds = trainer.setup_seconds + sum(trainer.epoch_seconds)
    return model, {
        "cpu_seconds": seconds,
        "images_seen": trainer.progress.updates * params.batch_size,
        "updates": trainer.progress.updates,
        "parameters": sum(model.parameter_counts().values()),
    }


def _make_trainer(params: Params, task: Task, val: Items, folder: Path) -> TimedTrainer:
    # A killed run starts again: only a part of its CPU seconds would be counted.
    shutil.rmtree(folder, ignore_errors=True)
    return TimedTrainer(params, task, val[:CHECKED_ON], folder)


def fit_samplers(model: VAE, train: Items, seed: int, names: tuple[str, ...]) -> dict[str, Draw]:
    """Fit samplers; each is a candidate at every temperature.

    The temperature is that of the pixels where there is a causal head, and else of the latents.
    """
    draws: dict[str, Draw] = {}
    for name in names:
        sampler = samplers.fit(model, name, train, seed)
        for temperature in TEMPERATURES:
            title = f"{name} at temperature {temperature:g}"
            if model.head:
                draws[title] = partial(_draw, model, sampler, temperature)
            else:
                narrowed = samplers.Sampler(name, shrink(_on_cpu(sampler), temperature))
                draws[title] = partial(_draw, model, narrowed, None)
    return draws


def _on_cpu(sampler: samplers.Sampler) -> Any:
    def draw(count: int, generator: torch.Generator) -> Tensor:
        return sampler.draw(count, generator).cpu()

    return draw


def _draw(
    model: VAE, sampler: samplers.Sampler, temperature: float | None, count: int, seed: int
) -> Images:
    return samplers.sample(model, sampler, count, seed, temperature)
