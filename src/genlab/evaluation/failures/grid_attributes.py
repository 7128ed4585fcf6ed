"""Hypotheses about grids, from measured attributes, and what is wrong with a sampled grid."""

from typing import Any

import numpy as np
import pandas as pd
from scipy import ndimage

from genlab.evaluation.failures.error_analysis import Column, Flags, Hypothesis
from genlab.grids.palette import COLOUR_NAMES
from genlab.grids.parser import find_components
from genlab.grids.shapes import KINDS, SHAPES, Grids


def grid_hypotheses(grids: Grids) -> tuple[Column, list[Hypothesis]]:
    """The number of objects of each grid (n, h, w), and what may make a grid fail.

    More objects mean more of everything: grids are compared at an equal number of them. All is
    measured on the connected components, so that it means the same for grids that do not parse;
    none of the sizes holds of a grid without one.
    """
    found, n = find_components(grids), len(grids)
    objects = found.objects
    height, width, cells = (objects[key].astype(int) for key in ("height", "width", "cells"))
    thin, long = np.minimum(height, width), np.maximum(height, width)
    sizes = {"cells": cells, "thin": thin, "long": long, "fill": cells / (height * width)}
    boxes = pd.DataFrame(sizes).groupby(objects["grid"].astype(int))
    least = boxes.min().reindex(range(n), fill_value=grids[0].size + 1)
    most = boxes.max().reindex(range(n), fill_value=0)
    count, coloured = np.bincount(objects["grid"], minlength=n), (grids > 0).sum(axis=(1, 2))
    has = np.stack([(grids == colour).any(axis=(1, 2)) for colour in range(1, 10)], axis=1)
    close = _are_close(found.labels)
    own = [np.where(grids == colour, found.labels, 0) for colour in range(1, 10)]
    alike = np.any([_are_close(labels) for labels in own], axis=0)
    border = grids.copy()
    border[:, 1:-1, 1:-1] = 0
    legal, gap = found.legal, "with a single free cell between them are hard"
    flags: dict[str, tuple[str, Any]] = {
        "many_objects": ("five or more objects are hard", count >= 5),
        "many_cells": (
            "more coloured cells than in three quarters of the grids are hard",
            coloured > np.quantile(coloured, 0.75),
        ),
        "small_object": ("an object of four cells or fewer is hard", least["cells"] < 5),
        "thin_object": ("a straight one-cell line is hard", least["thin"] == 1),
        "sparse_object": (
            "an object that fills less than half of its box is hard",
            least["fill"] < 0.5,
        ),
        "long_object": ("an object of seven cells or longer is hard", most["long"] >= 7),
        "close_neighbours": (f"objects {gap}", close),
        "close_same_colour": (f"objects of one colour {gap}", alike),
        "close_colour_pair": (f"objects of two colours {gap}", close & ~alike),
        "repeated_colour": ("two objects of one colour are hard", count > has.sum(axis=1)),
        "many_colours": ("four or more colours are hard", has.sum(axis=1) >= 4),
        "at_border": ("a coloured cell on the rim is hard", border.any(axis=(1, 2))),
    }
    for index, kind in enumerate(KINDS):
        holds = np.isin(np.arange(n), legal["grid"][legal["kind"] == index])
        flags[f"kind_{kind}"] = (f"{kind_words(kind)} is hard", holds)
    for index, name in enumerate(COLOUR_NAMES[1:]):
        flags[f"colour_{name}"] = (f"{name} is hard", has[:, index])
    return count, [
        Hypothesis(name, sentence, np.asarray(column), within_stratum=name != "many_objects")
        for name, (sentence, column) in flags.items()
    ]


def kind_words(kind: str) -> str:
    """`line_diagonal` as people say it: a diagonal line."""
    first, _, second = kind.partition("_")
    words = f"{first.upper()} {second}" if second == "shape" else f"{second} {first}".strip()
    return f"an {words}" if words[0] in "aeiouL" else f"a {words}"


def describe_faults(grid: Grids) -> list[str]:
    """What is wrong with each component of a grid (h, w) that is no legal shape, in words."""
    found = find_components(grid[None])
    return [_describe(grid, found.labels[0] == 1 + i) for i in np.flatnonzero(~found.valid)]


def _describe(grid: Grids, member: Flags) -> str:
    colours = [COLOUR_NAMES[colour] for colour in np.unique(grid[member])]
    if len(colours) > 1:
        return f"{' and '.join(colours)} touch"
    mask = member[ndimage.find_objects(member.astype(int))[0]]
    alike = [shape for shape in SHAPES if shape.mask.shape == mask.shape]
    if not alike:
        size = f"{mask.shape[0]} x {mask.shape[1]}"
        return f"{colours[0]} component of {size} cells, a size that no shape has"
    off, kind = min((int((shape.mask != mask).sum()), KINDS[shape.kind]) for shape in alike)
    return f"{colours[0]} component {off} cell{'s' * (off > 1)} away from {kind_words(kind)}"


def _are_close(labels: Column) -> Flags:
    """Grids in which at most one free cell lies between two labels, (n,); labels (n, h, w).

    Then a square of side 5 around a cell of one holds a cell of the other.
    """
    empty = np.iinfo(labels.dtype).max
    greatest = ndimage.maximum_filter(labels, (1, 5, 5), mode="constant")
    known = np.where(labels > 0, labels, empty)
    least = ndimage.minimum_filter(known, (1, 5, 5), mode="constant", cval=empty)
    flags: Flags = ((labels > 0) & (greatest != least)).any(axis=(1, 2))
    return flags
