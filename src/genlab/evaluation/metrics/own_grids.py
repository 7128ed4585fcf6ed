"""Metrics of grids of unknown distribution: code lengths, components, novelty."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import ndimage

from genlab.core.stats import (
    Floats,
    bootstrap_sums,
    percentile_intervals,
    wilson_interval,
)
from genlab.grids.palette import BLACK, COLOURS, PADDING
from genlab.grids.shapes import Grids

Numbers = npt.NDArray[np.int64]

VALUES = COLOURS + 1  # the colours, and padding
SMOOTHING = 0.5  # added to each count of the table
NEIGHBOURS = np.array([np.zeros((3, 3)), [[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.zeros((3, 3))])
"""Cells that touch at a side, for `ndimage.label` of grids (n, height, width)."""
SIZES = (1, 2, 3, 5, 9, 17, 33, 65, 129)
"""Smallest number of cells of each size class of components."""
MAX_COMPONENTS = 40  # a grid with more components counts as one with this many


def context_nats(train: Grids, test: Grids) -> Floats:
    """Negative log likelihood in nats of each test grid, (n,), under a table of counts.

    The table predicts a cell from the cells to its left and above it. It counts the training grids,
    padding included, and adds SMOOTHING to each count.
    """
    codes = _encode_context(train) * VALUES + train
    counts = np.bincount(codes.ravel(), minlength=(VALUES + 1) ** 2 * VALUES) + SMOOTHING
    table = counts.reshape(-1, VALUES)
    logs = np.log(table / table.sum(axis=1, keepdims=True))
    nats: Floats = -logs[_encode_context(test), test].sum(axis=(1, 2))
    return nats


def _encode_context(grids: Grids) -> Numbers:
    """Encode the values to the left of and above each cell as one number.

    A neighbour outside the canvas has the value VALUES.
    """
    padded = np.pad(grids.astype(np.int64), [(0, 0), (1, 0), (1, 0)], constant_values=VALUES)
    return padded[:, 1:, :-1] * (VALUES + 1) + padded[:, :-1, 1:]


def code_lengths(
    neg_elbo: Floats, context: Floats, grids: Grids, groups: Numbers, *, bootstrap: int, seed: int
) -> dict[str, Any]:
    """−ELBO and `context_nats` per cell, with 95 % bootstrap intervals over groups.

    neg_elbo, context: (n,) nats per grid; they include padding, which does not count as cells.
    groups: (n,), the task of each grid. Returns `neg_elbo_per_cell`, `context_nats_per_cell`,
    `context_nats` (the mean per grid) and `intervals`.
    """
    cells = (grids != PADDING).sum(axis=(1, 2))
    terms = np.column_stack([neg_elbo, context, cells]).astype(np.float64)
    sums = bootstrap_sums(terms, bootstrap=bootstrap, seed=seed, groups=groups)
    names = ("neg_elbo_per_cell", "context_nats_per_cell")
    resampled = {name: sums[:, column] / sums[:, 2] for column, name in enumerate(names)}
    total = terms.sum(axis=0)
    return {
        **{name: float(total[column] / total[2]) for column, name in enumerate(names)},
        "context_nats": float(context.mean()),
        "intervals": percentile_intervals(resampled, len(np.unique(groups))),
    }


class ColourComponents(NamedTuple):
    """Connected regions of one colour other than black, as columns of shape (m,).

    grid: index of the grid. colour. cells: their number.
    """

    grid: Numbers
    colour: Numbers
    cells: Numbers


def find_colour_components(grids: Grids) -> ColourComponents:
    """Find the components of grids (n, h, w), whose cells touch at their sides."""
    grid_columns = []
    colour_columns = []
    cell_columns = []
    for colour in range(BLACK + 1, COLOURS):
        labels, count = ndimage.label(grids == colour, structure=NEIGHBOURS)
        positions = np.flatnonzero(labels)
        components = labels.ravel()[positions]
        # Assigned in reverse, so that the first cell of each component remains.
        first_cells = np.zeros(count + 1, dtype=np.int64)
        first_cells[components[::-1]] = positions[::-1]
        grid_columns.append(first_cells[1:] // grids[0].size)
        colour_columns.append(np.full(count, colour))
        cell_columns.append(np.bincount(components, minlength=count + 1)[1:])
    return ColourComponents(
        np.concatenate(grid_columns), np.concatenate(colour_columns), np.concatenate(cell_columns)
    )


def component_distances(grids: Grids, others: Grids) -> dict[str, float]:
    """Total variation distances between the components of two sets of grids, in [0, 1].

    `component_number` compares grids by their number of components; `component_size` and
    `component_colour` compare components by size and by colour. A distance is 1 where only one set
    has components.
    """
    first = _count_components(grids)
    second = _count_components(others)
    return {name: _total_variation(first[name], second[name]) for name in first}


def novelty(samples: Grids, train: Grids) -> dict[str, Any]:
    """Fraction of samples that are no training grid, with Wilson's interval."""
    train_grids = {grid.tobytes() for grid in train}
    new = sum(grid.tobytes() not in train_grids for grid in samples)
    interval = wilson_interval(new, len(samples))
    return {"novelty": new / len(samples), "intervals": {"novelty": interval}}


def _count_components(grids: Grids) -> dict[str, Numbers]:
    """Histograms of grids by number of components, and of components by size and by colour."""
    components = find_colour_components(grids)
    numbers = np.bincount(components.grid, minlength=len(grids))
    sizes = np.searchsorted(SIZES, components.cells, side="right")
    return {
        "component_number": np.bincount(
            np.minimum(numbers, MAX_COMPONENTS), minlength=MAX_COMPONENTS + 1
        ),
        "component_size": np.bincount(sizes, minlength=len(SIZES) + 1),
        "component_colour": np.bincount(components.colour, minlength=COLOURS),
    }


def _total_variation(counts: Numbers, others: Numbers) -> float:
    """Half the L1 distance of two normalised histograms; 1 where only one is empty, 0 for both."""
    total = counts.sum()
    other_total = others.sum()
    if not (total and other_total):
        return float(bool(total or other_total))
    return float(0.5 * np.abs(counts / total - others / other_total).sum())
