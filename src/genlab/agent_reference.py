"""The pipeline's VAE as a reference of the agent: trained within its budget, and measured.

It stands beside the packages: agent and vae never import each other.
"""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from genlab.agent.evaluator.datasets import Data, DataSplit, load_data, load_test
from genlab.agent.evaluator.estimates import summarise
from genlab.agent.evaluator.generative import FRECHET_RESAMPLES, compare_draws, load_extractor
from genlab.agent.evaluator.model_evaluator import standard_errors
from genlab.core import engine
from genlab.core.params import Params
from genlab.evaluation.metrics.features import Classifier
from genlab.vae.models.vae import VAE, to_array
from genlab.vae.sampling.posterior import elbo_terms
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer

DATA = Path("data")
EPOCHS = 10
LEVELS = 256  # values of a channel of a pixel
DRAWS_PER_BATCH = 250
OVERRIDES: Mapping[str, Any] = {
    # a factorised likelihood and p(z) = N(0, I), as models of the agent have them
    "prior": "standard",
    "causal_channels": 0,
    # the ELBO as the objective, whatever the pipeline's VAE is trained by
    "auxiliary": 0.0,
    "free_bits": 0.0,
    "beta_schedule": "linear",
    "beta_warmup": 0.1,
    "beta_max": 1.0,
    "epochs": EPOCHS,
    "patience": EPOCHS,
    "ema": 0.0,
}


def measure_reference(params: Params) -> dict[str, Any]:
    """Train the VAE once per seed of an attempt, and measure it as the agent's models are.

    Returns the sizes of the data (`subset`, `validation`) and `metrics`, which are empty if the
    agent's dataset holds no images of the pipeline.
    """
    agent = params.agent
    data = load_data(agent.dataset, DATA, subset=agent.subset, validation=agent.validation)
    metrics: dict[str, Any] = {}
    if data.folder and data.scale == LEVELS - 1:
        vae_params = params.for_dataset(data.name).with_overrides(**OVERRIDES)
        samples_per_epoch = max(1, agent.examples // EPOCHS)
        vae_params = vae_params.with_overrides(
            samples_per_epoch=samples_per_epoch,
            batch_size=min(vae_params.batch_size, samples_per_epoch),
        )
        metrics = _measure_seeds(vae_params, data, load_test(data.name, DATA))
    return {"subset": len(data.train), "validation": len(data.validation), "metrics": metrics}


def _measure_seeds(params: Params, data: Data, test: DataSplit) -> dict[str, Any]:
    """Metrics over as many seeds as an attempt of the agent has, on validation and test."""
    extractor = load_extractor(data)
    seeds = range(params.seed, params.seed + params.agent.seeds)
    models = {seed: _train(params.with_overrides(seed=seed), data) for seed in seeds}
    summaries = []
    for split in (data.validation, test):
        measured = [_measure(model, split, data, extractor, seed) for seed, model in models.items()]
        summaries.append(summarise(measured))
    validation_summary, test_summary = summaries
    return validation_summary | {"test": test_summary}


def _train(params: Params, data: Data) -> VAE:
    """Train on the agent's training split."""
    engine.make_deterministic(params.seed)
    images = _channels_last(data.train)
    validation = _channels_last(data.validation)
    with tempfile.TemporaryDirectory() as state:
        task = make_task(params, images, LEVELS)
        return Trainer(params, task, validation, Path(state)).run(lambda *_: None)


def _measure(
    model: VAE, split: DataSplit, data: Data, extractor: Classifier, seed: int
) -> dict[str, Any]:
    """Metrics of a model on a split, with their standard errors over its items."""
    images = _channels_last(split)
    nll, kl = elbo_terms(model, images, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        codes = torch.split(model.prior.sample(len(images), generator), DRAWS_PER_BATCH)
        draws = to_array(torch.cat([model.sample(z, generator) for z in codes]))
    comparison = compare_draws(draws, split, data, extractor, FRECHET_RESAMPLES)
    bits = (nll + kl) / (images[0].size * np.log(2))
    errors = standard_errors(comparison["intervals"])
    errors["bits_per_dim"] = float(bits.std() / np.sqrt(len(bits)))
    metrics = {
        "bits_per_dim": float(bits.mean()),
        "frechet_distance": comparison["frechet_distance"],
        "n": len(images),
    }
    return {"seed": seed, "metrics": metrics, "errors": errors}


def _channels_last(split: DataSplit) -> npt.NDArray[np.uint8]:
    """Items of a split as (n, height, width, channels)."""
    return split.items.transpose(0, 2, 3, 1)
