"""Stage agent_reference: train the pipeline's VAE under the budget of the agent's models.

With a factorised likelihood and p(z) = N(0, I), as generated models have them. Writes
results/agent_reference.json; no metrics where agent.dataset holds no images of a stage.
"""

import tempfile
from pathlib import Path

import numpy as np
import torch

from genlab.agent.evaluator.datasets import Data, load_data
from genlab.agent.evaluator.generative import compare_draws, load_extractor
from genlab.core import engine
from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params import Params, describe_idle
from genlab.core.params.options import overridable, parse_options
from genlab.vae.models.vae import to_array
from genlab.vae.sampling.posterior import elbo_terms
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer

EPOCHS, LEVELS, RESULTS = 10, 256, Path("results/agent_reference.json")
OBJECTIVE = {"prior": "standard", "causal_channels": 0, "auxiliary": 0.0, "free_bits": 0.0}
SCHEDULE = {"epochs": EPOCHS, "patience": EPOCHS, "ema": 0.0, "beta_warmup": 0.1}
SCHEDULE |= {"beta_schedule": "linear", "beta_max": 1.0}  # the ELBO, whatever the VAE is trained by


class Options(overridable("seed")):
    """Train the VAE under the budget of the agent's models, as their reference.

    Example: dvc repro agent_reference
    """


def measure(params: Params, data: Data) -> dict[str, float]:
    """Train on the agent's training part; returns metrics on its validation part."""
    train, val = (part.items.transpose(0, 2, 3, 1) for part in (data.train, data.validation))
    with tempfile.TemporaryDirectory() as state:
        task = make_task(params, train, LEVELS)
        model = Trainer(params, task, val, Path(state)).run(lambda *_: None)
    nll, kl = elbo_terms(model, val, params.seed)
    generator = torch.Generator().manual_seed(params.seed)
    with torch.no_grad():
        codes = torch.split(model.prior.sample(len(val), generator), 250)
        draws = to_array(torch.cat([model.sample(z, generator) for z in codes]))
    close = compare_draws(draws, data.validation, data, load_extractor(data))
    bits = float((nll + kl).mean() / (val[0].size * np.log(2)))
    return {"bits_per_dim": bits, "frechet_distance": close["frechet_distance"], "n": len(val)}


def main() -> None:
    """Run the stage."""
    params, metrics = parse_options(Options).params, {}
    facts = params.agent.model_dump(include={"dataset", "examples", "subset", "validation"})
    if reason := describe_idle():
        write_json(RESULTS, {**facts, "metrics": metrics})
        print(reason)
        return
    sizes = {key: facts[key] for key in ("subset", "validation")}
    data = load_data(facts["dataset"], Path("data"), **sizes)
    if data.folder and data.scale == LEVELS - 1:
        own = params.for_dataset(data.name).with_overrides(**OBJECTIVE, **SCHEDULE)
        engine.deterministic(own.seed)
        items = max(1, facts["examples"] // EPOCHS)
        epoch = {"samples_per_epoch": items, "batch_size": min(own.batch_size, items)}
        metrics = measure(own.with_overrides(**epoch), data)
    facts |= {"subset": len(data.train), "validation": len(data.validation)}
    write_json(RESULTS, {**facts, "metrics": metrics})
    print(f"{RESULTS}: {metrics}")


if __name__ == "__main__":
    run_cli(main)
