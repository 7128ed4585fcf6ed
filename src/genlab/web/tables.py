"""The tables of the pages, as HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from genlab.evaluation.reports.formats import value, words
from genlab.web import browse
from genlab.web.changes import Change, Leaf
from genlab.web.components.look import Column, Markup, picture, table

MOST = 40
"""Rows of a table of changes: after a change of params thousands of numbers differ."""


def changes(found: Sequence[Change]) -> str:
    """What changed since the last commit, the largest change first."""
    columns = [
        Column("file", "Metrics of"),
        Column("name", "Number"),
        Column("before", "Committed", number=True),
        Column("after", "Now", number=True),
        Column("relative", "Change", number=True),
    ]
    rows = [
        {
            "file": words(change.file),
            "name": words(change.name),
            "before": _leaf(change.before),
            "after": _leaf(change.after),
            "relative": "" if change.relative is None else f"{100 * change.relative:+.3g} %",
        }
        for change in found[:MOST]
    ]
    more = f", the {MOST} largest" if len(found) > MOST else ""
    return table(columns, rows, f"{len(found)} numbers differ{more}")


def _leaf(found: Leaf) -> str | None:
    return None if found is None else value(found)


def objects(found: npt.NDArray[np.void], caption: str) -> str:
    """Objects of a grid: kind, colour, place, size, cells."""
    columns = [
        Column("name", "Kind"),
        Column("colour", "Colour"),
        Column("place", "Row, column"),
        Column("size", "Size"),
        Column("cells", "Cells", number=True),
    ]
    return table(columns, browse.object_rows(found), caption)


def tile(data: browse.Grids | browse.Images, index: int) -> Markup:
    """An item of the data with its number, and its class where it has one."""
    if isinstance(data, browse.Images):
        name = data.names[data.labels[index]]
        return picture(data.images[index], f"image {index}, {name}", f"{index} · {name}", 84)
    return picture(data.grids[index], browse.describe_grid(data, index), str(index))


def shares_in_words(name: str, shares: Mapping[str, float]) -> str:
    """A distribution for those who don't see its chart."""
    return f"{name}: " + ", ".join(f"{key} {share:.1%}" for key, share in shares.items())
