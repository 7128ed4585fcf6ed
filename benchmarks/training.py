"""What share of the machine's matrix-multiplication rate a training step reaches, on one thread.

Both are measured in turn in the same run, in CPU seconds: the rate of a 1024 x 1024 float32
product, and the step's own rate, which is the multiply-adds of its forward and backward passes
(counted by torch's FlopCounterMode, nothing else is credited) over its time, optimiser included.
The step is that of the default params once the learned prior is in, on the default program's grids.
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
from genlab.core.console import guarded
from genlab.core.params import load_params
from genlab.datasets.arc_grids import program_of
from genlab.grids.compose import AtomicImageGenerator
from genlab.vae.batches import epoch_generator
from genlab.vae.trainer import Trainer
from record import BENCHMARKS, record

SIDE = 1024
CLASSES = 10


def cpu_seconds(work: Callable[[], object], times: int) -> float:
    """CPU seconds that `times` calls take."""
    start = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - start


def bench(
    repeats: Annotated[int, typer.Option(min=5, help="Repeats, taken in turn.")] = 15,
    steps: Annotated[int, typer.Option(min=1, help="Steps a repeat.")] = 10,
    products: Annotated[int, typer.Option(min=1, help="Products a repeat.")] = 20,
    output: Annotated[Path, typer.Option(help="File the result goes to.")] = BENCHMARKS,
) -> None:
    """Measure a training step against matrix products; write `grids.step_over_matmul`."""
    params = load_params().with_overrides(threads=1, device="cpu").for_dataset("arc_grids")
    engine.deterministic(params.seed, 1)
    program = program_of(params.grids)
    grids, _ = AtomicImageGenerator(program).generate(20_000, params.seed)
    with tempfile.TemporaryDirectory() as folder:
        data = torch.from_numpy(grids)
        trainer = Trainer(params, data[:19_000], data[19_000:], CLASSES, Path(folder) / "state")
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
    value = float(np.median(ratios))
    low, high = (float(edge) for edge in np.percentile(ratios, [2.5, 97.5]))
    print(f"grids.step_over_matmul {value:.3f} ({low:.3f} to {high:.3f}), {flops / 1e9:.2f} GFLOP")
    record(
        "grids.step_over_matmul",
        value,
        interval=(low, high),
        n=repeats,
        seeds=[params.seed],
        command="python benchmarks/training.py",
        path=output,
    )


if __name__ == "__main__":
    guarded(lambda: typer.run(bench))
