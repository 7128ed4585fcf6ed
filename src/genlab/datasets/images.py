"""Image datasets: written once from their source, split, and loaded as memory-mapped arrays."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.io import atomic_write, file_error, map_npy, read_npz, write_npz
from genlab.core.params.catalogue import Dataset
from genlab.datasets.manifests import (
    MANIFEST_FILE,
    generate_command,
    read_manifest,
    split_command,
    write_manifest,
)
from genlab.datasets.splits import (
    EXAMPLES,
    SPLITS,
    SplitSummary,
    assign_splits,
    count_duplicates,
    describe_limits,
    split_groups,
)

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Shape = tuple[int, int, int]
ANY_SHAPE = (None, None, None)

KIND = "generated_images"
SPLIT_KIND = "split_images"
LABELS_KIND = "image_labels"
LABELS_FILE = "labels.npz"
CHUNK = 2048
"""Number of images in memory at once while a file is written: 25 MB at 64 x 64 x 3."""
LEVELS = 256
UNLABELLED = -1
"""Label of an image without a class."""
NO_CLASS = "no class"


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with labels, int64 (n,); `read(indices)` returns the images (m, *shape) uint8.

    Images of one group (int64 (n,)) must share a split. splits: official splits as indices into
    SPLITS, int64 (n,), -1 where an image has none; None where no image has one.
    """

    shape: Shape
    labels: Labels
    groups: Labels
    read: Callable[[Labels], Images]
    splits: Labels | None = None


@dataclass(frozen=True, eq=False)
class ImageSource:
    """A dataset's images before they are split.

    parts: `train` and `test`, or `all` where there is no official test split. origin: where the
    images come from, in words. facts: further entries of the manifest.
    """

    parts: dict[str, ImageSet]
    origin: str
    facts: Mapping[str, Any] | None = None


def generate_images(
    name: str, labels: tuple[str, ...], source: ImageSource, folder: Path, count: int = 0
) -> str:
    """Write the images of `source` to `folder`; return a line that summarises them.

    count: maximum number of images of each part, evenly spaced in its order; 0 for all.
    Writes `train.npy` and `test.npy` (or `all.npy`, where there is no official test split), uint8
    (n, height, width, channels); `labels.npz` with each part's labels and, under `PART_groups` and
    `PART_splits`, its groups and official splits, int64 (n,); `manifest.json` last.
    """
    counts: dict[str, int] = {}
    arrays: dict[str, Labels] = {}
    for part_name, images in source.parts.items():
        size = len(images.labels)
        counts[part_name] = min(count or size, size)
        chosen = np.arange(counts[part_name]) * size // counts[part_name]
        write_images(folder / f"{part_name}.npy", images, chosen)
        arrays[part_name] = images.labels[chosen]
        arrays[f"{part_name}_groups"] = images.groups[chosen]
        if images.splits is not None:
            arrays[f"{part_name}_splits"] = images.splits[chosen]
    write_npz(folder / LABELS_FILE, arrays, kind=LABELS_KIND)
    facts = {
        "dataset": name,
        "counts": counts,
        "shape": list(next(iter(source.parts.values())).shape),
        "labels": list(labels),
        "source": source.origin,
        **(source.facts or {}),
    }
    files = [f"{part_name}.npy" for part_name in counts]
    write_manifest(folder, KIND, [*files, LABELS_FILE], facts)
    return f"{folder}: " + ", ".join(f"{n} images ({name})" for name, n in counts.items())


def split_images(
    dataset: Dataset, shares: Mapping[str, float], folder: Path, data: Path, seed: int
) -> SplitSummary:
    """Split the generated images of `folder` into `data`.

    An official test split stays as it is, in its order; train and val are drawn from the rest by
    seed, in groups, and keep the official order. shares: of the splits val and test. Writes
    `train.npy`, `val.npy`, `test.npy`, uint8 (n, height, width, channels), `labels.npz` (keys
    train, val, test) and `manifest.json` last.
    """
    manifest, parts = read_generated(folder)
    shape = manifest["shape"]
    classes = manifest["labels"]
    labels: dict[str, Labels] = {}
    levels: dict[str, npt.NDArray[np.int64]] = {}
    hashes: dict[str, list[bytes]] = {}
    chosen = _choose(parts, shares, seed)
    for split, (images, indices) in chosen.items():
        levels[split], hashes[split] = write_images(data / f"{split}.npy", images, indices)
        labels[split] = images.labels[indices]
    write_npz(data / LABELS_FILE, labels, kind=LABELS_KIND)
    mean, std = mean_and_std(levels["train"])
    counts = {split: len(labels[split]) for split in labels}
    facts: dict[str, Any] = {
        "dataset": dataset.name,
        "counts": counts,
        "shape": shape,
        "channel_mean": mean,
        "channel_std": std,
    }
    record = {**facts, "labels": classes, "seed": seed, "generated": manifest}
    write_manifest(data, SPLIT_KIND, [*(f"{s}.npy" for s in SPLITS), LABELS_FILE], record)
    facts["class_counts"] = {split: _count_classes(labels[split], classes) for split in labels}
    facts["duplicates"] = count_duplicates(hashes)
    if dataset.source:
        facts["limits"] = describe_limits(counts, "images")
    channels = ("grey",) if shape[2] == 1 else ("red", "green", "blue")
    means = {f"mean {channel}": value for channel, value in zip(channels, mean, strict=True)}
    train, indices = chosen["train"]
    evenly_spaced = np.linspace(0, len(indices) - 1, min(EXAMPLES, len(indices))).astype(int)
    examples = train.read(indices[evenly_spaced])
    return SplitSummary(counts, facts, examples, {**counts, **means})


def _count_classes(labels: Labels, classes: list[str]) -> dict[str, int]:
    """Number of images of each class, by its name; images without a class are not counted."""
    counts = np.bincount(labels[labels >= 0], minlength=len(classes))
    return dict(zip(classes, counts.tolist(), strict=True))


def read_generated(folder: Path) -> tuple[dict[str, Any], dict[str, ImageSet]]:
    """Read the manifest and the parts that `generate_images` wrote; checksums are verified."""
    command = generate_command(folder)
    manifest = read_manifest(folder, KIND, command, verify=True)
    is_own = "understood" in manifest  # images of a user may have official splits
    suffixes = ("", "_groups", "_splits") if is_own else ("", "_groups")
    keys = [f"{name}{suffix}" for name in manifest["counts"] for suffix in suffixes]
    file = folder / LABELS_FILE
    arrays = read_npz(file, kind=LABELS_KIND, keys=keys, producer_command=command)
    parts = {
        name: ImageSet(
            shape=tuple(manifest["shape"]),
            labels=arrays[name],
            groups=arrays[f"{name}_groups"],
            read=partial(read_rows, folder / f"{name}.npy"),
            splits=arrays.get(f"{name}_splits"),
        )
        for name in manifest["counts"]
    }
    return manifest, parts


def read_rows(file: Path, indices: Labels) -> Images:
    """Read some images of a `.npy` file."""
    # Opened for each chunk: pages of a mapping that stays open count as memory in use.
    return np.asarray(np.lib.format.open_memmap(file, mode="c")[indices])


def _choose(
    parts: dict[str, ImageSet], shares: Mapping[str, float], seed: int
) -> dict[str, tuple[ImageSet, Labels]]:
    """Choose the images of each split: a part, and indices of its images."""
    if "all" in parts:
        images = parts["all"]
        if images.splits is None:
            indices = split_groups(images.groups, shares, seed)
        else:
            indices = assign_splits(images.splits, images.groups, shares, seed)
        # Neighbours in a font or a folder are alike: shuffled, the first n of a split represent it.
        rng = np.random.default_rng(seed)
        return {split: (images, rng.permutation(indices[split])) for split in SPLITS}
    train = parts["train"]
    test = parts["test"]
    drawn = split_groups(train.groups, {"val": shares["val"]}, seed)
    return {
        "train": (train, drawn["train"]),
        "val": (train, drawn["val"]),
        "test": (test, np.arange(len(test.labels))),
    }


def write_images(
    path: Path, images: ImageSet, indices: Labels
) -> tuple[npt.NDArray[np.int64], list[bytes]]:
    """Write the images `indices` as `.npy`, atomically, one chunk in memory at a time.

    Returns the histogram of the levels of each channel, (channels, 256), and a hash of each image.
    """
    levels = np.zeros((images.shape[2], LEVELS), dtype=np.int64)
    hashes: list[bytes] = []
    header = {"descr": "|u1", "fortran_order": False, "shape": (len(indices), *images.shape)}
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for start in range(0, len(indices), CHUNK):
            chunk = images.read(indices[start : start + CHUNK])
            file.write(chunk.tobytes())
            for channel, counts in enumerate(levels):
                counts += np.bincount(chunk[..., channel].ravel(), minlength=LEVELS)
            hashes += [hashlib.blake2b(i.tobytes(), digest_size=16).digest() for i in chunk]
    return levels, hashes


def mean_and_std(levels: npt.NDArray[np.int64]) -> tuple[list[float], list[float]]:
    """Compute mean and standard deviation per channel from histograms, levels scaled to [0, 1].

    levels: (channels, 256).
    """
    values = np.arange(LEVELS) / (LEVELS - 1)
    shares = levels / levels.sum(axis=1, keepdims=True)
    means = shares @ values
    deviations = values - means[:, None]
    return means.tolist(), np.sqrt((shares * deviations**2).sum(axis=1)).tolist()


def load_images(
    path: str | Path, split: str, shape: tuple[int | None, int | None, int | None] = ANY_SHAPE
) -> Images:
    """Load one split of the folder `path`, uint8 (n, height, width, channels), mapped read-only.

    The images must have the `shape`, where it is not None. Raises a GenlabError of one line for a
    missing, truncated or foreign file, and for a folder of another format version.
    """
    file = Path(path) / f"{split}.npy"
    command = split_command(path)
    manifest = read_manifest(file.parent, SPLIT_KIND, command)
    images = map_npy(file, producer_command=command)
    try:
        sides = zip(shape, manifest["shape"], strict=True)
        expected = (
            manifest["counts"][split],
            *(required or recorded for required, recorded in sides),
        )
    except (LookupError, TypeError, ValueError) as error:
        fault = f"does not say how many images {split} has and their shape"
        raise file_error(file.parent / MANIFEST_FILE, fault, command) from error
    if images.dtype != np.uint8 or images.shape != expected:
        fault = f"must hold uint8 {expected}, got {images.dtype} {images.shape}"
        raise file_error(file, fault, command)
    return images


def load_labels(path: str | Path, split: str) -> Labels:
    """Load the labels of one split of the folder `path`, int64 (n,).

    A label is an index into the manifest's `labels`, UNLABELLED for an image without a class.

    Raises a GenlabError for a missing, truncated or foreign file.
    """
    file = Path(path) / LABELS_FILE
    command = split_command(path)
    return read_npz(file, kind=LABELS_KIND, keys=[split], producer_command=command)[split]


def load_classes(path: str | Path, split: str) -> tuple[Labels, tuple[str, ...]]:
    """Load labels, int64 (n,), and names of classes; images without one get an extra last class.

    Raises a GenlabError for a missing, truncated or foreign file.
    """
    manifest = read_manifest(Path(path), SPLIT_KIND, split_command(path))
    names = tuple(manifest["labels"])
    labels = load_labels(path, split)
    if len(names) and (labels >= 0).all():
        return labels, names
    return np.where(labels < 0, len(names), labels), (*names, NO_CLASS)
