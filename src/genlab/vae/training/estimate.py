"""Estimate how long a training run takes on this machine, from a few of its steps."""

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

WARM_UP_STEPS = 2
TIMED_STEPS = 6


def estimate_minutes(params: Params, items: Items, values: int) -> float:
    """Estimate the minutes that all epochs take, without early stopping.

    items: some training items, (n, ...). values: number of values of a cell or a pixel's channel.
    Steps that train encoder, decoder and prior together are timed; those of the prior alone are
    shorter.
    """
    engine.make_deterministic(params.seed, params.threads)
    device = engine.select_device(params.device)
    task = make_task(params, items, values, device)
    with TemporaryDirectory() as folder:
        trainer = Trainer(params, task, items, Path(folder), device)
    generator = make_epoch_generator(params.seed, 0)
    batches = list(islice(trainer.iterate_batches(0), WARM_UP_STEPS + TIMED_STEPS))
    for batch in batches[:WARM_UP_STEPS]:
        trainer.step(batch, params.beta_max, generator)
    started = time.perf_counter()
    for batch in batches[WARM_UP_STEPS:]:
        trainer.step(batch, params.beta_max, generator)
    seconds = (time.perf_counter() - started) / max(1, len(batches) - WARM_UP_STEPS)
    return seconds * trainer.updates_per_epoch * params.epochs / 60
