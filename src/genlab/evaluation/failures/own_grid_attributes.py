"""Hypotheses about grids of one's own: attributes that grids of any distribution have."""

import numpy as np

from genlab.evaluation.failures.error_analysis import Column, Hypothesis
from genlab.evaluation.metrics.own_grids import find_colour_components
from genlab.grids.palette import BLACK, COLOUR_NAMES, COLOURS, PADDING
from genlab.grids.shapes import Grids


def own_grid_hypotheses(grids: Grids) -> tuple[Column, list[Hypothesis]]:
    """The size class of each grid (n, h, w), and what may make a grid fail.

    A larger grid has more cells that can be wrong: grids are compared within quarters of size. An
    attribute is had by grids above three quarters of their size class.
    """
    n = len(grids)
    cells = (grids != PADDING).sum(axis=(1, 2))
    strata = np.searchsorted(np.quantile(cells, (0.25, 0.5, 0.75)), cells)
    found = find_colour_components(grids)
    count = np.bincount(found.grid, minlength=n)
    single = np.bincount(found.grid[found.cells == 1], minlength=n)
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
    """Pairs of neighbouring cells of different colours, padding apart, (n,)."""
    pairs = ((grids[:, 1:], grids[:, :-1]), (grids[:, :, 1:], grids[:, :, :-1]))
    own = ((a != b) & (a != PADDING) & (b != PADDING) for a, b in pairs)
    edges: Column = sum(different.sum(axis=(1, 2)) for different in own)
    return edges


def _exceed(values: Column, strata: Column) -> Column:
    """Which values lie above the upper quartile of their stratum."""
    flags = np.zeros(len(values), dtype=np.bool_)
    for stratum in np.unique(strata):
        own = strata == stratum
        flags[own] = values[own] > np.quantile(values[own], 0.75)
    return flags
