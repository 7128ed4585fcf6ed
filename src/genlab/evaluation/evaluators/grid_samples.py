"""Draw grids from every sampler of a model: one set to report, another to choose the sampler by."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from genlab.core import engine
from genlab.core.params import Params
from genlab.vae.models.vae import VAE, Items
from genlab.vae.sampling import samplers

SELECTION_SEED = 1_000_000  # added to the seed of the draws that a sampler is chosen by


def draw_grid_samples(
    model: VAE, train: Items, params: Params
) -> tuple[dict[str, Items], dict[str, Items]]:
    """Fit every sampler to the training grids and draw from it twice, with different seeds.

    Returns the samples to report and those to choose the best sampler by, {sampler: (s, h, w)}.
    """
    seed = params.seed
    fitted = {name: samplers.fit(model, name, train, seed) for name in samplers.list_names(model)}
    draw = partial(samplers.sample_all, model, fitted, params.evaluate.samples)
    with engine.torch_threads(1), ThreadPoolExecutor(params.threads) as pool:
        reported, choosing = pool.map(draw, (seed, seed + SELECTION_SEED))
    return reported, choosing


def choose_sampler(samplers: Mapping[str, Any]) -> str:
    """Choose the sampler with the highest valid rate on the draws for selection.

    samplers: {name: {"selection": {valid_rate, counted}}}. A sampler whose samples do not count is
    chosen only where none of them does.
    """

    def rank(name: str) -> tuple[bool, float]:
        selection = samplers[name]["selection"]
        return selection["counted"], selection["valid_rate"]

    return max(samplers, key=rank)
