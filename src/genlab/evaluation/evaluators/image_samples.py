"""Draw images from every sampler of a VAE, in as many processes as there are threads.

One set of draws chooses the pixel temperature and the best sampler on the validation split. Another
set, drawn with another seed, is reported.
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
TEMPERATURE_DRAWS = 2000  # draws that a temperature is chosen by
# Draws that the sampler is chosen by: with 2,000, the distances of two samplers differ by less than
# their errors.
CHOOSING_DRAWS = 6000
CHOOSING, REPORTED = 0, 1  # the two sets of draws
SEEDS = (1 << 30, 1 << 31)  # added to the run's seed for each set; a seed has 32 bits
DIAGNOSTIC = "posterior"  # sees data, so it is never the best sampler
SLOWEST = "rejection"  # to fit: it is started first and waited for last
CHUNK = 500  # images that a process decodes at a time

Frechet = Callable[[Images], float]


class FittedSampler(NamedTuple):
    """Latents of a fitted sampler for both sets of draws, and facts about the fit."""

    latents: tuple[Latents, Latents]
    facts: dict[str, Any]


class SampleSet(NamedTuple):
    """Reported images of one sampler, (s, h, w, c).

    temperature: of the pixels, None for point estimates. validation_frechet: Fréchet distance of
    the other set of draws, which the sampler is chosen by, to the validation split.
    """

    images: Images
    temperature: float | None
    validation_frechet: float
    facts: dict[str, Any]


@contextmanager
def start_sampling(
    params: Params, data: Path, checkpoint: Path, model: VAE
) -> Iterator[Callable[[Frechet], dict[str, SampleSet]]]:
    """Start to fit the samplers in worker processes: one per thread, or a single one on a GPU.

    data: output of stage split. checkpoint: file of `model`, which the workers load again. Within
    the context, this process has one thread. The samples do not depend on `params.threads`. The
    context yields a function that draws from every sampler, given a function for the Fréchet
    distance of images to the validation split; it raises the errors of the samplers' fits.
    """
    on_cpu = engine.select_device(params.device).type == "cpu"
    # Not fork, since torch has threads; not forkserver, whose CPU time nobody would count.
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
    fits: Mapping[str, Future[FittedSampler]],
    seed: int,
    has_head: bool,
    frechet: Frechet,
) -> dict[str, SampleSet]:
    """Choose pixel temperatures, if the model has a causal head, then draw the reported images.

    The temperature of posterior draws is chosen by them, that of the other samplers by prior draws.
    """
    sources = {**{name: name for name in fits}, "ancestral": "prior"}  # both have the same latents

    @cache
    def submit(source: str, draws: int, temperature: float | None, row: int) -> Future[Images]:
        z = fits[source].result().latents[draws][row : row + CHUNK]
        return pool.submit(_decode, z, seed + SEEDS[draws] + row, temperature)

    def decode(
        source: str, draws: int, temperature: float | None, most: int | None = None
    ) -> Images:
        count = len(fits[source].result().latents[draws][:most])
        jobs = [submit(source, draws, temperature, row) for row in range(0, count, CHUNK)]
        return np.concatenate([job.result() for job in jobs])[:count]

    def rough_distance(source: str, temperature: float) -> float:
        return frechet(decode(source, CHOOSING, temperature, TEMPERATURE_DRAWS))

    @cache
    def distance(source: str, temperature: float | None) -> float:
        return frechet(decode(source, CHOOSING, temperature))

    def choose(source: str) -> float | None:
        return min(TEMPERATURES, key=partial(rough_distance, source)) if has_head else None

    chosen = dict.fromkeys(sources, choose("prior"))
    chosen |= {DIAGNOSTIC: choose(DIAGNOSTIC), "ancestral": 1.0}
    # The slowest fit is waited for last.
    order = sorted(chosen, key=lambda name: name == SLOWEST)
    samples = {}
    for name in progress(order, desc="samples drawn", unit="sampler"):
        source = sources[name]
        temperature = chosen[name]
        images = decode(source, REPORTED, temperature)
        facts = fits[source].result().facts
        samples[name] = SampleSet(images, temperature, distance(source, temperature), facts)
    return {name: samples[name] for name in chosen}


def choose_sampler(samples: Mapping[str, SampleSet]) -> str:
    """Choose the sampler with the smallest validation distance, but not the diagnostic one."""
    names = [name for name in samples if name != DIAGNOSTIC]
    return min(names, key=lambda name: float(samples[name].validation_frechet))


_state: dict[str, Any] = {}
"""What a worker process loads once: model, train, params."""


def _load(params: Params, data: Path, checkpoint: Path) -> None:
    """Initialise a worker process."""
    runtime.follow_parent()
    engine.make_deterministic(params.seed, 1)
    threadpool_limits(1)  # numpy's threads too, which would compete for cores
    model, _ = load_model(checkpoint, params)
    _state.update(model=model, train=load_images(data, "train"), params=params)


def _fit(name: str) -> FittedSampler:
    """Fit a sampler and draw the latents of both sets, in a worker process."""
    seed = _state["params"].seed
    count = _state["params"].evaluate.image_samples
    sampler = samplers.fit(_state["model"], name, _state["train"], seed, count)
    choosing_seed, reported_seed = (seed + offset for offset in SEEDS)
    choosing = samplers.draw_codes(sampler, min(CHOOSING_DRAWS, count), choosing_seed)
    reported = samplers.draw_codes(sampler, count, reported_seed)
    return FittedSampler((choosing.numpy(), reported.numpy()), sampler.facts)


def _decode(z: Latents, seed: int, temperature: float | None) -> Images:
    """Decode latents, in a worker process."""
    return samplers.decode(_state["model"], torch.from_numpy(z), seed, temperature)
