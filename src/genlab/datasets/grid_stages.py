"""Stages generate and split of the generated grids, and the numbers of their data sheet."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.io import read_npz, write_npz
from genlab.core.params import Params
from genlab.core.stats import mean_interval
from genlab.datasets.arc_grids import (
    GENERATE,
    GRIDS_KIND,
    OBJECTS_FILE,
    OBJECTS_KIND,
    draw_grids,
    file_name,
    make_distribution,
)
from genlab.datasets.manifests import read_manifest, write_manifest
from genlab.datasets.splits import EXAMPLES, SplitSummary, count_duplicates, split_indices
from genlab.grids.distribution import GridDistribution
from genlab.grids.entropy import grid_nats
from genlab.grids.generator import take_objects
from genlab.grids.palette import BLACK, COLOURS
from genlab.grids.shapes import KINDS, Grids, Objects

KIND, SPLIT_KIND = "generated_grids", "split_grids"
GRIDS_FILE = "grids.npz"
BOOTSTRAP = 2000


def generate_grids(name: str, params: Params, folder: Path, count: int | None = None) -> str:
    """Draw grids into `folder`; returns a line about them.

    `count` defaults to the param. Writes grids.npz (key grids), objects.npz (key
    objects) and manifest.json.
    """
    distribution = make_distribution(params.grids)
    count = params.grids.count if count is None else count
    draw = draw_grids(distribution, count, params.seed)
    write_npz(folder / GRIDS_FILE, {"grids": draw.grids}, kind=GRIDS_KIND)
    write_npz(folder / OBJECTS_FILE, {"objects": draw.objects}, kind=OBJECTS_KIND)
    facts = {
        "dataset": name,
        "count": count,
        "objects": len(draw.objects),
        "duplicates_dropped": draw.duplicates,
        "seed": params.seed,
        "distribution": asdict(distribution),
    }
    write_manifest(folder, KIND, [GRIDS_FILE, OBJECTS_FILE], facts)
    dropped = f"{draw.duplicates} duplicates dropped"
    return f"{folder}: {count} different grids, {len(draw.objects)} objects ({dropped})"


def read_generated(folder: Path) -> tuple[Grids, Objects, GridDistribution, dict[str, Any]]:
    """Grids, objects, distribution and manifest that `generate_grids` wrote.

    Raises a GenlabError of one line for a file that is missing or is not what the manifest says.
    """
    manifest = read_manifest(folder, KIND, GENERATE, verify=True)
    grids = read_npz(
        folder / GRIDS_FILE, kind=GRIDS_KIND, keys=["grids"], producer_command=GENERATE
    )
    tables = read_npz(
        folder / OBJECTS_FILE, kind=OBJECTS_KIND, keys=["objects"], producer_command=GENERATE
    )
    distribution = GridDistribution(**manifest["distribution"])
    return grids["grids"], tables["objects"], distribution, manifest


def split_grids(name: str, params: Params, folder: Path, data: Path, seed: int) -> SplitSummary:
    """Split the generated grids of `folder` into `data`.

    Writes simplified_dataset_COUNT.npz and objects.npz (keys train, val, test) and manifest.json.
    """
    grids, objects, distribution, generated = read_generated(folder)
    count = len(grids)
    indices = split_indices(count, params.grids.val_share, params.grids.test_share, seed)
    splits = {split: grids[chosen] for split, chosen in indices.items()}
    tables = {split: take_objects(objects, chosen, count) for split, chosen in indices.items()}
    found = count_duplicates({s: [grid.tobytes() for grid in part] for s, part in splits.items()})
    if duplicates := sum(found.values()):
        raise GenlabError(
            f"{folder}: {duplicates} duplicate grids; make it again with: {GENERATE}",
            path=folder,
            fix=GENERATE,
        )
    facts: dict[str, Any] = {
        "count": count,
        "duplicates_dropped": generated["duplicates_dropped"],
        "duplicates_across_splits": duplicates,
        **entropy_facts(tables["test"], distribution, len(splits["test"]), seed),
        "splits": {split: describe(splits[split], tables[split]) for split in splits},
    }
    file = file_name(count)
    write_npz(data / file, splits, kind=GRIDS_KIND)
    write_npz(data / OBJECTS_FILE, tables, kind=OBJECTS_KIND)
    counts = {split: len(part) for split, part in splits.items()}
    manifest = {
        "dataset": name,
        "counts": counts,
        "objects": {split: len(table) for split, table in tables.items()},
        "duplicates_across_splits": duplicates,
        "generated": generated,
    }
    write_manifest(data, SPLIT_KIND, [file, OBJECTS_FILE], manifest)
    return SplitSummary(counts, facts, splits["train"][:EXAMPLES], _captions(facts))


def describe(grids: Grids, objects: Objects) -> dict[str, Any]:
    """Statistics of a split; each distribution sums to 1 over its labels.

    `black_share` and `cell_colours` are shares of cells; `object_count` is one of grids; `kinds`,
    `colours`, `object_cells` (coloured cells) and `object_sides` (longer side of the box) are
    shares of objects. `mean_objects` and `mean_object_cells` are means.
    """
    count = np.bincount(objects["grid"], minlength=len(grids))
    kinds = _shares(objects["kind"], range(len(KINDS)))
    return {
        "count": len(grids),
        "black_share": float((grids == BLACK).mean()),
        "mean_objects": float(count.mean()),
        "mean_object_cells": float(objects["cells"].mean()),
        "object_count": _shares(count),
        "kinds": dict(zip(KINDS, kinds.values(), strict=True)),
        "colours": _shares(objects["colour"], range(1, COLOURS)),
        "cell_colours": _shares(grids.reshape(-1), range(COLOURS)),
        "object_cells": _shares(objects["cells"]),
        "object_sides": _shares(np.maximum(objects["height"], objects["width"])),
    }


def entropy_facts(
    objects: Objects, distribution: GridDistribution, count: int, seed: int
) -> dict[str, Any]:
    """Upper bound on the entropy per grid, nats, from a sample of `count` grids with `objects`."""
    nats = grid_nats(objects, distribution, count)
    return {
        "data_entropy_bound_nats": float(nats.mean()),
        "data_entropy_bound_interval": mean_interval(nats, bootstrap=BOOTSTRAP, seed=seed),
    }


def _captions(facts: dict[str, Any]) -> dict[str, Any]:
    train = facts["splits"]["train"]
    return {
        "grids": facts["count"],
        "black share": train["black_share"],
        "nats per grid, at most": facts["data_entropy_bound_nats"],
        "objects per grid": train["object_count"],
        "object kinds": train["kinds"],
        "object colours": train["colours"],
        "cells per object": train["object_cells"],
    }


def _shares(values: npt.NDArray[Any], labels: range | None = None) -> dict[str, float]:
    """Share of each label; without `labels`, of all values from the minimum to the maximum."""
    if labels is None:
        labels = range(int(values.min()), int(values.max()) + 1)
    number = np.bincount(values, minlength=labels.stop)
    return {str(label): float(number[label] / len(values)) for label in labels}
