"""Figures as PNG files, in one style; the same numbers give the same bytes."""

from genlab.evaluation.figures.boards import data_sheet, reconstructions, samples
from genlab.evaluation.figures.curves import (
    capacity_curve,
    colour_confusion,
    colour_histogram,
    kl_by_latent,
    loss_over_baselines,
    projection,
    rate_distortion,
    training_curves,
)
from genlab.evaluation.figures.image_grids import (
    image_reconstructions,
    image_samplers,
    image_sheet,
    interpolations,
    neighbours,
    traversals,
)

__all__ = [
    "capacity_curve",
    "colour_confusion",
    "colour_histogram",
    "data_sheet",
    "image_reconstructions",
    "image_samplers",
    "image_sheet",
    "interpolations",
    "kl_by_latent",
    "loss_over_baselines",
    "neighbours",
    "projection",
    "rate_distortion",
    "reconstructions",
    "samples",
    "training_curves",
    "traversals",
]
