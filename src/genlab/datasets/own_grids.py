"""Grids of one's own: how they are split, described and loaded."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.io import read_npz, write_npz
from genlab.core.params.catalogue import Dataset
from genlab.datasets.arc_grids import GRIDS_FILE, KIND, SPLIT_KIND, name_data_file
from genlab.datasets.manifests import generate_command, read_manifest, split_command, write_manifest
from genlab.datasets.shards import GRIDS_KIND
from genlab.datasets.splits import (
    EXAMPLES,
    SPLITS,
    SplitSummary,
    assign_splits,
    count_duplicates,
    describe_limits,
)
from genlab.grids.palette import BLACK, COLOURS, PADDING

Grids = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]

FEW_TASKS = 50  # of the test split, below which its intervals are said to be wide
TASKS_FILE, TASKS_KIND = "tasks.npz", "grid_tasks"


def read_generated_grids(folder: Path) -> Grids:
    """The grids that `generate_own_grids` wrote. Raises GenlabError where they are not there."""
    file, command = folder / GRIDS_FILE, generate_command(folder)
    return read_npz(file, kind=GRIDS_KIND, keys=["grids"], producer_command=command)["grids"]


def split_own_grids(
    dataset: Dataset, shares: Mapping[str, float], folder: Path, data: Path, seed: int
) -> SplitSummary:
    """Split the generated grids of `folder` into `data`; all grids of a task share a split.

    Writes simplified_dataset_COUNT.npz and tasks.npz (keys train, val, test), manifest.json.
    """
    command = generate_command(folder)
    generated = read_manifest(folder, KIND, command, verify=True)
    keys = ["grids", "tasks", "splits"]
    arrays = read_npz(folder / GRIDS_FILE, kind=GRIDS_KIND, keys=keys, producer_command=command)
    grids, tasks = arrays["grids"], arrays["tasks"]
    rows = assign_splits(arrays["splits"], tasks, shares, seed)
    rng = np.random.default_rng(seed)
    rows = {split: rng.permutation(rows[split]) for split in SPLITS}  # neighbours are alike
    parts = {split: grids[chosen] for split, chosen in rows.items()}
    counts = {split: len(part) for split, part in parts.items()}
    file = name_data_file(len(grids))
    write_npz(data / file, parts, kind=GRIDS_KIND)
    groups = {split: tasks[chosen] for split, chosen in rows.items()}
    write_npz(data / TASKS_FILE, groups, kind=TASKS_KIND)
    facts: dict[str, Any] = {
        "count": len(grids),
        "side": grids.shape[1],
        "tasks": {split: len(np.unique(own)) for split, own in groups.items()},
        "duplicates": count_duplicates(
            {split: [grid.tobytes() for grid in part] for split, part in parts.items()}
        ),
        "splits": {split: describe(part) for split, part in parts.items()},
        "limits": describe_task_limits(groups),
    }
    manifest = {
        "dataset": dataset.name,
        "counts": counts,
        "padding": PADDING,
        "generated": generated,
    }
    write_manifest(data, SPLIT_KIND, [file, TASKS_FILE], manifest)
    for other in data.glob("simplified_dataset_*.npz"):
        if other.name != file:  # of another count
            other.unlink()
    train = facts["splits"]["train"]
    captions = {
        **counts,
        "black share": train["black_share"],
        "colours of the other cells": train["colours"],
        "cells per grid": train["cells"],
    }
    return SplitSummary(counts, facts, parts["train"][:EXAMPLES], captions)


def describe_task_limits(tasks: Mapping[str, Numbers]) -> list[str]:
    """What splits of these sizes cannot carry, a sentence each. tasks: of each grid, by split."""
    limits = describe_limits({split: len(own) for split, own in tasks.items()}, "grids")
    if (test_tasks := len(np.unique(tasks["test"]))) < FEW_TASKS:
        limits.append(
            f"Grids of a task are alike: the {test_tasks} test tasks are as many independent parts,"
            " and intervals over them are wide."
        )
    return limits


def describe(grids: Grids) -> dict[str, Any]:
    """Statistics of a split's own cells, without padding.

    `black_share` of cells; `colours`: shares of those that are not black; `cells`: shares of grids
    by their number of cells, up to the next hundred.
    """
    cells = np.bincount(grids.ravel(), minlength=PADDING + 1)[:COLOURS]
    coloured = cells[BLACK + 1 :]
    sizes = np.ceil((grids != PADDING).sum(axis=(1, 2)) / 100).astype(int) * 100
    return {
        "count": len(grids),
        "black_share": float(cells[BLACK] / cells.sum()),
        "colours": {
            str(colour): float(number / max(1, coloured.sum()))
            for colour, number in enumerate(coloured, BLACK + 1)
        },
        "cells": {
            f"to {size}": float((sizes == size).mean()) for size in np.unique(sizes).tolist()
        },
    }


def load_tasks(data: Path, split: str) -> Numbers:
    """The task of each grid of a split, (n,). Raises GenlabError for a missing or foreign file."""
    file, command = data / TASKS_FILE, split_command(data)
    return read_npz(file, kind=TASKS_KIND, keys=[split], producer_command=command)[split]
