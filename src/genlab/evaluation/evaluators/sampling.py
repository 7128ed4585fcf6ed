"""Draw images from every sampler of a VAE; the rejection sampler runs in a subprocess.

`accepted` takes as long as all other measuring of a model: it draws four images for each that is
wanted, learns from them, and then rejects most of what it draws.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from genlab.core import engine, runtime
from genlab.core.errors import GenlabError
from genlab.core.params import Params
from genlab.core.progress import progress
from genlab.datasets.images import load_images
from genlab.evaluation.evaluators.base import load_model
from genlab.vae.models.vae import VAE
from genlab.vae.sampling import samplers

Images = npt.NDArray[np.uint8]
SLOW = "accepted"


class SampleSet(NamedTuple):
    """Images from one sampler, (s, h, w, c), and how it was fitted."""

    images: Images
    facts: dict[str, Any]


Collect = Callable[[Images], dict[str, SampleSet]]
"""Draw from each sampler, in the order of reports, given the training images."""


@contextmanager
def start_sampling(params: Params, data: Path, checkpoint: Path, model: VAE) -> Iterator[Collect]:
    """Start the slow sampler in a subprocess, where there is a second thread for it.

    data: of the stage split. checkpoint: the file of `model`, which the subprocess loads again.
    Until the context is left, this process has one thread less. Numbers depend on `threads`, as
    all do. What the context yields raises what a sampler's fit raises.
    """
    names = samplers.names(model)
    single = params.threads == 1 or engine.device(params.device).type != "cpu"
    here = [name for name in names if single or name != SLOW]

    def draw_here(train: Images) -> dict[str, SampleSet]:
        bar = progress(here, desc="draws", unit="sampler")
        return {name: _draw(model, name, train, params) for name in bar}

    if len(here) == len(names):
        yield draw_here
        return
    context = multiprocessing.get_context("spawn")  # not fork: torch has threads
    pool = ProcessPoolExecutor(1, mp_context=context)
    slow = pool.submit(_draw_slow, params, data, checkpoint)

    def draw_all(train: Images) -> dict[str, SampleSet]:
        found = draw_here(train)
        try:
            found[SLOW] = slow.result()
        except BrokenProcessPool as error:
            raise GenlabError(
                f"the process that draws by {SLOW} was killed; has the memory run out? run again"
                " with threads: 1, which starts none",
                key="threads",
            ) from error
        return {name: found[name] for name in names}

    try:
        torch.set_num_threads(params.threads - 1)
        yield draw_all
    finally:
        torch.set_num_threads(params.threads)
        runtime.end(pool)


def _draw(model: VAE, name: str, train: Images, params: Params) -> SampleSet:
    count, seed = params.evaluate.image_samples, params.seed
    sampler = samplers.fit(model, name, train, seed, count)
    return SampleSet(samplers.sample(model, sampler, count, seed), sampler.facts)


def _draw_slow(params: Params, data: Path, checkpoint: Path) -> SampleSet:
    engine.deterministic(params.seed, 1)
    model, _ = load_model(checkpoint, params)
    return _draw(model, SLOW, load_images(data, "train"), params)
