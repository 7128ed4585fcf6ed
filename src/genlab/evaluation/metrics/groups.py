"""Reconstruction accuracy of parts of the data: by kind of shape, by number of objects."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.stats import share_interval
from genlab.evaluation.metrics.reconstruction import wrong_cells
from genlab.grids.shapes import KINDS

Grids = npt.NDArray[np.uint8]
Group = dict[str, Any]


def accuracy_by_kind(truth: Grids, predicted: Grids, objects: npt.NDArray[Any]) -> dict[str, Group]:
    """For each kind of shape, the share of its objects whose bounding box came back exactly.

    truth, predicted: (n, h, w); objects: truth's object table. Returns {kind: {value, low, high,
    n}} of the kinds that occur.
    """
    # Summed-area table of wrong cells, so that every object's box costs four look-ups.
    wrong = np.pad((truth != predicted).cumsum(1).cumsum(2), [(0, 0), (1, 0), (1, 0)])
    grid, top, left = (objects[name].astype(np.int64) for name in ("grid", "row", "col"))
    bottom, right = top + objects["height"], left + objects["width"]
    faults = (
        wrong[grid, bottom, right]
        - wrong[grid, top, right]
        - wrong[grid, bottom, left]
        + wrong[grid, top, left]
    )
    return {
        name: _share(faults[objects["kind"] == kind] == 0)
        for kind, name in enumerate(KINDS)
        if (objects["kind"] == kind).any()
    }


def accuracy_by_count(
    truth: Grids, predicted: Grids, objects: npt.NDArray[Any]
) -> dict[str, Group]:
    """For each number of objects, the share of the grids that came back exactly."""
    counts = np.bincount(objects["grid"], minlength=len(truth))
    exact = wrong_cells(truth, predicted) == 0
    return {str(count): _share(exact[counts == count]) for count in np.unique(counts)}


def _share(flags: npt.NDArray[np.bool_]) -> Group:
    right, n = int(flags.sum()), len(flags)
    return {"value": right / n, **share_interval(right, n)}
