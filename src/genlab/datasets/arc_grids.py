"""Generate, split and load datasets of grids that are drawn by `genlab.grids`."""

import os
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

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

KIND = "generated_grids"
SPLIT_KIND = "split_grids"
OBJECTS_KIND = "grid_objects"
GRIDS_FILE = "grids.npz"
OBJECTS_FILE = "objects.npz"
GENERATE = generate_command("arc_grids")


def make_distribution(params: GridParams) -> GridDistribution:
    """Build the distribution that the params describe."""
    return GridDistribution(
        size=params.size,
        min_objects=params.min_objects,
        max_objects=params.max_objects,
        kinds=params.weights,
        spacing=params.spacing,
    )


def generate_grids(name: str, params: Params, folder: Path, count: int | None = None) -> str:
    """Draw grids into `folder`; return a line that summarises them.

    `count` defaults to the param. Writes grids.npz (key grids), objects.npz (key
    objects) and manifest.json; beyond SHARD grids also shards.
    """
    distribution = make_distribution(params.grids)
    count = count or params.grids.count
    generated = AtomicImageGenerator(distribution).generate(min(count, SHARD), params.seed)
    shards: list[str] = []
    unfinished: Path | None = None
    if count > SHARD:
        code = digest_code("shards")
        key = digest_values(
            {**asdict(distribution), "count": count, "seed": params.seed, "code": code}
        )
        unfinished = UNFINISHED / f"{name}-{key[:16]}"
        shards = write_shards(distribution, generated.grids, count, params, unfinished)
        _link_files(shards, unfinished, folder)
    write_npz(folder / GRIDS_FILE, {"grids": generated.grids}, kind=GRIDS_KIND)
    write_npz(folder / OBJECTS_FILE, {"objects": generated.objects}, kind=OBJECTS_KIND)
    facts = {
        "dataset": name,
        "count": count,
        "objects": len(generated.objects),
        "duplicates_dropped": generated.duplicates,
        "seed": params.seed,
        "distribution": asdict(distribution),
    }
    write_manifest(folder, KIND, [GRIDS_FILE, OBJECTS_FILE, *shards], facts)
    if unfinished is not None:  # only now: an error before this line must not lose the shards
        shutil.rmtree(unfinished)
    summary = f"{folder}: {len(generated.grids)} different grids"
    summary += f" ({len(generated.objects)} objects, {generated.duplicates} duplicates dropped)"
    if shards:
        summary += f"; {count - SHARD} grids for training in {len(shards)} shards"
    return summary


def _link_files(names: list[str], source: Path, target: Path) -> None:
    """Put files into another folder as hard links, or as copies where links are not possible."""
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        (target / name).unlink(missing_ok=True)
        try:
            os.link(source / name, target / name)
        except OSError:  # another disk, or one without links
            shutil.copyfile(source / name, target / name)


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
    splits = {split: grids[rows] for split, rows in indices.items()}
    tables = {split: take_objects(objects, rows, count) for split, rows in indices.items()}
    contents = {split: [grid.tobytes() for grid in splits[split]] for split in splits}
    duplicates = sum(count_duplicates(contents).values())
    if duplicates:
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
    data_file = name_data_file(generated["count"])
    files = [data_file, OBJECTS_FILE]
    write_npz(data / data_file, splits, kind=GRIDS_KIND)
    write_npz(data / OBJECTS_FILE, tables, kind=OBJECTS_KIND)
    counts = {split: len(splits[split]) for split in splits}
    in_shards = generated["count"] - count
    if in_shards:
        shards = [name for name in generated["sha256"] if name not in (GRIDS_FILE, OBJECTS_FILE)]
        counts["train"] += in_shards
        join_shards(splits["train"], folder, shards, counts["train"], data / TRAIN_FILE)
        files.append(TRAIN_FILE)
    manifest = {
        "dataset": name,
        "counts": counts,
        "objects": {split: len(table) for split, table in tables.items()},
        "duplicates_across_splits": duplicates,
        "generated": generated,
    }
    write_manifest(data, SPLIT_KIND, files, manifest)
    remove_outdated(data, data_file)
    return SplitSummary(counts, facts, splits["train"][:EXAMPLES], _make_captions(facts))


def remove_outdated(data: Path, data_file: str) -> None:
    """Remove data files of an earlier split with another number of grids from the folder `data`."""
    for file in data.glob("simplified_dataset_*.npz"):
        if file.name != data_file:
            file.unlink()


def describe(grids: Grids, objects: Objects) -> dict[str, Any]:
    """Compute statistics of a split; each distribution sums to 1 over its labels.

    `black_share`: share of cells. `mean_objects`: mean number of objects per grid, whose
    distribution over grids is `object_count`. `kinds`, `colours` and `object_cells` (number of
    coloured cells): shares of objects.
    """
    object_counts = np.bincount(objects["grid"], minlength=len(grids))
    kinds = _compute_shares(objects["kind"], range(len(KINDS)))
    return {
        "count": len(grids),
        "black_share": float((grids == BLACK).mean()),
        "mean_objects": float(object_counts.mean()),
        "object_count": _compute_shares(object_counts),
        "kinds": dict(zip(KINDS, kinds.values(), strict=True)),
        "colours": _compute_shares(objects["colour"], range(1, COLOURS)),
        "object_cells": _compute_shares(objects["cells"]),
    }


def _compute_shares(values: npt.NDArray[Any], labels: range | None = None) -> dict[str, float]:
    """Share of each label; by default of all values from the minimum to the maximum."""
    labels = labels or range(int(values.min()), int(values.max()) + 1)
    counts = np.bincount(values, minlength=labels.stop)
    return {str(label): float(counts[label] / len(values)) for label in labels}


def _make_captions(facts: dict[str, Any]) -> dict[str, Any]:
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
    """Name the data file of `count` grids: `simplified_dataset_100k.npz`, `..._2500.npz`."""
    short = f"{count // 1000}k" if count % 1000 == 0 else str(count)
    return f"simplified_dataset_{short}.npz"


def find_data_file(path: str | Path) -> Path:
    """Return the data file at `path`: the file itself, or the only one in that folder.

    Raises a GenlabError for a folder that does not hold exactly one.
    """
    folder = Path(path)
    if not folder.is_dir():
        return folder
    files = sorted(folder.glob("simplified_dataset_*.npz"))
    if len(files) != 1:
        names = ", ".join(file.name for file in files) or "none"
        fault = f"must hold one simplified_dataset_*.npz, found {names}"
        raise file_error(folder, fault, _producer_command(folder))
    return files[0]


def find_joined_file(file: Path) -> Path | None:
    """Return the TRAIN_FILE that belongs to a data file, None where there is none.

    It belongs to the data file where the manifest beside them lists both.
    """
    manifest_file = file.parent / MANIFEST_FILE
    if not manifest_file.is_file():
        return None
    manifest = read_json(manifest_file, producer_command=_producer_command(file))
    if not isinstance(manifest, dict) or manifest.get("kind") != SPLIT_KIND or not file.is_file():
        return None
    checksums = manifest["sha256"]
    if TRAIN_FILE not in checksums or checksums.get(file.name) != sha256(file):
        return None
    return file.parent / TRAIN_FILE


def load_split(path: str | Path, split: str, size: int | None = None) -> Grids:
    """Load one split, uint8 (n, size, size), of the data file at `path`, or in the folder `path`.

    Where there are shards, the training split is mapped from disk, read-only. With `size=None`
    any square will do. Raises a GenlabError for a missing, truncated or foreign file, and for
    another shape or type, no grids, or a value that is no colour 0 to 9.
    """
    file = find_data_file(path)
    joined = find_joined_file(file) if split == "train" else None
    if joined:
        file = joined
        grids = map_npy(file, producer_command=_producer_command(file))
    else:
        grids = _read(file, None, split, _producer_command(file))
    side = size or (grids.shape[-1] if grids.ndim else 0)
    if grids.dtype != np.uint8 or grids.shape[1:] != (side, side) or not grids.size:
        fault = f"must hold uint8 (n, {side}, {side}), got {grids.dtype} {grids.shape}"
        raise file_error(file, fault, _producer_command(file))
    limit = COLOURS + 1 if _is_padded(file.parent) else COLOURS
    if grids.max() >= limit:
        grid, row, col = np.unravel_index(np.argmax(grids >= limit), grids.shape)
        colour = grids[grid, row, col]
        fault = f"has colour {colour} at row {row}, column {col} of grid {grid}"
        raise file_error(file, fault, _producer_command(file))
    return grids


def _is_padded(folder: Path) -> bool:
    """Whether the grids of a folder are a user's own, where smaller ones are padded by PADDING."""
    file = folder / MANIFEST_FILE
    if not file.is_file():
        return False
    manifest = read_json(file, producer_command=_producer_command(folder))
    return isinstance(manifest, dict) and "padding" in manifest


def load_objects(path: str | Path, split: str) -> Objects:
    """Load the objects of one split, OBJECT_DTYPE (m,), from the dataset's folder or data file."""
    return _read(_find_folder(path) / OBJECTS_FILE, OBJECTS_KIND, split, _producer_command(path))


def bound_entropy_nats(path: str | Path, split: str, count: int) -> Floats:
    """Compute `grid_nats` of the `count` grids of one split: (count,).

    Their mean is an upper bound on the entropy of the data.
    """
    manifest = read_manifest(_find_folder(path), SPLIT_KIND, _producer_command(path))
    distribution = GridDistribution(**manifest["generated"]["distribution"])
    return grid_nats(load_objects(path, split), distribution, count)


def _producer_command(path: str | Path) -> str:
    dataset = _find_folder(path).name
    staged = Path("results", dataset, "params.json").is_file()
    return split_command(path, dataset if staged else "arc_grids")


def _find_folder(path: str | Path) -> Path:
    return Path(path) if Path(path).is_dir() else Path(path).parent


def _read(file: Path, kind: str | None, key: str, command: str) -> npt.NDArray[Any]:
    return read_npz(file, kind=kind, keys=[key], producer_command=command)[key]
