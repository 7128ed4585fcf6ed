"""Did an image VAE learn, and if not, what ails it? Rules over numbers only.

No rule speaks of pixels, levels or a side: they compare ratios, nats, and errors against the data's
own variance, so that they mean the same at 28 and at 64 pixels, grey or in colour. Where a
threshold was calibrated, it was on the 10,000 test images of Fashion-MNIST: on their projections
onto k principal components of the training images ("PCA-k"), on blurred ones, and on eight MLP VAEs
of 32 latents. Numbers that are None or not finite fail a criterion, and prove no disease but `nan`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genlab.evaluation.diagnostics.grids import Metrics

Series = Mapping[str, Sequence[float | None]]

LEVELS = 256


@dataclass(frozen=True)
class Thresholds:
    """The judge's numbers. They live here, out of the reach of what is judged."""

    skill: float = 0.7
    """Least share of the mean image's squared error that is gone: what PCA-8 reaches."""
    ssim: float = 0.6
    """Least SSIM of reconstructions: PCA-32 has 0.62, PCA-16 0.53."""
    active_share: float = 0.05
    """Least share of latents that must be active: fewer, and the code is made of dead weight."""
    kl_nats: float = 1.0
    """Least KL: it bounds what z tells of x, and a nat tells no three images apart."""
    over_floor: float = 60.0
    """Greatest Fréchet distance over the floor; 60 normals on a small MLP VAE came to 44."""
    recall: float = 0.2
    """Least share of real images among the samples' neighbours: below, most kinds are missing."""
    near_duplicate_rate: float = 0.05
    """Greatest share of near-copies; it is 0.01 for new images by construction."""
    skipped_share: float = 0.01
    """Greatest share of updates skipped: a run is not stable by leaving out what hurts."""
    vanished_share: float = 0.1
    """A KL under this share of its early peak has fallen far; at beta 1 it was 0.23 of what it was
    at beta 0, at beta 50 0.01."""
    growth: float = 1.5
    """A KL that grew by half in the last third of a run, with the bound worsening, runs away."""
    sharpness: float = 0.6
    """Least sharpness over the test images': healthy VAEs had 0.66 to 0.78, over-regularised ones
    (SSIM below 0.5) 0.53 and 0.54, PCA-16 0.64, PCA-8 0.58, a blur of one pixel 0.52, the mean
    image 0.38."""
    sigma_over_rmse: float = 0.5
    """Least sigma over the error it stands for: fitted ones had 0.99 to 1.13. At a half, squared
    errors cost 4 times the half nat a pixel that they cost under a fitted sigma."""
    hole_ratio: float = 2.0
    """Fréchet distance of the prior's samples over a fitted sampler's: 1.1 where prior and codes
    agree, 2.4 to 4.8 where a mixture fixes the samples (RAE, 1903.12436, and prototypes)."""
    hole_over_reconstruction: float = 10.0
    """The same over the reconstructions': the codes are good, and sampling loses all of it."""
    moment_share: float = 0.15
    """Greatest share of the KL spent on moments alone: 0.05 to 0.07 at beta 1, 0.24 to 0.27 at 0
    and at 0.01."""


DEFAULT = Thresholds()


def best_sampler(metrics: Metrics) -> str:
    """The sampler that was picked on the validation split."""
    return str(metrics["best_sampler"])


def finite(value: Any) -> float | None:
    """The number, or None for what is none: JSON has null where a number was not finite."""
    return float(value) if value is not None and math.isfinite(value) else None


def below(value: Any, threshold: float) -> bool:
    number = finite(value)
    return number is not None and number < threshold


def above(value: Any, threshold: float) -> bool:
    number = finite(value)
    return number is not None and number > threshold


def ratio(above: Any, below: Any) -> float | None:
    top, bottom = finite(above), finite(below)
    return None if top is None or bottom is None or bottom <= 0 else top / bottom


def difference(one: Any, other: Any) -> float | None:
    left, right = finite(one), finite(other)
    return None if left is None or right is None else left - right


def column(series: Series, name: str) -> list[float]:
    return [math.nan if value is None else float(value) for value in series[name]]


def skipped_share(series: Series) -> float | None:
    """Share of the run's updates that were skipped; None where they were not counted."""
    if "skipped_updates" not in series or "updates" not in series:
        return None
    return ratio(sum(column(series, "skipped_updates")), sum(column(series, "updates")))


def skill(metrics: Metrics) -> float | None:
    """Share of the mean image's squared error that is gone: 1 is exact, 0 the mean image."""
    left = ratio(metrics["mse"], metrics["mean_image_mse"])
    return None if left is None else 1 - left
