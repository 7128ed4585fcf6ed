"""Image files: `.npy` arrays, written and read in chunks, checked when they are opened."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.io import UNREADABLE, atomic_write, read_npz
from genlab.datasets.manifests import read_manifest, split_command, stale
from genlab.datasets.splits import check_split

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Shape = tuple[int, int, int]

SPLIT_KIND, LABELS_KIND = "split_images", "image_labels"
LABELS_FILE = "labels.npz"
CHUNK = 2048
"""Images in memory at once while a file is written or copied: 25 MB at 64 x 64 x 3."""
LEVELS = 256


class PixelStatistics:
    """Histogram of the levels of each channel, and a hash of each image, updated by chunks."""

    def __init__(self, channels: int) -> None:
        self.levels = np.zeros((channels, LEVELS), dtype=np.int64)
        self.hashes: list[bytes] = []

    def update(self, images: Images) -> None:
        """Count a chunk, uint8 (n, height, width, channels)."""
        for channel, counts in enumerate(self.levels):
            counts += np.bincount(images[..., channel].ravel(), minlength=LEVELS)
        self.hashes += [hashlib.blake2b(i.tobytes(), digest_size=16).digest() for i in images]

    def mean_and_std(self) -> tuple[list[float], list[float]]:
        """Mean and standard deviation of each channel, levels scaled to [0, 1]."""
        values = np.arange(LEVELS) / (LEVELS - 1)
        shares = self.levels / self.levels.sum(axis=1, keepdims=True)
        means = shares @ values
        deviations = values - means[:, None]
        return means.tolist(), np.sqrt((shares * deviations**2).sum(axis=1)).tolist()


def write_images(
    path: Path, count: int, shape: Shape, read: Callable[[slice], Images]
) -> PixelStatistics:
    """Write `count` images of `shape`; `read(rows)` returns some of them, uint8 (n, *shape).

    One chunk is in memory at a time; the file is written whole or not at all.
    """
    statistics = PixelStatistics(shape[2])
    with atomic_write(path) as temporary:
        full = (count, *shape)
        np.lib.format.open_memmap(temporary, mode="w+", dtype=np.uint8, shape=full).flush()
        for start in range(0, count, CHUNK):
            rows = slice(start, min(start + CHUNK, count))
            images = read(rows)
            # Opened for each chunk: pages of a mapping that stays open count as memory in use.
            np.lib.format.open_memmap(temporary, mode="r+")[rows] = images
            statistics.update(images)
    return statistics


def open_images(path: Path, producer_command: str) -> Images:
    """Map an image file, read only: uint8 (n, height, width, channels).

    Raises a GenlabError for a missing, truncated or foreign file.
    """
    try:
        images = np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError as error:
        raise stale(path, "is missing", producer_command) from error
    except UNREADABLE as error:
        raise stale(path, "is truncated or no .npy file", producer_command) from error
    if images.dtype != np.uint8 or images.ndim != 4:
        fault = f"must hold uint8 (n, height, width, channels), got {images.dtype} {images.shape}"
        raise stale(path, fault, producer_command)
    return images


def load_images(path: str | Path, split: str, shape: Shape | None = None) -> Images:
    """One split of the folder `path`, uint8 (n, height, width, channels), mapped, read only.

    With `shape`, the images must have it. Raises a GenlabError of one line for a missing, truncated
    or foreign file, and for a folder of another format version.
    """
    manifest = _read_split_manifest(Path(path), split)
    file = Path(path) / f"{split}.npy"
    images = open_images(file, split_command(path))
    expected = (manifest["counts"][split], *(shape or manifest["shape"]))
    if images.shape != expected:
        fault = f"must hold images of shape {expected}, got {images.shape}"
        raise stale(file, fault, split_command(path))
    return images


def load_labels(path: str | Path, split: str) -> Labels:
    """The labels of one split of the folder `path`, int64 (n,): indices of the manifest's `labels`.

    Raises a GenlabError as `load_images` does.
    """
    manifest = _read_split_manifest(Path(path), split)
    file, command = Path(path) / LABELS_FILE, split_command(path)
    labels = read_npz(file, kind=LABELS_KIND, keys=[split], producer_command=command)[split]
    count = manifest["counts"][split]
    if labels.shape != (count,):
        raise stale(file, f"must hold {count} labels of {split}, got {labels.shape}", command)
    return labels


def _read_split_manifest(folder: Path, split: str) -> dict[str, Any]:
    check_split(split)
    return read_manifest(folder, SPLIT_KIND, split_command(folder))
