"""Metrics of grids whose distribution nobody knows: code lengths, components, novelty."""

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

VALUES = COLOURS + 1  # with padding
SMOOTHING = 0.5  # added to each count of a table
NEIGHBOURS = np.array([np.zeros((3, 3)), [[0, 1, 0], [1, 1, 1], [0, 1, 0]], np.zeros((3, 3))])
"""Cells of one grid that touch at a side, among (n, height, width)."""
SIZES = (1, 2, 3, 5, 9, 17, 33, 65, 129)
"""Least cells of the classes that components are sorted into by size."""
MOST_COMPONENTS = 40  # more in a grid count as this


def context_nats(train: Grids, test: Grids) -> Floats:
    """Nats of each test grid under a table of counts given the cells to the left and above, (n,).

    The table is that of the training grids, padding included, each count raised by SMOOTHING.
    """
    codes = _context(train) * VALUES + train
    counts = np.bincount(codes.ravel(), minlength=(VALUES + 1) ** 2 * VALUES) + SMOOTHING
    table = counts.reshape(-1, VALUES)
    logs = np.log(table / table.sum(axis=1, keepdims=True))
    nats: Floats = -logs[_context(test), test].sum(axis=(1, 2))
    return nats


def _context(grids: Grids) -> Numbers:
    """Number of the pair of values to the left of and above each cell; VALUES beyond the canvas."""
    framed = np.pad(grids.astype(np.int64), [(0, 0), (1, 0), (1, 0)], constant_values=VALUES)
    return framed[:, 1:, :-1] * (VALUES + 1) + framed[:, :-1, 1:]


def code_lengths(
    neg_elbo: Floats, context: Floats, grids: Grids, groups: Numbers, *, bootstrap: int, seed: int
) -> dict[str, Any]:
    """−ELBO and the table's nats per cell of the grids themselves, with intervals over groups.

    neg_elbo, context: (n,), nats per grid; padding costs nats, and is no cell.
    """
    cells = (grids != PADDING).sum(axis=(1, 2))
    terms = np.column_stack([neg_elbo, context, cells]).astype(np.float64)
    sums = bootstrap_sums(terms, bootstrap=bootstrap, seed=seed, groups=groups)
    names = ("neg_elbo_per_cell", "context_nats_per_cell")
    drawn = {name: sums[:, column] / sums[:, 2] for column, name in enumerate(names)}
    point = terms.sum(axis=0)
    return {
        **{name: float(point[column] / point[2]) for column, name in enumerate(names)},
        "context_nats": float(context.mean()),
        "intervals": percentile_intervals(drawn, len(np.unique(groups))),
    }


class ColourComponents(NamedTuple):
    """Connected cells of one colour that is not black, of all grids: grid, colour, cells, (m,)."""

    grid: Numbers
    colour: Numbers
    cells: Numbers


def find_colour_components(grids: Grids) -> ColourComponents:
    """Find all components of grids (n, h, w); cells touch at their sides."""
    parts = []
    for colour in range(BLACK + 1, COLOURS):
        labels, count = ndimage.label(grids == colour, structure=NEIGHBOURS)
        inside = np.flatnonzero(labels)
        cells = np.bincount(labels.ravel()[inside], minlength=count + 1)[1:]
        first = np.zeros(count + 1, dtype=np.int64)
        first[labels.ravel()[inside][::-1]] = inside[::-1]
        parts.append((first[1:] // grids[0].size, np.full(count, colour), cells))
    grid, colours, cells = (np.concatenate(column) for column in zip(*parts, strict=True))
    return ColourComponents(grid, colours, cells)


def component_distances(grids: Grids, others: Grids) -> dict[str, float]:
    """Total variations between two sets of grids, 0 to 1.

    `component_number`: of grids by their number of components; `component_size` and
    `component_colour`: of components by size and by colour. Where one side has none, 1.
    """
    sides = [(find_colour_components(side), len(side)) for side in (grids, others)]

    def distance(counts: list[Numbers]) -> float:
        totals = [count.sum() for count in counts]
        if not all(totals):
            return float(any(totals))
        shares = [count / total for count, total in zip(counts, totals, strict=True)]
        return float(0.5 * np.abs(shares[0] - shares[1]).sum())

    numbers = [
        np.bincount(
            np.minimum(np.bincount(found.grid, minlength=n), MOST_COMPONENTS),
            minlength=MOST_COMPONENTS + 1,
        )
        for found, n in sides
    ]
    sizes = [
        np.bincount(np.searchsorted(SIZES, found.cells, side="right"), minlength=len(SIZES) + 1)
        for found, _ in sides
    ]
    colours = [np.bincount(found.colour, minlength=COLOURS) for found, _ in sides]
    return {
        "component_number": distance(numbers),
        "component_size": distance(sizes),
        "component_colour": distance(colours),
    }


def novelty(samples: Grids, train: Grids) -> dict[str, Any]:
    """Share of samples that are no training grid, with Wilson's interval."""
    seen = {grid.tobytes() for grid in train}
    new = sum(grid.tobytes() not in seen for grid in samples)
    interval = wilson_interval(new, len(samples))
    return {"novelty": new / len(samples), "intervals": {"novelty": interval}}
