"""Stages generate and split of the image datasets: read once from their source, then split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from genlab.core.io import read_npz, write_npz
from genlab.core.params import ImageParams, Params
from genlab.datasets.emoji import open_emoji
from genlab.datasets.image_files import (
    LABELS_FILE,
    LABELS_KIND,
    SPLIT_KIND,
    Images,
    Labels,
    open_images,
    write_images,
)
from genlab.datasets.manifests import generate_command, read_manifest, write_manifest
from genlab.datasets.sources import Source, open_celeba, open_cifar10, open_mnist
from genlab.datasets.splits import EXAMPLES, SPLITS, SplitSummary, count_duplicates, split_groups

KIND = "generated_images"
SOURCES: dict[str, Callable[[str, ImageParams], Source]] = {
    "mnist": open_mnist,
    "fashion_mnist": open_mnist,
    "cifar10": open_cifar10,
    "celeba": open_celeba,
    "emoji": open_emoji,
}


@dataclass(frozen=True, eq=False)
class Part:
    """A part of a generated dataset: its file, and label and group of each image, int64 (n,)."""

    file: Path
    labels: Labels
    groups: Labels

    def read(self, indices: Labels, rows: slice | Labels) -> Images:
        """The images `indices[rows]`, in memory."""
        images = open_images(self.file, generate_command(self.file.parent))
        return np.asarray(images[indices[rows]])


def generate_images(name: str, labels: tuple[str, ...], params: Params, folder: Path) -> str:
    """Read dataset `name` from its source and write it to `folder`; returns a line about it.

    Writes `train.npy` and `test.npy` (or `all.npy`, where there is no official test split), uint8
    (n, height, width, channels); `labels.npz` with each part's labels and, under `PART_groups`, its
    groups, both int64 (n,); `manifest.json` last.
    """
    source = SOURCES[name](name, params.images)
    arrays: dict[str, Labels] = {}
    for part, images in source.parts.items():
        count = len(images.labels)
        write_images(folder / f"{part}.npy", count, images.shape, images.read)
        groups = np.arange(count) if images.groups is None else images.groups
        arrays |= {part: images.labels, f"{part}_groups": groups}
    write_npz(folder / LABELS_FILE, arrays, kind=LABELS_KIND)
    counts = {part: len(images.labels) for part, images in source.parts.items()}
    facts = {
        "dataset": name,
        "counts": counts,
        "shape": list(next(iter(source.parts.values())).shape),
        "labels": list(labels),
        "source": source.origin,
    }
    write_manifest(folder, KIND, [*(f"{part}.npy" for part in counts), LABELS_FILE], facts)
    return f"{folder}: " + ", ".join(f"{n} images ({part})" for part, n in counts.items())


def split_images(name: str, params: Params, folder: Path, data: Path, seed: int) -> SplitSummary:
    """Split the generated images of `folder` into `data`.

    An official test split stays as it is, in its order; train and val are drawn from the rest by
    seed, in groups, and keep the official order. Writes `train.npy`, `val.npy`, `test.npy`, uint8
    (n, height, width, channels), `labels.npz` (keys train, val, test) and `manifest.json` last.
    """
    manifest, parts = _read_generated(folder)
    shape, names = manifest["shape"], manifest["labels"]
    chosen = _choose(parts, params.images, seed)
    statistics = {
        split: write_images(
            data / f"{split}.npy", len(indices), tuple(shape), partial(part.read, indices)
        )
        for split, (part, indices) in chosen.items()
    }
    labels = {split: part.labels[indices] for split, (part, indices) in chosen.items()}
    write_npz(data / LABELS_FILE, labels, kind=LABELS_KIND)
    mean, std = statistics["train"].mean_and_std()
    facts: dict[str, Any] = {
        "dataset": name,
        "counts": {split: len(part) for split, part in labels.items()},
        "shape": shape,
        "channel_mean": mean,
        "channel_std": std,
    }
    record = {**facts, "labels": names, "seed": seed, "generated": manifest}
    write_manifest(data, SPLIT_KIND, [*(f"{s}.npy" for s in SPLITS), LABELS_FILE], record)
    facts["class_counts"] = {
        split: dict(zip(names, np.bincount(part, minlength=len(names)).tolist(), strict=True))
        for split, part in labels.items()
    }
    facts["duplicates"] = count_duplicates({s: found.hashes for s, found in statistics.items()})
    channels = ("grey",) if shape[2] == 1 else ("red", "green", "blue")
    means = zip(channels, mean, strict=True)
    captions = {**facts["counts"], **{f"mean {channel}": value for channel, value in means}}
    return SplitSummary(facts["counts"], facts, _examples(*chosen["train"]), captions)


def _read_generated(folder: Path) -> tuple[dict[str, Any], dict[str, Part]]:
    """The manifest and the parts that `generate_images` wrote, with checksums verified."""
    command = generate_command(folder)
    manifest = read_manifest(folder, KIND, command, verify=True)
    keys = [key for part in manifest["counts"] for key in (part, f"{part}_groups")]
    file = folder / LABELS_FILE
    arrays = read_npz(file, kind=LABELS_KIND, keys=keys, producer_command=command)
    parts = {
        part: Part(folder / f"{part}.npy", arrays[part], arrays[f"{part}_groups"])
        for part in manifest["counts"]
    }
    return manifest, parts


def _choose(
    parts: dict[str, Part], params: ImageParams, seed: int
) -> dict[str, tuple[Part, Labels]]:
    """Which images of which part make each split."""
    if "all" in parts:
        part = parts["all"]
        shares = {"val": params.val_share, "test": params.test_share}
        indices = split_groups(part.groups, shares, seed)
        # Neighbours in a font are of one kind: shuffled, the first n of a split represent it.
        rng = np.random.default_rng(seed)
        return {split: (part, rng.permutation(indices[split])) for split in SPLITS}
    train, test = parts["train"], parts["test"]
    drawn = split_groups(train.groups, {"val": params.val_share}, seed)
    return {
        "train": (train, drawn["train"]),
        "val": (train, drawn["val"]),
        "test": (test, np.arange(len(test.labels))),
    }


def _examples(part: Part, indices: Labels) -> Images:
    """Images at equal distances in the split."""
    places = np.linspace(0, len(indices) - 1, min(EXAMPLES, len(indices))).astype(int)
    return part.read(indices, places)
