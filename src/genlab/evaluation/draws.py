"""What each sampler draws of an image model, the slowest one in a process of its own.

`accepted` takes as long as all other measuring of a model: it draws four images for each that is
asked, learns from them, and throws most of what it draws then away.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tqdm import tqdm

from genlab.core import engine
from genlab.core import runtime as processes
from genlab.core.errors import GenlabError
from genlab.core.params import Params
from genlab.datasets.image_files import load_images
from genlab.evaluation.run import EvaluationPaths, read_trained
from genlab.vae.models.vae import VAE
from genlab.vae.sampling import samplers

Images = npt.NDArray[np.uint8]
APART = "accepted"


@dataclass(frozen=True)
class Figure:
    """What a sampler drew, (s, h, w, c), and how it was fitted."""

    images: Images
    facts: Mapping[str, Any] = field(default_factory=dict)


class Draws:
    """The draws of every sampler of a model; `begun` starts the slow one."""

    def __init__(self, params: Params, apart: Future[Figure] | None) -> None:
        self._params = params
        self._apart = apart

    def all(self, model: VAE, train: Images) -> dict[str, Figure]:
        """What each sampler drew, in the order of reports. Raises what a sampler's fit raises."""
        names = samplers.names(model)
        drawn = {}
        with tqdm(sorted(names, key=APART.__eq__), desc="draws", unit="sampler") as bar:
            for name in bar:  # the slow one comes last
                bar.set_postfix_str(name)
                if self._apart is None or name != APART:
                    drawn[name] = _drawn(model, name, train, self._params)
                else:
                    drawn[name] = _arrived(self._apart)
        return {name: drawn[name] for name in names}


@contextmanager
def begun(params: Params, folders: EvaluationPaths, model: VAE) -> Iterator[Draws]:
    """Start what is drawn apart, where there is a second thread for it.

    Until it is left, this process has one thread less. Numbers depend on `threads`, as all do.
    """
    alone = params.threads == 1 or engine.device(params.device).type != "cpu"
    if alone or APART not in samplers.names(model):
        yield Draws(params, None)
        return
    context = multiprocessing.get_context("spawn")  # not fork: torch has threads
    pool = ProcessPoolExecutor(1, mp_context=context, initializer=_quiet)
    try:
        apart = pool.submit(_drawn_apart, params, folders)
        torch.set_num_threads(params.threads - 1)
        yield Draws(params, apart)
    finally:
        torch.set_num_threads(params.threads)
        processes.end(pool)


def _arrived(apart: Future[Figure]) -> Figure:
    try:
        return apart.result()
    except BrokenProcessPool as error:
        raise GenlabError(
            f"the process that draws by {APART} was killed; has the memory run out? run again with"
            " threads: 1, which starts none"
        ) from error


def _drawn(model: VAE, name: str, train: Images, params: Params) -> Figure:
    count, seed = params.evaluate.image_samples, params.seed
    sampler = samplers.fit(model, name, train, seed, count)
    return Figure(samplers.sample(model, sampler, count, seed), sampler.facts)


def _drawn_apart(params: Params, folders: EvaluationPaths) -> Figure:
    engine.deterministic(params.seed, 1)
    model = read_trained(folders, params).model
    return _drawn(model, APART, load_images(folders.data, "train"), params)


def _quiet() -> None:
    """Two bars would write over each other."""
    os.environ["TQDM_DISABLE"] = "1"
