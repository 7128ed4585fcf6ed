"""Arithmetic rate of a training step relative to the machine's matrix products, on one thread.

Both are measured alternately, in CPU seconds: the rate of a 1024 x 1024 float32 product, and the
step's rate, which is the operations of its forward and backward passes (counted by torch's
FlopCounterMode) over its time, optimiser included. The step is that of the default params once the
learned prior is trained too, on grids and on images of Fashion-MNIST's shape.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.harness import Result, benchmark, cpu_seconds
from genlab.core import engine
from genlab.core.params import Params, load_params
from genlab.datasets.arc_grids import make_distribution
from genlab.grids.generator import AtomicImageGenerator
from genlab.vae.models.vae import Items
from genlab.vae.training.batches import epoch_generator
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer

SIDE = 1024


def grid_items(params: Params) -> Items:
    """Grids of the default distribution."""
    generator = AtomicImageGenerator(make_distribution(params.grids))
    return generator.generate(20_000, params.seed).grids


def image_items(params: Params) -> Items:
    """Noise of Fashion-MNIST's shape: the pixels do not change the work."""
    return np.random.default_rng(params.seed).integers(0, 256, (20_000, 28, 28, 1), dtype=np.uint8)


CASES: dict[str, tuple[str, Callable[[Params], Items], int]] = {
    "grids.step_over_matmul": ("arc_grids", grid_items, 10),
    "images.step_over_matmul": ("fashion_mnist", image_items, 256),
}


@benchmark(*CASES)
def training(
    repeats: Annotated[int, typer.Option(min=3, help="Repeats, alternating.")] = 15,
    steps: Annotated[int, typer.Option(min=1, help="Steps per repeat.")] = 10,
    products: Annotated[int, typer.Option(min=1, help="Products per repeat.")] = 20,
) -> Iterator[Result]:
    """Time training steps against matrix products."""
    for key, (dataset, items, classes) in CASES.items():
        params = load_params().with_overrides(threads=1, device="cpu").for_dataset(dataset)
        engine.deterministic(params.seed, 1)
        ratios = measure(params, dataset, items(params), classes, repeats, steps, products)
        yield Result.median(key, ratios, params.seed)


def measure(
    params: Params,
    dataset: str,
    items: Items,
    classes: int,
    repeats: int,
    steps: int,
    products: int,
) -> list[float]:
    """The step's rate over that of the products, in each repeat."""
    task = make_task(params, dataset, items[:19_000], classes)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(params, task, items[19_000:], Path(folder) / "state")
    trainer.update.delayed = False  # the learned prior is trained, too
    generator = epoch_generator(params.seed, 0)
    batches = chain.from_iterable(trainer.batches(epoch) for epoch in count())

    def step() -> None:
        trainer.update(next(batches), params.beta_max, generator)

    matrix = torch.randn(SIDE, SIDE)
    for warm_up in (step, lambda: matrix @ matrix):
        cpu_seconds(warm_up, 5)
    with FlopCounterMode(display=False) as counter:
        step()
    flops = counter.get_total_flops()
    ratios = []
    for _ in range(repeats):
        ours = flops * steps / cpu_seconds(step, steps)
        machine = 2 * SIDE**3 * products / cpu_seconds(lambda: matrix @ matrix, products)
        ratios.append(ours / machine)
        print(f"step {ours / 1e9:6.1f}  products {machine / 1e9:6.1f} GFLOP per CPU second")
    return ratios
