"""Hypotheses about the user's own grids: attributes that grids of any distribution have."""

import numpy as np

from genlab.evaluation.failures.error_analysis import Column, Flags, Hypothesis
from genlab.evaluation.metrics.own_grids import find_colour_components
from genlab.grids.palette import BLACK, COLOUR_NAMES, COLOURS, PADDING
from genlab.grids.shapes import Grids


def own_grid_hypotheses(grids: Grids) -> tuple[Column, list[Hypothesis]]:
    """Size class of each grid (n, h, w), and hypotheses about what makes a grid fail.

    A larger grid has more cells that can be wrong, so grids are compared within quarters by size. A
    grid has an attribute if it exceeds three quarters of its size class.
    """
    n = len(grids)
    cells = (grids != PADDING).sum(axis=(1, 2))
    strata = np.searchsorted(np.quantile(cells, (0.25, 0.5, 0.75)), cells)
    components = find_colour_components(grids)
    count = np.bincount(components.grid, minlength=n)
    single = np.bincount(components.grid[components.cells == 1], minlength=n)
    has = np.stack([(grids == colour).any(axis=(1, 2)) for colour in range(COLOURS)], axis=1)
    black = (grids == BLACK).sum(axis=(1, 2)) / cells
    edges = _count_edges(grids) / cells
    measured = {
        "many_components": ("with more components", count),
        "single_cells": ("with more single cells", single),
        "many_colours": ("with more colours", has.sum(axis=1)),
        "little_black": ("with less black", -black),
        "many_edges": ("with more borders of colours per cell", edges),
    }
    claims = [
        Hypothesis(
            name,
            f"grids {words} than three quarters of their size are hard",
            _exceed(values, strata),
        )
        for name, (words, values) in measured.items()
    ]
    claims.append(
        Hypothesis(
            "large",
            "grids of more cells than three quarters of all are hard",
            cells > np.quantile(cells, 0.75),
            within_stratum=False,
        )
    )
    for colour, name in enumerate(COLOUR_NAMES):
        claims.append(Hypothesis(f"colour_{name}", f"{name} is hard", has[:, colour]))
    return strata, claims


def _count_edges(grids: Grids) -> Column:
    """Count the pairs of neighbouring cells of different colours, without padding, (n,)."""
    vertical = _differ(grids[:, 1:], grids[:, :-1])
    horizontal = _differ(grids[:, :, 1:], grids[:, :, :-1])
    edges: Column = vertical.sum(axis=(1, 2)) + horizontal.sum(axis=(1, 2))
    return edges


def _differ(cells: Grids, neighbours: Grids) -> Flags:
    """Which pairs of cells have different colours; padding has none."""
    flags: Flags = (cells != neighbours) & (cells != PADDING) & (neighbours != PADDING)
    return flags


def _exceed(values: Column, strata: Column) -> Column:
    """Which values lie above the upper quartile of their stratum."""
    flags = np.zeros(len(values), dtype=np.bool_)
    for stratum in np.unique(strata):
        members = strata == stratum
        flags[members] = values[members] > np.quantile(values[members], 0.75)
    return flags
