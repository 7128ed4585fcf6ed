"""Split, describe and load a user's own grids."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.io import read_npz, write_npz
from genlab.core.params.catalogue import Dataset
from genlab.datasets.arc_grids import (
    GRIDS_FILE,
    KIND,
    SPLIT_KIND,
    name_data_file,
    remove_outdated,
)
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
from genlab.grids.shapes import Grids

Numbers = npt.NDArray[np.int64]

FEW_TASKS = 50  # test tasks below which a limit says that intervals are wide
TASKS_FILE = "tasks.npz"
TASKS_KIND = "grid_tasks"


def read_generated_grids(folder: Path) -> Grids:
    """Read the grids that `generate_own_grids` wrote; raise GenlabError where there are none."""
    file = folder / GRIDS_FILE
    command = generate_command(folder)
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
    grids = arrays["grids"]
    rows = assign_splits(arrays["splits"], arrays["tasks"], shares, seed)
    rng = np.random.default_rng(seed)
    rows = {split: rng.permutation(rows[split]) for split in SPLITS}  # neighbours are alike
    splits = {split: grids[rows[split]] for split in rows}
    tasks = {split: arrays["tasks"][rows[split]] for split in rows}
    counts = {split: len(rows[split]) for split in rows}
    data_file = name_data_file(len(grids))
    write_npz(data / data_file, splits, kind=GRIDS_KIND)
    write_npz(data / TASKS_FILE, tasks, kind=TASKS_KIND)
    contents = {split: [grid.tobytes() for grid in splits[split]] for split in splits}
    facts: dict[str, Any] = {
        "count": len(grids),
        "side": grids.shape[1],
        "tasks": {split: len(np.unique(tasks[split])) for split in tasks},
        "duplicates": count_duplicates(contents),
        "splits": {split: describe(splits[split]) for split in splits},
        "limits": describe_task_limits(tasks),
    }
    manifest = {
        "dataset": dataset.name,
        "counts": counts,
        "padding": PADDING,
        "generated": generated,
    }
    write_manifest(data, SPLIT_KIND, [data_file, TASKS_FILE], manifest)
    remove_outdated(data, data_file)
    train = facts["splits"]["train"]
    captions = {
        **counts,
        "black share": train["black_share"],
        "colours of the other cells": train["colours"],
        "cells per grid": train["cells"],
    }
    return SplitSummary(counts, facts, splits["train"][:EXAMPLES], captions)


def describe_task_limits(tasks: Mapping[str, Numbers]) -> list[str]:
    """Describe what splits of these sizes are too small for, a sentence each.

    tasks: the task of each grid, by split.
    """
    limits = describe_limits({split: len(tasks[split]) for split in tasks}, "grids")
    test_tasks = len(np.unique(tasks["test"]))
    if test_tasks < FEW_TASKS:
        limits.append(
            f"Grids of a task are alike: the {test_tasks} test tasks are as many independent parts,"
            " and intervals over them are wide."
        )
    return limits


def describe(grids: Grids) -> dict[str, Any]:
    """Compute statistics of the cells of a split, without padding.

    `black_share`: share of cells. `colours`: shares of the cells that are not black. `cells`:
    shares of grids by their number of cells, rounded up to hundreds.
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
    """Load the task of each grid of a split, (n,); raise GenlabError without a sound file."""
    file = data / TASKS_FILE
    command = split_command(data)
    return read_npz(file, kind=TASKS_KIND, keys=[split], producer_command=command)[split]
