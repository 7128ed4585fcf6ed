"""The pipeline's VAE as a reference of the agent: trained with its budget, and measured.

Beside stage agent_reference, which imports it only where it has something to do.
"""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch

from genlab.agent.evaluator.datasets import Data, DataSplit, load_data, load_test
from genlab.agent.evaluator.estimates import summarise
from genlab.agent.evaluator.generative import FRECHET_RESAMPLES, compare_draws, load_extractor
from genlab.agent.evaluator.judge import standard_errors
from genlab.core import engine
from genlab.core.params import Params
from genlab.evaluation.metrics.features import Classifier
from genlab.vae.models.vae import VAE, to_array
from genlab.vae.sampling.posterior import elbo_terms
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer

EPOCHS, LEVELS = 10, 256
OBJECTIVE = {"prior": "standard", "causal_channels": 0, "auxiliary": 0.0, "free_bits": 0.0}
SCHEDULE = {"epochs": EPOCHS, "patience": EPOCHS, "ema": 0.0, "beta_warmup": 0.1}
SCHEDULE |= {"beta_schedule": "linear", "beta_max": 1.0}  # the ELBO, whatever the VAE is trained by
DATA = Path("data")


def measure_reference(params: Params) -> dict[str, Any]:
    """Sizes of the data, and metrics of the VAE; none where the data are no images of a stage."""
    agent = params.agent
    data = load_data(agent.dataset, DATA, subset=agent.subset, validation=agent.validation)
    metrics: dict[str, Any] = {}
    if data.folder and data.scale == LEVELS - 1:
        own = params.for_dataset(data.name).with_overrides(**OBJECTIVE, **SCHEDULE)
        items = max(1, agent.examples // EPOCHS)
        epoch = {"samples_per_epoch": items, "batch_size": min(own.batch_size, items)}
        metrics = measure_seeds(own.with_overrides(**epoch), data, load_test(data.name, DATA))
    return {"subset": len(data.train), "validation": len(data.validation), "metrics": metrics}


def train(params: Params, data: Data) -> VAE:
    """Train on the agent's training part."""
    engine.make_deterministic(params.seed)
    images, val = (part.items.transpose(0, 2, 3, 1) for part in (data.train, data.validation))
    with tempfile.TemporaryDirectory() as state:
        task = make_task(params, images, LEVELS)
        return Trainer(params, task, val, Path(state)).run(lambda *_: None)


def measure(
    model: VAE, part: DataSplit, data: Data, extractor: Classifier, seed: int
) -> dict[str, Any]:
    """Metrics of a model on a part, with their standard errors over its items."""
    images = part.items.transpose(0, 2, 3, 1)
    nll, kl = elbo_terms(model, images, seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        codes = torch.split(model.prior.sample(len(images), generator), 250)
        draws = to_array(torch.cat([model.sample(z, generator) for z in codes]))
    close = compare_draws(draws, part, data, extractor, FRECHET_RESAMPLES)
    bits = (nll + kl) / (images[0].size * np.log(2))
    errors = standard_errors(close["intervals"])
    errors["bits_per_dim"] = float(bits.std() / np.sqrt(len(bits)))
    metrics = {
        "bits_per_dim": float(bits.mean()),
        "frechet_distance": close["frechet_distance"],
        "n": len(images),
    }
    return {"seed": seed, "metrics": metrics, "errors": errors}


def measure_seeds(params: Params, data: Data, test: DataSplit) -> dict[str, Any]:
    """Metrics of so many trainings as an attempt of the agent has, on validation and test."""
    extractor = load_extractor(data)
    seeds = range(params.seed, params.seed + params.agent.seeds)
    models = {seed: train(params.with_overrides(seed=seed), data) for seed in seeds}
    summaries = [
        summarise([measure(model, part, data, extractor, seed) for seed, model in models.items()])
        for part in (data.validation, test)
    ]
    return summaries[0] | {"test": summaries[1]}
