"""Figures as PNG files, in one style; the same numbers give the same bytes."""

from genlab.evaluation.figures.boards import (
    draw_colour_histograms,
    draw_data_sheet,
    draw_grid_board,
    draw_reconstructions,
    draw_samples,
)
from genlab.evaluation.figures.curves import draw_training_curves
from genlab.evaluation.figures.image_grids import (
    draw_image_pairs,
    draw_image_samplers,
    draw_image_sheet,
    draw_image_walks,
)

__all__ = [
    "draw_colour_histograms",
    "draw_data_sheet",
    "draw_grid_board",
    "draw_image_pairs",
    "draw_image_samplers",
    "draw_image_sheet",
    "draw_image_walks",
    "draw_reconstructions",
    "draw_samples",
    "draw_training_curves",
]
