"""What a trained contender offers to be measured, and what contenders share."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from genlab.evaluation.evaluators.image_samples import TEMPERATURES as TEMPERATURES
from genlab.vae.sampling.latents import DrawLatents

Images = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]
Draw = Callable[[int, int], Images]
"""Draw a number of images with a seed."""

VALIDATED = 1_000  # validation images whose likelihood is computed
CENTRED = 1_000  # draws whose mean is the centre of a distribution of latents


@dataclass(frozen=True, eq=False)
class Outcome:
    """A trained contender, as the judge measures it.

    samplers: candidates for the best one. validation_nats: minus the log-likelihood of each image
    over 256 levels, or its bound, (n,); None for a model without one. test: reconstructions of the
    test images, uint8 (n, h, w, c), and their nats, either None where there is none. facts:
    cpu_seconds, sampler_seconds, images_seen, updates, parameters, and others to record.
    """

    samplers: Mapping[str, Draw]
    validation_nats: Floats | None
    test: Callable[[], tuple[Images | None, Floats | None]]
    facts: dict[str, Any]


def shrink(draw: DrawLatents, temperature: float) -> DrawLatents:
    """Scale the deviations of latents from their mean by `temperature`."""
    if temperature == 1:
        return draw
    centre = draw(CENTRED, torch.Generator().manual_seed(0)).mean(0)

    def narrowed(count: int, generator: torch.Generator) -> Tensor:
        return centre + temperature * (draw(count, generator) - centre)

    return narrowed
