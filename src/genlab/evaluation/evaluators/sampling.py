"""Draw images from every sampler of a VAE; the rejection sampler runs in a subprocess.

`accepted` takes as long as all other measuring of a model: it draws four images for each that is
wanted, learns from them, and then rejects most of what it draws.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from genlab.core import engine, runtime
from genlab.core.errors import GenlabError
from genlab.core.params import Params
from genlab.core.progress import progress as progress_bar
from genlab.datasets.images import load_images
from genlab.evaluation.evaluators.base import load_model
from genlab.vae.models.vae import VAE
from genlab.vae.sampling import samplers

Images = npt.NDArray[np.uint8]
SLOW = "accepted"


@dataclass(frozen=True)
class SampleSet:
    """Images from one sampler, (s, h, w, c), and how it was fitted."""

    images: Images
    facts: Mapping[str, Any] = field(default_factory=dict)


class SamplerRuns:
    """Draws from every sampler of a model, the slow one possibly on its way in a subprocess."""

    def __init__(self, params: Params, slow: Future[SampleSet] | None) -> None:
        self._params = params
        self._slow = slow

    def collect(self, model: VAE, train: Images) -> dict[str, SampleSet]:
        """Draw from each sampler, in the order of reports. Raises what a sampler's fit raises."""
        names = samplers.names(model)
        found = {}
        with progress_bar(sorted(names, key=SLOW.__eq__), desc="draws", unit="sampler") as progress:
            for name in progress:  # the slow one comes last
                progress.set_postfix_str(name)
                if self._slow is None or name != SLOW:
                    found[name] = _draw(model, name, train, self._params)
                else:
                    found[name] = self._await_slow(self._slow)
        return {name: found[name] for name in names}

    @staticmethod
    def _await_slow(slow: Future[SampleSet]) -> SampleSet:
        try:
            return slow.result()
        except BrokenProcessPool as error:
            raise GenlabError(
                f"the process that draws by {SLOW} was killed; has the memory run out? run again"
                " with threads: 1, which starts none",
                key="threads",
            ) from error


@contextmanager
def start_sampling(
    params: Params, data: Path, checkpoint: Path, model: VAE
) -> Iterator[SamplerRuns]:
    """Start the slow sampler in a subprocess, where there is a second thread for it.

    data: of the stage split. checkpoint: the file of `model`, which the subprocess loads again.
    Until the context is left, this process has one thread less. Numbers depend on `threads`, as
    all do.
    """
    single = params.threads == 1 or engine.device(params.device).type != "cpu"
    if single or SLOW not in samplers.names(model):
        yield SamplerRuns(params, None)
        return
    context = multiprocessing.get_context("spawn")  # not fork: torch has threads
    pool = ProcessPoolExecutor(1, mp_context=context, initializer=_disable_progress)
    try:
        slow = pool.submit(_draw_slow, params, data, checkpoint)
        torch.set_num_threads(params.threads - 1)
        yield SamplerRuns(params, slow)
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


def _disable_progress() -> None:
    """Two progress bars would write over each other."""
    os.environ["TQDM_DISABLE"] = "1"
