"""What a data set of grids is made of, in numbers: the facts of its data sheet."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.grids.entropy import compressor_nats, program_entropy
from genlab.grids.generator import GridDistribution
from genlab.grids.palette import BLACK, COLOURS
from genlab.grids.shapes import KINDS

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
    grids: Grids, sample: Grids, objects: Objects, program: GridDistribution
) -> dict[str, Any]:
    """How much information a grid holds, nats: the program's bound on `sample`, whose objects are
    `objects`, and what a general compressor needs for all `grids`.
    """
    bound = program_entropy(sample, objects, program)
    return {
        "data_entropy_bound_nats": bound.mean,
        "program_entropy_interval": {"low": bound.low, "high": bound.high, "n": len(sample)},
        "compressor_nats": compressor_nats(grids),
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
