"""Figures as PNG files, in one style; the same numbers give the same bytes."""

from genlab.evaluation.figures.boards import data_sheet, grid_board, reconstructions, samples
from genlab.evaluation.figures.curves import training_curves
from genlab.evaluation.figures.image_grids import (
    image_pairs,
    image_samplers,
    image_sheet,
    image_walks,
)

__all__ = [
    "data_sheet",
    "grid_board",
    "image_pairs",
    "image_samplers",
    "image_sheet",
    "image_walks",
    "reconstructions",
    "samples",
    "training_curves",
]
