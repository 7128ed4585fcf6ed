"""Hypotheses about what makes grids fail, and descriptions of the faults of invalid grids."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy import ndimage

from genlab.evaluation.failures.error_analysis import Column, Flags, Hypothesis
from genlab.grids.palette import COLOUR_NAMES
from genlab.grids.parser import find_components
from genlab.grids.shapes import KINDS, SHAPES, Grids

SIZES = ("many_cells", "small_component", "thin_component", "sparse_component", "long_component")
"""Hypotheses about the sizes of components."""


def grid_hypotheses(grids: Grids) -> tuple[Column, list[Hypothesis]]:
    """Number of components of each grid (n, h, w), and hypotheses about what makes a grid fail.

    More components mean more of everything, and more chances to fail, so grids are compared at the
    same number of components, and this number is no hypothesis.
    Attributes are measured on the connected components, which are the objects of a valid grid, so
    that they are defined for invalid grids as well. A grid without a component has none of the
    attributes of size.
    """
    n = len(grids)
    components = find_components(grids)
    objects = components.objects
    height, width, cells = (objects[key].astype(int) for key in ("height", "width", "cells"))
    sizes = {
        "cells": cells,
        "thin": np.minimum(height, width),
        "long": np.maximum(height, width),
        "fill": cells / (height * width),
    }
    by_grid = pd.DataFrame(sizes).groupby(objects["grid"].astype(int))
    smallest = by_grid.min().reindex(range(n), fill_value=grids[0].size + 1)
    largest = by_grid.max().reindex(range(n), fill_value=0)
    count = np.bincount(objects["grid"], minlength=n)
    coloured = (grids > 0).sum(axis=(1, 2))
    has = np.stack([(grids == colour).any(axis=(1, 2)) for colour in range(1, 10)], axis=1)
    close = _are_close(components.labels)
    labels_by_colour = [np.where(grids == colour, components.labels, 0) for colour in range(1, 10)]
    close_alike = np.any([_are_close(labels) for labels in labels_by_colour], axis=0)
    border = grids.copy()
    border[:, 1:-1, 1:-1] = 0
    legal = components.legal
    gap = "with a single free cell between them are hard"
    flags: dict[str, tuple[str, Any]] = {
        "many_cells": (
            "more coloured cells than in three quarters of the grids are hard",
            coloured > np.quantile(coloured, 0.75),
        ),
        "small_component": ("a component of four cells or fewer is hard", smallest["cells"] < 5),
        "thin_component": ("a component that is one cell wide is hard", smallest["thin"] == 1),
        "sparse_component": (
            "a component that fills less than half of its box is hard",
            smallest["fill"] < 0.5,
        ),
        "long_component": ("a component of seven cells or longer is hard", largest["long"] >= 7),
        "close_neighbours": (f"components {gap}", close),
        "close_same_colour": (f"components of one colour {gap}", close_alike),
        "close_colour_pair": (f"components of two colours {gap}", close & ~close_alike),
        "repeated_colour": ("two components of one colour are hard", count > has.sum(axis=1)),
        "many_colours": ("four or more colours are hard", has.sum(axis=1) >= 4),
        "at_border": ("a coloured cell on the rim is hard", border.any(axis=(1, 2))),
    }
    for index, kind in enumerate(KINDS):
        holds = np.isin(np.arange(n), legal["grid"][legal["kind"] == index])
        flags[f"kind_{kind}"] = (f"{kind_to_words(kind)} is hard", holds)
    for index, name in enumerate(COLOUR_NAMES[1:]):
        flags[f"colour_{name}"] = (f"{name} is hard", has[:, index])
    return count, [
        Hypothesis(name, sentence, np.asarray(column)) for name, (sentence, column) in flags.items()
    ]


def exclude_invalid_by_definition(
    grids: Grids, hypotheses: Sequence[Hypothesis], object_range: tuple[int, int]
) -> list[Hypothesis]:
    """Restrict hypotheses about what makes grids invalid to grids that their attribute leaves open.

    A grid is invalid by definition if its number of components lies outside `object_range`, both
    ends included; such grids are left out of every comparison. So are, from comparisons by SIZES,
    grids with a component of a height, width and number of cells that no shape has, and from
    comparisons by colours, grids with a component of several colours.
    """
    n = len(grids)
    components = find_components(grids)
    objects = components.objects
    count = np.bincount(objects["grid"], minlength=n)
    in_range = (count >= object_range[0]) & (count <= object_range[1])

    def holds_for_all(flags: Flags) -> Flags:
        """Whether a flag of components, (m,), holds for all components of a grid, (n,)."""
        return np.asarray(np.bincount(objects["grid"], weights=~flags, minlength=n) == 0)

    legal_sizes = {(shape.height, shape.width, shape.cells) for shape in SHAPES}
    sizes = objects[["height", "width", "cells"]].tolist()
    labels = np.arange(1, len(objects) + 1)
    highest = ndimage.maximum(grids, components.labels, labels) if len(objects) else labels
    legal_size = holds_for_all(np.array([size in legal_sizes for size in sizes], dtype=np.bool_))
    one_colour = holds_for_all(np.asarray(highest == objects["colour"]))

    def select(name: str) -> Flags:
        if name in SIZES:
            return in_range & legal_size
        return in_range & one_colour if "colour" in name else in_range

    return [replace(hypothesis, compared=select(hypothesis.name)) for hypothesis in hypotheses]


def kind_to_words(kind: str) -> str:
    """Write a kind of shape such as `line_diagonal` in words: a diagonal line."""
    first, _, second = kind.partition("_")
    words = f"{first.upper()} {second}" if second == "shape" else f"{second} {first}".strip()
    return f"an {words}" if words[0] in "aeiouL" else f"a {words}"


def describe_faults(grid: Grids) -> list[str]:
    """Describe what is wrong with each component of a grid (h, w) that is no legal shape."""
    components = find_components(grid[None])
    labels = components.labels[0]
    return [_describe(grid, labels == 1 + i) for i in np.flatnonzero(~components.valid)]


def _describe(grid: Grids, member: Flags) -> str:
    """Describe the fault of the component of the cells `member`, (h, w)."""
    colours = [COLOUR_NAMES[colour] for colour in np.unique(grid[member])]
    if len(colours) > 1:
        return f"{' and '.join(colours)} touch"
    mask = member[ndimage.find_objects(member.astype(int))[0]]
    same_size = [shape for shape in SHAPES if shape.mask.shape == mask.shape]
    if not same_size:
        size = f"{mask.shape[0]} x {mask.shape[1]}"
        return f"{colours[0]} component of {size} cells, a size that no shape has"
    distances = [(int((shape.mask != mask).sum()), KINDS[shape.kind]) for shape in same_size]
    distance, kind = min(distances)
    plural = "s" if distance > 1 else ""
    return f"{colours[0]} component {distance} cell{plural} away from {kind_to_words(kind)}"


def _are_close(labels: Column) -> Flags:
    """Whether at most one free cell lies between two labels of a grid, (n,); labels: (n, h, w).

    If so, the square of side 5 around a cell of one label contains a cell of the other.
    """
    empty = np.iinfo(labels.dtype).max
    greatest = ndimage.maximum_filter(labels, (1, 5, 5), mode="constant")
    without_black = np.where(labels > 0, labels, empty)
    least = ndimage.minimum_filter(without_black, (1, 5, 5), mode="constant", cval=empty)
    flags: Flags = ((labels > 0) & (greatest != least)).any(axis=(1, 2))
    return flags
