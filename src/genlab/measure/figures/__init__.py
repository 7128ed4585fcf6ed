"""Figures: one style, the ARC palette for grids, the same bytes for the same numbers."""

from genlab.measure.figures.boards import (
    data_sheet,
    image_sheet,
    reconstructions,
    samples,
)
from genlab.measure.figures.charts import (
    accuracy_by_group,
    beta_skill,
    capacity_curve,
    colour_confusion,
    colour_histogram,
    loss_over_baselines,
    training_curves,
)

__all__ = [
    "accuracy_by_group",
    "beta_skill",
    "capacity_curve",
    "colour_confusion",
    "colour_histogram",
    "data_sheet",
    "image_sheet",
    "loss_over_baselines",
    "reconstructions",
    "samples",
    "training_curves",
]
