"""Draw images from every sampler of a VAE, over as many processes as there are threads.

One set of draws chooses, against the validation split, the pixel temperature and the best sampler.
Another set, of another seed, is what is reported.
"""

import multiprocessing
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from threadpoolctl import threadpool_limits

from genlab.core import engine, runtime
from genlab.core.errors import GenlabError
from genlab.core.params import Params
from genlab.core.progress import progress
from genlab.datasets.images import Images, load_images
from genlab.evaluation.evaluators.models import load_model
from genlab.vae.models.vae import VAE
from genlab.vae.sampling import samplers

Latents = npt.NDArray[np.float32]

TEMPERATURES = (1.0, 0.9, 0.8, 0.7)
CHOOSING_DRAWS = 2000  # that a temperature and a sampler are chosen by
SEEDS = (1 << 30, 1 << 31)  # added to the seed for draws to choose by and to report: 32 bits count
DIAGNOSTIC = "posterior"  # sees data, so it is never the best sampler
SLOWEST = "rejection"  # takes longer to fit than all the others: first to begin, last waited for
PART = 500  # images that a process decodes at a time

Frechet = Callable[[Images], float]


class Fitted(NamedTuple):
    """A fitted sampler: latents of both seeds, and how it was fitted."""

    latents: tuple[Latents, Latents]
    facts: dict[str, Any]


class SampleSet(NamedTuple):
    """Reported images of one sampler, (s, h, w, c).

    temperature: of the pixels, None for point estimates. validation_frechet: of the draws that
    chose.
    """

    images: Images
    temperature: float | None
    validation_frechet: float
    facts: dict[str, Any]


@contextmanager
def start_sampling(
    params: Params, data: Path, checkpoint: Path, model: VAE
) -> Iterator[Callable[[Frechet], dict[str, SampleSet]]]:
    """Start fitting the samplers in as many processes as there are threads; one on a GPU.

    data: of the stage split. checkpoint: the file of `model`, which the processes load again. Until
    the context is left, this process has one thread. What is drawn does not depend on `threads`.
    The context yields a function that draws from every sampler, given the Fréchet distance of
    images to the validation split; it raises what a sampler's fit raises.
    """
    on_cpu = engine.select_device(params.device).type == "cpu"
    # Not fork: torch has threads. Not a server of forks: nobody would count its seconds.
    context = multiprocessing.get_context("spawn")
    processes = params.threads if on_cpu else 1
    pool = ProcessPoolExecutor(processes, context, _load, (params, data, checkpoint))
    try:
        names = [name for name in samplers.list_names(model) if name != "ancestral"]
        submitted = sorted(names, key=lambda name: name != SLOWEST)
        futures = {name: pool.submit(_fit, name) for name in submitted}
        fits = {name: futures[name] for name in names}
        with engine.torch_threads(1):
            yield partial(_draw, pool, fits, params.seed, model.head is not None)
    except BrokenProcessPool as error:
        raise GenlabError(
            "a process that draws samples was killed; has the memory run out? run again with fewer"
            f" threads than {params.threads}, each of which has a process",
            key="threads",
        ) from error
    finally:
        runtime.kill_pool(pool)


def _draw(
    pool: ProcessPoolExecutor,
    fits: Mapping[str, Future[Fitted]],
    seed: int,
    has_head: bool,
    frechet: Frechet,
) -> dict[str, SampleSet]:
    """Choose pixel temperatures where the model has a causal head, then draw what is reported.

    The temperature of posterior draws is chosen by them, that of the other samplers by prior draws.
    """
    sources = {**{name: name for name in fits}, "ancestral": "prior"}  # the same latents

    @cache
    def decode(source: str, draws: int, temperature: float | None) -> Images:
        z = fits[source].result().latents[draws]
        start = seed + SEEDS[draws]
        jobs = [
            pool.submit(_decode, z[row : row + PART], start + row, temperature)
            for row in range(0, len(z), PART)
        ]
        return np.concatenate([job.result() for job in jobs])

    @cache
    def distance(source: str, temperature: float | None) -> float:
        return frechet(decode(source, 0, temperature))

    def choose(source: str) -> float | None:
        return min(TEMPERATURES, key=partial(distance, source)) if has_head else None

    chosen = dict.fromkeys(sources, choose("prior"))
    chosen |= {DIAGNOSTIC: choose(DIAGNOSTIC), "ancestral": 1.0}
    # The slowest fit is waited for last.
    order = sorted(chosen, key=lambda name: name == SLOWEST)
    samples = {}
    for name in progress(order, desc="samples drawn", unit="sampler"):
        source, temperature = sources[name], chosen[name]
        images, facts = decode(source, 1, temperature), fits[source].result().facts
        samples[name] = SampleSet(images, temperature, distance(source, temperature), facts)
    return {name: samples[name] for name in chosen}


def best_sampler(found: Mapping[str, Any]) -> str:
    """The sampler with the least validation distance, by its draws that are not reported."""
    names = [name for name in found if name != DIAGNOSTIC]
    return min(names, key=lambda name: float(found[name].validation_frechet))


_state: dict[str, Any] = {}
"""What the tasks of this process work on: model, train, params."""


def _load(params: Params, data: Path, checkpoint: Path) -> None:
    runtime.follow_parent()
    engine.make_deterministic(params.seed, 1)
    threadpool_limits(1)  # numpy's threads, too, would wait for each other's cores
    model, _ = load_model(checkpoint, params)
    _state.update(model=model, train=load_images(data, "train"), params=params)


def _fit(name: str) -> Fitted:
    params = _state["params"]
    count, seed = params.evaluate.image_samples, params.seed
    sampler = samplers.fit(_state["model"], name, _state["train"], seed, count)
    numbers = zip((min(CHOOSING_DRAWS, count), count), SEEDS, strict=True)
    choosing, reported = (
        samplers.draw_codes(sampler, n, seed + offset).numpy() for n, offset in numbers
    )
    return Fitted((choosing, reported), sampler.facts)


def _decode(z: Latents, seed: int, temperature: float | None) -> Images:
    return samplers.decode(_state["model"], torch.from_numpy(z), seed, temperature)
