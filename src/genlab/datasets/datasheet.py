"""What a data set of grids is made of, in numbers: the facts of its data sheet."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.stats import mean_interval
from genlab.grids.distribution import GridDistribution
from genlab.grids.entropy import grid_nats
from genlab.grids.palette import BLACK, COLOURS
from genlab.grids.shapes import KINDS

BOOTSTRAP = 2000

Grids = npt.NDArray[np.uint8]
Objects = npt.NDArray[np.void]


def describe(grids: Grids, objects: Objects) -> dict[str, Any]:
    """Shares, each distribution summing to 1 over its labels.

    `black_share` and `cell_colours` are shares of cells; `object_count` is one of grids; `kinds`,
    `colours`, `object_cells` (coloured cells) and `object_sides` (longer side of the box) are
    shares of objects. `mean_objects` and `mean_object_cells` are means.
    """
    count = np.bincount(objects["grid"], minlength=len(grids))
    longer = np.maximum(objects["height"], objects["width"])
    return {
        "count": len(grids),
        "black_share": float((grids == BLACK).mean()),
        "mean_objects": float(count.mean()),
        "mean_object_cells": float(objects["cells"].mean()),
        "object_count": _shares(count),
        "kinds": {
            kind: float((objects["kind"] == index).mean()) for index, kind in enumerate(KINDS)
        },
        "colours": _shares(objects["colour"], range(1, COLOURS)),
        "cell_colours": _shares(grids.reshape(-1), range(COLOURS)),
        "object_cells": _shares(objects["cells"]),
        "object_sides": _shares(longer),
    }


def entropy_facts(
    objects: Objects, distribution: GridDistribution, count: int, seed: int
) -> dict[str, Any]:
    """Upper bound on the entropy of a grid, nats, from a sample of `count` grids with `objects`."""
    nats = grid_nats(objects, distribution, count)
    return {
        "data_entropy_bound_nats": float(nats.mean()),
        "data_entropy_bound_interval": mean_interval(nats, bootstrap=BOOTSTRAP, seed=seed),
    }


def picture_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """What of `facts` (the content of data.json) the data sheet's picture shows."""
    train = facts["splits"]["train"]
    charts = {
        "objects a grid": train["object_count"],
        "object kinds": train["kinds"],
        "object colours": train["colours"],
        "cells an object": train["object_cells"],
    }
    return {
        "grids": facts["count"],
        "black share": train["black_share"],
        "nats a grid, at most": facts["data_entropy_bound_nats"],
        **charts,
    }


def _shares(values: npt.NDArray[Any], labels: range | None = None) -> dict[str, float]:
    """Share of each label; without `labels`, of all values from the least to the greatest."""
    if labels is None:
        labels = range(int(values.min()), int(values.max()) + 1)
    number = np.bincount(values, minlength=labels.stop)
    return {str(label): float(number[label] / len(values)) for label in labels}
