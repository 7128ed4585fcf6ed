"""Image datasets: read once from their source, split, and loaded as memory-mapped arrays."""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.io import atomic_write, map_npy, read_npz, unfit, write_npz
from genlab.core.params import ImageParams, Params
from genlab.datasets.manifests import (
    MANIFEST_FILE,
    generate_command,
    read_manifest,
    split_command,
    write_manifest,
)
from genlab.datasets.sources import Images, ImageSet, Labels, Shape, Source
from genlab.datasets.splits import (
    EXAMPLES,
    SPLITS,
    SplitSummary,
    count_duplicates,
    split_groups,
)

KIND, SPLIT_KIND, LABELS_KIND = "generated_images", "split_images", "image_labels"
LABELS_FILE = "labels.npz"
CHUNK = 2048
"""Images in memory at once while a file is written: 25 MB at 64 x 64 x 3."""
LEVELS = 256


def generate_images(
    name: str, labels: tuple[str, ...], source: Source, folder: Path, count: int = 0
) -> str:
    """Write the images of `source` to `folder`; returns a line about them.

    count: most images of each part, evenly spaced in its order; 0 for all.
    Writes `train.npy` and `test.npy` (or `all.npy`, where there is no official test split), uint8
    (n, height, width, channels); `labels.npz` with each part's labels and, under `PART_groups`, its
    groups, both int64 (n,); `manifest.json` last.
    """
    counts: dict[str, int] = {}
    arrays: dict[str, Labels] = {}
    for part, images in source.parts.items():
        size = len(images.labels)
        counts[part] = min(count or size, size)
        chosen = np.arange(counts[part]) * size // counts[part]
        write_images(folder / f"{part}.npy", images, chosen)
        arrays |= {part: images.labels[chosen], f"{part}_groups": images.groups[chosen]}
    write_npz(folder / LABELS_FILE, arrays, kind=LABELS_KIND)
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
    labels, levels, hashes = {}, {}, {}
    chosen = _choose(parts, params.images, seed)
    for split, (images, indices) in chosen.items():
        levels[split], hashes[split] = write_images(data / f"{split}.npy", images, indices)
        labels[split] = images.labels[indices]
    write_npz(data / LABELS_FILE, labels, kind=LABELS_KIND)
    mean, std = mean_and_std(levels["train"])
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
    facts["duplicates"] = count_duplicates(hashes)
    channels = ("grey",) if shape[2] == 1 else ("red", "green", "blue")
    means = {f"mean {channel}": value for channel, value in zip(channels, mean, strict=True)}
    train, indices = chosen["train"]
    spread = np.linspace(0, len(indices) - 1, min(EXAMPLES, len(indices))).astype(int)
    return SplitSummary(
        facts["counts"], facts, train.read(indices[spread]), {**facts["counts"], **means}
    )


def _read_generated(folder: Path) -> tuple[dict[str, Any], dict[str, ImageSet]]:
    """The manifest and the parts that `generate_images` wrote, with checksums verified."""
    command = generate_command(folder)
    manifest = read_manifest(folder, KIND, command, verify=True)
    keys = [key for part in manifest["counts"] for key in (part, f"{part}_groups")]
    file = folder / LABELS_FILE
    arrays = read_npz(file, kind=LABELS_KIND, keys=keys, producer_command=command)
    parts = {
        part: ImageSet(
            shape=tuple(manifest["shape"]),
            labels=arrays[part],
            groups=arrays[f"{part}_groups"],
            read=partial(_read_rows, folder / f"{part}.npy"),
        )
        for part in manifest["counts"]
    }
    return manifest, parts


def _read_rows(file: Path, indices: Labels) -> Images:
    # Opened for each chunk: pages of a mapping that stays open count as memory in use.
    return np.asarray(np.lib.format.open_memmap(file, mode="c")[indices])


def _choose(
    parts: dict[str, ImageSet], params: ImageParams, seed: int
) -> dict[str, tuple[ImageSet, Labels]]:
    """Which images of which part make each split."""
    if "all" in parts:
        images = parts["all"]
        shares = {"val": params.val_share, "test": params.test_share}
        indices = split_groups(images.groups, shares, seed)
        # Neighbours in a font are of one kind: shuffled, the first n of a split represent it.
        rng = np.random.default_rng(seed)
        return {split: (images, rng.permutation(indices[split])) for split in SPLITS}
    train, test = parts["train"], parts["test"]
    drawn = split_groups(train.groups, {"val": params.val_share}, seed)
    return {
        "train": (train, drawn["train"]),
        "val": (train, drawn["val"]),
        "test": (test, np.arange(len(test.labels))),
    }


def write_images(
    path: Path, images: ImageSet, indices: Labels
) -> tuple[npt.NDArray[np.int64], list[bytes]]:
    """Write the images `indices` as `.npy`, whole or not at all, one chunk in memory at a time.

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
    """Mean and standard deviation of each channel of a histogram, levels scaled to [0, 1]."""
    values = np.arange(LEVELS) / (LEVELS - 1)
    shares = levels / levels.sum(axis=1, keepdims=True)
    means = shares @ values
    deviations = values - means[:, None]
    return means.tolist(), np.sqrt((shares * deviations**2).sum(axis=1)).tolist()


def load_images(path: str | Path, split: str, shape: Shape | None = None) -> Images:
    """One split of the folder `path`, uint8 (n, height, width, channels), mapped read-only.

    With `shape`, the images must have it. Raises a GenlabError of one line for a missing, truncated
    or foreign file, and for a folder of another format version.
    """
    file, command = Path(path) / f"{split}.npy", split_command(path)
    manifest = read_manifest(file.parent, SPLIT_KIND, command)
    images = map_npy(file, producer_command=command)
    try:
        expected = (manifest["counts"][split], *(shape or manifest["shape"]))
    except (LookupError, TypeError) as error:
        fault = f"does not say how many images {split} has and their shape"
        raise unfit(file.parent / MANIFEST_FILE, fault, command) from error
    if images.dtype != np.uint8 or images.shape != expected:
        fault = f"must hold uint8 {expected}, got {images.dtype} {images.shape}"
        raise unfit(file, fault, command)
    return images


def load_labels(path: str | Path, split: str) -> Labels:
    """The labels of one split of the folder `path`, int64 (n,): indices of the manifest's `labels`.

    Raises a GenlabError for a missing, truncated or foreign file.
    """
    file, command = Path(path) / LABELS_FILE, split_command(path)
    return read_npz(file, kind=LABELS_KIND, keys=[split], producer_command=command)[split]
