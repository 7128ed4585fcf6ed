"""Image data sets: made once from their source, then shared out to train, val and test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.io import read_npz, sha256, write_json, write_npz
from genlab.core.params import ImageParams, Params
from genlab.datasets.emoji import open_emoji
from genlab.datasets.image_files import (
    LABELS_FILE,
    LABELS_KIND,
    MANIFEST_FILE,
    SPLIT_KIND,
    SPLITS,
    VERSION,
    Images,
    Labels,
    Shape,
    Tally,
    checked_header,
    checked_labels,
    generate_command,
    read_manifest,
    rows,
    write_images,
)
from genlab.datasets.sources import Source, open_celeba, open_cifar10, open_idx
from genlab.datasets.splits import Shared, split_groups

MANIFEST_KIND = "generated_images"
PICTURED = 64
SOURCES: dict[str, Callable[[str, ImageParams], Source]] = {
    "mnist": open_idx,
    "fashion_mnist": open_idx,
    "cifar10": open_cifar10,
    "celeba": open_celeba,
    "emoji": open_emoji,
}


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a data set as stage generate left it: file, and label and group of each image."""

    file: Path
    shape: Shape
    labels: Labels
    groups: Labels


def make_images(name: str, labels: tuple[str, ...], params: Params, folder: Path) -> str:
    """Read data set `name` from its source and write it to `folder`; returns a line about it.

    Writes `train.npy` and `test.npy` (or `all.npy`, where there is no official test split), uint8
    (n, height, width, channels); `labels.npz` with each part's labels and, under `PART_groups`, its
    groups, both int64 (n,); `manifest.json` last.
    """
    source = SOURCES[name](name, params.images)
    arrays: dict[str, Labels] = {}
    for part, images in source.parts.items():
        count = len(images.labels)
        groups = np.arange(count) if images.groups is None else images.groups
        write_images(folder / f"{part}.npy", count, images.shape, images.chunks())
        arrays |= {part: images.labels, f"{part}_groups": groups}
    write_npz(folder / LABELS_FILE, arrays, kind=LABELS_KIND)
    counts = {part: len(images.labels) for part, images in source.parts.items()}
    files = [f"{part}.npy" for part in counts] + [LABELS_FILE]
    manifest = {
        "kind": MANIFEST_KIND,
        "version": VERSION,
        "dataset": name,
        "counts": counts,
        "shape": list(next(iter(source.parts.values())).shape),
        "labels": list(labels),
        "source": source.origin,
        "sha256": {file: sha256(folder / file) for file in files},
    }
    write_json(folder / MANIFEST_FILE, manifest)
    return f"{folder}: " + ", ".join(f"{n} images ({part})" for part, n in counts.items())


def share_images(name: str, params: Params, folder: Path, data: Path, seed: int) -> Shared:
    """Share the images of `folder` out, and write `data`; returns what is to be said of them.

    An official test split stays as it is, in its order; train and val are drawn from the rest by
    seed, in groups, and keep the official order. Writes `train.npy`, `val.npy`, `test.npy`, uint8
    (n, height, width, channels), `labels.npz` (keys train, val, test) and `manifest.json` last.
    """
    manifest, parts = _read_generated(folder)
    producer_command = generate_command(name)
    chosen = _chosen(parts, params.images, seed)
    tallies: dict[str, Tally] = {}
    for split, (part, indices) in chosen.items():
        chunks = rows(part.file, indices, producer_command)
        tallies[split] = write_images(data / f"{split}.npy", len(indices), part.shape, chunks)
    labels = {split: part.labels[indices] for split, (part, indices) in chosen.items()}
    write_npz(data / LABELS_FILE, labels, kind=LABELS_KIND)
    names = manifest["labels"]
    facts: dict[str, Any] = {
        "dataset": name,
        "counts": {split: len(part) for split, part in labels.items()},
        "shape": manifest["shape"],
        "channel_mean": tallies["train"].mean,
        "channel_std": tallies["train"].std,
        "class_counts": {split: _class_counts(part, names) for split, part in labels.items()},
        "duplicates": duplicates({split: tally.hashes for split, tally in tallies.items()}),
    }
    written = [*(f"{split}.npy" for split in SPLITS), LABELS_FILE]
    record = {
        "kind": SPLIT_KIND,
        "version": VERSION,
        **{key: facts[key] for key in ("dataset", "counts", "shape")},
        "labels": names,
        "channel_mean": facts["channel_mean"],
        "channel_std": facts["channel_std"],
        "seed": seed,
        "sha256": {file: sha256(data / file) for file in written},
        "generated": manifest,
    }
    write_json(data / MANIFEST_FILE, record)
    return Shared(
        facts["counts"], facts, _pictured(chosen["train"], producer_command), picture_facts(facts)
    )


def _read_generated(folder: Path) -> tuple[dict[str, Any], dict[str, Part]]:
    """The manifest and the parts of the folder that `make_images` wrote, with checksums checked."""
    producer_command = generate_command(folder)
    keys = ("counts", "shape", "labels", "sha256")
    file = folder / MANIFEST_FILE
    manifest = read_manifest(file, MANIFEST_KIND, keys, producer_command)
    names = list(manifest["counts"])
    keys_of_labels = [*names, *(f"{part}_groups" for part in names)]
    path = folder / LABELS_FILE
    arrays = read_npz(
        path, kind=LABELS_KIND, keys=keys_of_labels, producer_command=producer_command
    )
    parts = {}
    for part in names:
        shape, _ = checked_header(folder / f"{part}.npy", producer_command)
        classes = len(manifest["labels"])
        labels = checked_labels(arrays[part], path, shape[0], classes, producer_command)
        parts[part] = Part(folder / f"{part}.npy", shape[1:], labels, arrays[f"{part}_groups"])
    for name, expected in manifest["sha256"].items():
        if sha256(folder / name) != expected:
            raise GenlabError(
                f"{folder / name}: not the file that {file.name} describes (its checksum differs);"
                f" make both again with: {producer_command}"
            )
    return manifest, parts


def _chosen(
    parts: dict[str, Part], params: ImageParams, seed: int
) -> dict[str, tuple[Part, Labels]]:
    """Which images of which part make each split."""
    if "all" in parts:
        everything = parts["all"]
        shares = {"val": params.val_share, "test": params.test_share}
        indices = split_groups(everything.groups, shares, seed)
        # Neighbours in a font are of one kind: shuffled, the first n of a split stand for it.
        rng = np.random.default_rng(seed)
        return {split: (everything, rng.permutation(indices[split])) for split in SPLITS}
    train, test = parts["train"], parts["test"]
    drawn = split_groups(train.groups, {"val": params.val_share}, seed)
    return {
        "train": (train, drawn["train"]),
        "val": (train, drawn["val"]),
        "test": (test, np.arange(len(test.labels))),
    }


def duplicates(hashes: dict[str, list[bytes]]) -> dict[str, int]:
    """Images that stand more than once: surplus copies inside each split, and, under `A_in_B`, how
    many images of A stand in B too.
    """
    splits = {name: np.array(values, dtype="S16") for name, values in hashes.items()}
    inside = {name: len(values) - len(np.unique(values)) for name, values in splits.items()}
    across = {
        f"{later}_in_{earlier}": int(np.isin(splits[later], splits[earlier]).sum())
        for earlier, later in combinations(splits, 2)
    }
    return {**inside, **across}


def picture_facts(facts: dict[str, Any]) -> dict[str, Any]:
    """What of `facts` (the content of data.json) stands over the sheet of images."""
    colours = ("grey",) if facts["shape"][2] == 1 else ("red", "green", "blue")
    means = dict(zip(colours, facts["channel_mean"], strict=True))
    return {
        **facts["counts"],
        **{f"mean {colour}": value for colour, value in means.items()},
    }


def _class_counts(labels: Labels, names: list[str]) -> dict[str, int]:
    counted: npt.NDArray[Any] = np.bincount(labels, minlength=len(names))
    return {name: int(count) for name, count in zip(names, counted, strict=True)}


def _pictured(chosen: tuple[Part, Labels], producer_command: str) -> Images:
    """Images from all over the split, at equal distances."""
    part, indices = chosen
    places = np.linspace(0, len(indices) - 1, min(PICTURED, len(indices))).astype(int)
    return np.concatenate(list(rows(part.file, indices[places], producer_command)))
