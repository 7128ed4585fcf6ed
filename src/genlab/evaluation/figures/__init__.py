"""Figures: one style, the ARC palette for grids, the same bytes for the same numbers."""

from genlab.evaluation.figures.boards import data_sheet, image_sheet, reconstructions, samples
from genlab.evaluation.figures.charts import (
    accuracy_by_group,
    beta_skill,
    capacity_curve,
    colour_confusion,
    colour_histogram,
    loss_over_baselines,
    training_curves,
)
from genlab.evaluation.figures.image_charts import (
    image_curves,
    kl_by_latent,
    projection,
    rate_distortion,
)
from genlab.evaluation.figures.pictures import (
    before_after,
    image_reconstructions,
    image_samplers,
    interpolations,
    neighbours,
    traversals,
)

__all__ = [
    "accuracy_by_group",
    "before_after",
    "beta_skill",
    "capacity_curve",
    "colour_confusion",
    "colour_histogram",
    "data_sheet",
    "image_curves",
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
