"""What share of the machine's matrix-multiplication rate a training step reaches, on one thread.

Both are measured in turn in the same run, in CPU seconds: the rate of a 1024 x 1024 float32
product, and the step's own rate, which is the operations of its forward and backward passes
(counted by torch's FlopCounterMode, nothing else is credited) over its time, optimiser included.
The step is that of the default params once the learned prior is in: on the default program's grids,
and on images of Fashion-MNIST's shape.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import chain, count
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
import typer
from torch.utils.flop_counter import FlopCounterMode

from genlab.core import engine
from genlab.core.errors import run_cli
from genlab.core.params import Params, load_params
from genlab.datasets.arc_grids import make_distribution
from genlab.grids.generator import AtomicImageGenerator
from genlab.vae.models.vae import Items
from genlab.vae.training.batches import epoch_generator
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer
from record import BENCHMARKS, record

SIDE = 1024


def cpu_seconds(work: Callable[[], object], times: int) -> float:
    """CPU seconds that `times` calls take."""
    start = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - start


def grid_items(params: Params) -> Items:
    """Grids of the default program."""
    grids, _ = AtomicImageGenerator(make_distribution(params.grids)).generate(20_000, params.seed)
    return grids


def image_items(params: Params) -> Items:
    """Noise of Fashion-MNIST's shape: what an image shows doesn't change the work."""
    return np.random.default_rng(params.seed).integers(0, 256, (20_000, 28, 28, 1), dtype=np.uint8)


CASES: dict[str, tuple[str, Callable[[Params], Items], int]] = {
    "grids.step_over_matmul": ("arc_grids", grid_items, 10),
    "images.step_over_matmul": ("fashion_mnist", image_items, 256),
}


def bench(
    repeats: Annotated[int, typer.Option(min=5, help="Repeats, taken in turn.")] = 15,
    steps: Annotated[int, typer.Option(min=1, help="Steps a repeat.")] = 10,
    products: Annotated[int, typer.Option(min=1, help="Products a repeat.")] = 20,
    output: Annotated[Path, typer.Option(help="File the result goes to.")] = BENCHMARKS,
) -> None:
    """Measure training steps against matrix products; write `*.step_over_matmul`."""
    for key, (dataset, items, classes) in CASES.items():
        params = load_params().with_overrides(threads=1, device="cpu").for_dataset(dataset)
        engine.deterministic(params.seed, 1)
        ratios, flops = measure(params, dataset, items(params), classes, repeats, steps, products)
        value = float(np.median(ratios))
        low, high = (float(edge) for edge in np.percentile(ratios, [2.5, 97.5]))
        print(f"{key} {value:.3f} ({low:.3f} to {high:.3f}), {flops / 1e9:.2f} GFLOP a step")
        record(
            key,
            value,
            interval=(low, high),
            n=repeats,
            seeds=[params.seed],
            command="python benchmarks/training.py",
            path=output,
        )


def measure(
    params: Params,
    dataset: str,
    items: Items,
    classes: int,
    repeats: int,
    steps: int,
    products: int,
) -> tuple[list[float], int]:
    """The share in each repeat, and the operations of a step."""
    task = make_task(params, dataset, items[:19_000], classes)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(params, task, items[19_000:], Path(folder) / "state")
    trainer.progress.epoch = trainer.delay  # the learned prior is in from here on
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
        print(f"step {ours / 1e9:6.1f}  products {machine / 1e9:6.1f} GFLOP a CPU-second")
    return ratios, flops


if __name__ == "__main__":
    run_cli(lambda: typer.run(bench))
