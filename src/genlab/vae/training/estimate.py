"""How long a training will take on this machine, by a few of its steps."""

import time
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from genlab.core import engine
from genlab.core.params import Params
from genlab.vae.models.vae import Items
from genlab.vae.training.batches import make_epoch_generator
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer

WARM, TIMED = 2, 6  # steps


def estimate_minutes(params: Params, items: Items, values: int) -> float:
    """Minutes that all epochs take, without early stopping.

    items: some for training, (n, ...). values: of a cell or a pixel's channel. Steps that train
    encoder, decoder and prior together are timed; those of the prior alone are shorter.
    """
    engine.make_deterministic(params.seed, params.threads)
    device = engine.select_device(params.device)
    task = make_task(params, items, values, device)
    with TemporaryDirectory() as folder:
        trainer = Trainer(params, task, items, Path(folder), device)
    generator = make_epoch_generator(params.seed, 0)
    batches = list(islice(trainer.batches(0), WARM + TIMED))
    for batch in batches[:WARM]:
        trainer.step(batch, params.beta_max, generator)
    started = time.perf_counter()
    for batch in batches[WARM:]:
        trainer.step(batch, params.beta_max, generator)
    seconds = (time.perf_counter() - started) / max(1, len(batches) - WARM)
    return seconds * trainer.updates_per_epoch * params.epochs / 60
