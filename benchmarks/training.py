"""Arithmetic rate of a training step, and the share of its time that each operation takes.

`training` measures the rate relative to the machine's matrix products, on one thread. Both are
measured alternately, in CPU seconds: the rate of a 1024 x 1024 float32 product, and the step's
rate, which is the number of operations of its forward and backward passes (`OPERATIONS`) divided by
its time, optimiser included. `profile` splits that time. The step is that of the default params
once the learned prior is trained too, on grids and on images of Fashion-MNIST's shape.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import numpy as np
import torch
import typer

from benchmarks.harness import RUN, Repeats, Result, app, benchmark, cpu_seconds
from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.io import read_json, write_json
from genlab.core.params import Params, load_params
from genlab.datasets.arc_grids import make_distribution
from genlab.grids.generator import AtomicImageGenerator
from genlab.vae.models.vae import Items
from genlab.vae.training.batches import make_epoch_generator
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer

SIDE = 1024
STEPS = 10  # in a repeat
PRODUCTS = 20  # in a repeat
PROFILE = Path("results/profile.json")


def draw_grids(params: Params) -> Items:
    """Draw grids from the default distribution."""
    generator = AtomicImageGenerator(make_distribution(params.grids))
    return generator.generate(20_000, params.seed).grids


def draw_images(params: Params) -> Items:
    """Draw noise of Fashion-MNIST's shape: the time does not depend on the pixels."""
    return np.random.default_rng(params.seed).integers(0, 256, (20_000, 28, 28, 1), dtype=np.uint8)


CASES: dict[str, tuple[Callable[[Params], Items], int]] = {
    "arc_grids": (draw_grids, 10),
    "fashion_mnist": (draw_images, 256),
}
# Of a step, counted by torch's FlopCounterMode at commit 96de87dd. They are not counted again: a
# step that needs fewer operations for the same result has to count as faster, not as slower.
OPERATIONS = {"arc_grids": 4_977_197_056, "fashion_mnist": 7_523_790_848}
KEYS = {"grids.step_over_matmul": "arc_grids", "images.step_over_matmul": "fashion_mnist"}


@benchmark(*KEYS)
def training(repeats: Repeats = 15) -> Iterator[Result]:
    """Time training steps against matrix products."""
    for key, dataset in KEYS.items():
        trainer, step = prepare(dataset)
        ratios = measure(step, OPERATIONS[dataset], repeats)
        yield Result.median(key, ratios, trainer.params.seed)


def prepare(dataset: str) -> tuple[Trainer, Callable[[], object]]:
    """Make a trainer of the default params on one thread, and a step that trains everything."""
    params = load_params().with_overrides(threads=1, device="cpu").for_dataset(dataset)
    engine.make_deterministic(params.seed, 1)
    make_items, classes = CASES[dataset]
    items = make_items(params)
    task = make_task(params, items[:19_000], classes)
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(params, task, items[19_000:], Path(folder) / "state")
    trainer.step.delayed = False  # the learned prior is trained, too
    generator = make_epoch_generator(params.seed, 0)
    batches = chain.from_iterable(trainer.iterate_batches(epoch) for epoch in count())
    return trainer, lambda: trainer.step(next(batches), params.beta_max, generator)


def measure(step: Callable[[], object], operations: int, repeats: int) -> list[float]:
    """Measure the step's rate relative to that of the products, in each repeat.

    operations: number of operations of a step.
    """
    matrix = torch.randn(SIDE, SIDE)
    for warm_up in (step, lambda: matrix @ matrix):
        cpu_seconds(warm_up, 5)
    ratios = []
    for _ in range(repeats):
        step_rate = operations * STEPS / cpu_seconds(step, STEPS)
        product_rate = 2 * SIDE**3 * PRODUCTS / cpu_seconds(lambda: matrix @ matrix, PRODUCTS)
        ratios.append(step_rate / product_rate)
        print(
            f"step {step_rate / 1e9:6.1f}  products {product_rate / 1e9:6.1f} GFLOP per CPU second"
        )
    return ratios


@app.command()
def profile(
    dataset: Annotated[str, typer.Option(help="Dataset: arc_grids or fashion_mnist.")],
    steps: Annotated[int, typer.Option(min=1, help="Steps of each phase.")] = 100,
) -> None:
    """Print the time that each operation of a training step takes, and save it.

    Example: python benchmarks/run.py profile --dataset arc_grids
    """
    if dataset not in CASES:
        raise GenlabError(f"dataset must be one of {', '.join(CASES)}, got {dataset!r}")
    trainer, step = prepare(dataset)
    phases = {"joint": split_time(trainer, step, steps)}
    if trainer.params.prior_share:
        trainer.step.freeze_autoencoder()
        phases["prior alone"] = split_time(trainer, step, steps)
    for phase, times in phases.items():
        total = sum(times.values())
        print(f"{phase}: {1000 * total:.1f} CPU milliseconds per step")
        for operation, seconds in sorted(times.items(), key=lambda item: -item[1]):
            print(f"  {operation:<22}{seconds / total:6.1%}")
    command = f"python {RUN} profile --dataset {dataset} --steps {steps}"
    profiles = read_json(PROFILE, producer_command=command) if PROFILE.exists() else {}
    entry = {
        "command": command,
        "steps": steps,
        "machine": engine.describe_machine(),
        "seconds": phases,
    }
    write_json(PROFILE, dict(sorted({**profiles, dataset: entry}.items())))


def split_time(trainer: Trainer, step: Callable[[], object], steps: int) -> dict[str, float]:
    """Measure the CPU seconds per step of each operation; `other` is what none of them covers.

    An operation within another, such as the causal head within the likelihood, is counted apart.
    """
    training_step = trainer.step
    model = trainer.model
    seconds: Counter[str] = Counter()
    running = ["other"]
    last = 0.0

    def credit() -> None:
        """Add the time since the last call to the operation that runs."""
        nonlocal last
        now = time.process_time()
        seconds[running[-1]] += now - last
        last = now

    def add_timer(function: Callable[..., Any], operation: str) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            credit()
            running.append(operation)
            try:
                return function(*args, **options)
            finally:
                credit()
                running.pop()

        return call

    methods: list[tuple[Any, str, str]] = [
        (trainer.task, "augment", "corruption"),
        (model, "encode", "encoder"),
        (model, "decode", "decoder"),
        (model, "log_likelihood", "likelihood"),
        (trainer.task, "compute_cost", "likelihood"),
        (model.prior, "bound_token_kl", "prior"),
        (model.prior, "statistics", "codebook"),
        (model.prior, "observe", "codebook"),
        (torch.autograd, "grad", "backward"),
        (training_step, "_clip", "clip"),
        (training_step.optimizer, "step", "optimiser"),
    ]
    if model.head:
        methods.append((model.head, "forward", "causal head"))
    if training_step.average:
        methods.append((training_step.average, "update", "average"))
    with ExitStack() as stack:
        for owner, name, operation in methods:
            method = add_timer(getattr(owner, name), operation)
            stack.enter_context(mock.patch.object(owner, name, method))
        for _ in range(5):
            step()
        seconds.clear()
        last = time.process_time()
        for _ in range(steps):
            step()
        credit()
    return {operation: value / steps for operation, value in seconds.items()}
