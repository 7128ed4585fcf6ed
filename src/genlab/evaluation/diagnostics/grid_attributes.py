"""Measured attributes of grids, hypotheses about them, and what is wrong with a sampled grid."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import ndimage

from genlab.evaluation.diagnostics.error_analysis import Column, Flags, Hypothesis
from genlab.grids.palette import COLOUR_NAMES
from genlab.grids.parser import find_components
from genlab.grids.shapes import KINDS, LONGEST, SHAPES

Grids = npt.NDArray[np.uint8]

FAR = 5
"""`nearest_gap` says this for five or more free cells."""
ALONE = 16
"""`nearest_gap` of a grid with fewer than two objects: wider than any grid."""


def grid_attributes(grids: Grids, objects: npt.NDArray[Any]) -> dict[str, Column]:
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
    found, n = find_components(grids), len(grids)
    height, width, cells = (found.objects[k].astype(int) for k in ("height", "width", "cells"))
    boxes = pd.DataFrame(
        {
            "cells": cells,
            "thin": np.minimum(height, width),
            "long": np.maximum(height, width),
            "fill": cells / (height * width),
        }
    ).groupby(found.objects["grid"].astype(int))
    count = np.bincount(found.objects["grid"], minlength=n)
    least = boxes.min().reindex(range(n), fill_value=0)
    most = boxes.max().reindex(range(n), fill_value=0)
    gap, same_colour = _nearest(grids, found.labels, count)
    present = np.stack([(grids == colour).any(axis=(1, 2)) for colour in range(10)], axis=1)
    border = grids.copy()
    border[:, 1:-1, 1:-1] = 0
    columns: dict[str, Column] = {
        "object_count": count,
        "foreground_cells": np.count_nonzero(grids, axis=(1, 2)),
        "smallest_cells": least["cells"].to_numpy(),
        "largest_cells": most["cells"].to_numpy(),
        "thinnest": least["thin"].to_numpy(),
        "longest": most["long"].to_numpy(),
        "least_fill": least["fill"].to_numpy(),
        "nearest_gap": gap,
        "nearest_same_colour": same_colour,
        "at_border": np.asarray(border.any(axis=(1, 2))),
        "distinct_colours": present[:, 1:].sum(axis=1),
        "repeated_colour": count > present[:, 1:].sum(axis=1),
    }
    for index, kind in enumerate(KINDS):
        columns[f"kind_{kind}"] = np.isin(range(n), objects["grid"][objects["kind"] == index])
    return columns | {f"colour_{colour}": present[:, colour] for colour in range(1, 10)}


def kind_words(kind: str) -> str:
    """`line_diagonal` as people say it: a diagonal line."""
    first, _, second = kind.partition("_")
    words = f"{first.upper()} {second}" if second == "shape" else f"{second} {first}".strip()
    return f"an {words}" if words[0] in "aeiouL" else f"a {words}"


def _has(attribute: str) -> Any:
    return lambda a: a[attribute]


HYPOTHESES: tuple[Hypothesis, ...] = (
    Hypothesis(
        "many_objects", "five or more objects are hard", lambda a: a["object_count"] >= 5, False
    ),
    Hypothesis(
        "many_cells",
        "more coloured cells than in three quarters of the grids are hard",
        lambda a: a["foreground_cells"] > np.quantile(a["foreground_cells"], 0.75),
    ),
    Hypothesis(
        "small_object",
        "an object of four cells or fewer is hard",
        lambda a: a["smallest_cells"] < 5,
    ),
    Hypothesis("thin_object", "a straight one-cell line is hard", lambda a: a["thinnest"] == 1),
    Hypothesis(
        "sparse_object",
        "an object that fills less than half of its box is hard",
        lambda a: a["least_fill"] < 0.5,
    ),
    Hypothesis(
        "long_object", "an object of seven cells or longer is hard", lambda a: a["longest"] >= 7
    ),
    Hypothesis(
        "close_neighbours",
        "objects with a single free cell between them are hard",
        lambda a: a["nearest_gap"] <= 1,
    ),
    Hypothesis(
        "close_same_colour",
        "objects of one colour with a single free cell between them are hard",
        lambda a: (a["nearest_gap"] <= 1) & a["nearest_same_colour"],
    ),
    Hypothesis(
        "close_colour_pair",
        "objects of two colours with a single free cell between them are hard",
        lambda a: (a["nearest_gap"] <= 1) & ~a["nearest_same_colour"],
    ),
    Hypothesis("repeated_colour", "two objects of one colour are hard", _has("repeated_colour")),
    Hypothesis(
        "many_colours", "four or more colours are hard", lambda a: a["distinct_colours"] >= 4
    ),
    Hypothesis("at_border", "a coloured cell on the rim is hard", _has("at_border")),
    *(
        Hypothesis(f"kind_{kind}", f"{kind_words(kind)} is hard", _has(f"kind_{kind}"))
        for kind in KINDS
    ),
    *(
        Hypothesis(f"colour_{name}", f"{name} is hard", _has(f"colour_{colour}"))
        for colour, name in enumerate(COLOUR_NAMES[1:], start=1)
    ),
)


def stray_cells(grids: Grids) -> npt.NDArray[np.int64]:
    """Cells of each grid that belong to no legal shape, (n,)."""
    found = find_components(grids)
    objects = found.objects[~found.valid]
    sums = np.bincount(objects["grid"], weights=objects["cells"], minlength=len(grids))
    return sums.astype(np.int64)


def faults(grid: Grids) -> list[str]:
    """What is wrong with each component of a grid (h, w) that is no legal shape, in words."""
    found = find_components(grid[None])
    return [_fault(grid, found.labels[0] == label) for label in 1 + np.flatnonzero(~found.valid)]


def _fault(grid: Grids, member: Flags) -> str:
    colours = [COLOUR_NAMES[colour] for colour in np.unique(grid[member])]
    if len(colours) > 1:
        return f"{' and '.join(colours)} touch"
    name, cells = colours[0], int(member.sum())
    mask = member[ndimage.find_objects(member.astype(int))[0]]
    size = f"{mask.shape[0]} x {mask.shape[1]}"
    if cells < min(shape.cells for shape in SHAPES):
        return f"{name} speck of {cells} cell{'s' * (cells > 1)}"
    if max(mask.shape) > LONGEST:
        return f"{name} component of {size}, larger than any shape"
    alike = [shape for shape in SHAPES if shape.mask.shape == mask.shape]
    if not alike:
        return f"{name} component in a box that no shape has, {size}"
    off, kind = min((int((shape.mask != mask).sum()), KINDS[shape.kind]) for shape in alike)
    return f"{name} component {off} cell{'s' * (off > 1)} away from {kind_words(kind)}"


def _nearest(grids: Grids, labels: Column, count: Column) -> tuple[Column, Column]:
    """Free cells between the nearest two components of each grid, and whether they share a colour.

    Two components are at Chebyshev distance d when a square of side 2 d + 1 around a cell of one is
    the smallest that holds a cell of the other.
    """
    gap = np.where(count < 2, ALONE, FAR)
    same = np.zeros(len(grids), dtype=np.bool_)
    left = np.flatnonzero(count >= 2)
    for distance in range(2, FAR + 1):
        hit = left[_neighbours(labels[left], distance)]
        gap[hit] = distance - 1
        for colour in range(1, 10):
            own = np.where(grids[hit] == colour, labels[hit], 0)
            same[hit] |= _neighbours(own, distance)
        left = np.setdiff1d(left, hit)
    return gap, same


def _neighbours(labels: Column, distance: int) -> Flags:
    """Grids in which two labels lie within this distance of each other, (n,)."""
    side = (1, 2 * distance + 1, 2 * distance + 1)
    empty = np.iinfo(labels.dtype).max
    greatest = ndimage.maximum_filter(labels, side, mode="constant")
    least = ndimage.minimum_filter(
        np.where(labels > 0, labels, empty), side, mode="constant", cval=empty
    )
    flags: Flags = ((labels > 0) & (greatest != least)).any(axis=(1, 2))
    return flags
