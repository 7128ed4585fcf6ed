"""Measured attributes of grids: what a failure can be blamed on."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.grids.parser import find_components
from genlab.grids.shapes import KINDS

Grids = npt.NDArray[np.uint8]
Column = npt.NDArray[Any]
Attributes = Mapping[str, Column]

FAR = 5
"""`nearest_gap` says this for five or more free cells."""
ALONE = 16
"""`nearest_gap` of a grid with fewer than two objects: wider than any grid."""


def attributes(grids: Grids, objects: npt.NDArray[Any]) -> dict[str, Column]:
    """Attributes of each grid (n, h, w), {name: (n,)}; sizes in cells.

    Kinds come from the object table (OBJECT_DTYPE, its `grid` an index into `grids`), all else is
    measured on the connected components, so that it means the same for grids that do not parse:

    - `object_count`, `foreground_cells`, `smallest_cells`, `largest_cells` (0 without objects);
    - `thinnest` (least side of any bounding box: 1 is a straight line), `longest` (greatest side),
      `least_fill` (least share of its bounding box that an object fills);
    - `nearest_gap`: free cells between the two nearest objects, up to FAR; ALONE for one object;
      `nearest_same_colour`: whether a pair at that distance has one colour;
    - `at_border`: a coloured cell on the rim; `distinct_colours`; `repeated_colour`: two objects
      of one colour; `kind_<kind>` and `colour_<number>`: occurs.
    """
    found = find_components(grids)
    n, border = len(grids), grids.copy()
    border[:, 1:-1, 1:-1] = 0
    tables = {name: found.objects[name].astype(np.int64) for name in ("height", "width", "cells")}
    height, width, cells = tables.values()
    grid = found.objects["grid"].astype(np.int64)
    count = np.bincount(grid, minlength=n)
    gap, same_colour = _nearest(grids, found.labels, count)
    present = np.stack([(grids == colour).any(axis=(1, 2)) for colour in range(10)], axis=1)

    def least(values: Column) -> Column:
        return _over_objects(np.minimum, grid, values, n)

    def greatest(values: Column) -> Column:
        return _over_objects(np.maximum, grid, values, n)

    columns: dict[str, Column] = {
        "object_count": count,
        "foreground_cells": np.count_nonzero(grids, axis=(1, 2)),
        "smallest_cells": least(cells),
        "largest_cells": greatest(cells),
        "thinnest": least(np.minimum(height, width)),
        "longest": greatest(np.maximum(height, width)),
        "least_fill": least(cells / (height * width)),
        "nearest_gap": gap,
        "nearest_same_colour": same_colour,
        "at_border": np.asarray(border.any(axis=(1, 2))),
        "distinct_colours": present[:, 1:].sum(axis=1),
        "repeated_colour": count > present[:, 1:].sum(axis=1),
    }
    for index, kind in enumerate(KINDS):
        flags = np.zeros(n, dtype=np.bool_)
        flags[objects["grid"][objects["kind"] == index]] = True
        columns[f"kind_{kind}"] = flags
    for colour in range(1, 10):
        columns[f"colour_{colour}"] = present[:, colour]
    return columns


def _over_objects(ufunc: np.ufunc, grid: Column, values: Column, n: int) -> Column:
    """Least or greatest of a value over the objects of each grid, (n,); 0 without objects."""
    result = np.full(n, np.inf if ufunc is np.minimum else -np.inf)
    ufunc.at(result, grid, values)
    result[np.isinf(result)] = 0.0
    return result if values.dtype.kind == "f" else result.astype(np.int64)


def _nearest(grids: Grids, labels: Column, count: Column) -> tuple[Column, Column]:
    """Free cells between the nearest two components of each grid, and whether they share a colour.

    Two components are at Chebyshev distance d when a cell of one lies d rows or columns from a
    cell of the other and none lies nearer: all shifts of length d are tried, nearest first.
    """
    gap = np.where(count < 2, ALONE, FAR)
    same = np.zeros(len(grids), dtype=np.bool_)
    searched = count >= 2
    for distance in range(2, FAR + 1):
        near, near_same = _pairs_at(grids, labels, distance)
        hit = searched & near
        gap[hit] = distance - 1
        same[hit] = near_same[hit]
        searched &= ~near
    return gap, same


def _pairs_at(grids: Grids, labels: Column, distance: int) -> tuple[Column, Column]:
    """Grids with two components at a shift of this length, and of one colour at that: (n,) each."""
    near = np.zeros(len(grids), dtype=np.bool_)
    same = near.copy()
    for down in range(distance + 1):
        for right in range(-distance, distance + 1):
            # Half of the ring: the other half holds the same pairs the other way round.
            if max(down, abs(right)) != distance or (down == 0 and right < 0):
                continue
            here, there = _shifted(down, right)
            first, second = labels[here], labels[there]
            pairs = (first != second) & (first > 0) & (second > 0)
            near |= pairs.any(axis=(1, 2))
            same |= (pairs & (grids[here] == grids[there])).any(axis=(1, 2))
    return near, same


def _shifted(down: int, right: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Index pairs of cells (row, col) and (row + down, col + right) that both lie in the grid."""
    rows, cols = slice(0, -down or None), slice(max(0, -right), -right if right > 0 else None)
    other_rows = slice(down, None)
    other_cols = slice(max(0, right), right if right < 0 else None)
    return (slice(None), rows, cols), (slice(None), other_rows, other_cols)
