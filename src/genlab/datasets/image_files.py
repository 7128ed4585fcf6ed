"""Image files: plain `.npy` arrays, written and read in chunks, checked when they are opened."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, get_args

import numpy as np
import numpy.typing as npt

from genlab.core import params
from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write, read_json, read_npz

Images = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]
Shape = tuple[int, int, int]

SPLITS = ("train", "val", "test")
SPLIT_KIND, LABELS_KIND = "split_images", "image_labels"
LABELS_FILE, MANIFEST_FILE = "labels.npz", "manifest.json"
VERSION = 1
CHUNK = 2048
"""Images in memory at once while a file is made or copied: 25 MB at 64 x 64 x 3."""
LEVELS = 256


@dataclass(eq=False)
class Tally:
    """What is counted of images while they pass: levels of each channel, and a hash an image."""

    channels: int
    levels: npt.NDArray[np.int64] = field(init=False)
    hashes: list[bytes] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        self.levels = np.zeros((self.channels, LEVELS), dtype=np.int64)

    def add(self, images: Images) -> None:
        """Count a chunk, uint8 (n, height, width, channels)."""
        for channel in range(self.channels):
            self.levels[channel] += np.bincount(images[..., channel].ravel(), minlength=LEVELS)
        # Padding by a 1 keeps a hash that ends in zeros whole in a numpy array of bytes.
        self.hashes += [hashlib.blake2b(i.data, digest_size=15).digest() + b"\1" for i in images]

    @property
    def mean(self) -> list[float]:
        """Mean of each channel, levels scaled to [0, 1]."""
        values = np.arange(LEVELS) / (LEVELS - 1)
        return [float(row @ values / row.sum()) for row in self.levels]

    @property
    def std(self) -> list[float]:
        """Standard deviation of each channel over all pixels, levels scaled to [0, 1]."""
        values = np.arange(LEVELS) / (LEVELS - 1)
        return [
            float(np.sqrt(row @ (values - mean) ** 2 / row.sum()))
            for row, mean in zip(self.levels, self.mean, strict=True)
        ]


def write_images(path: str | Path, count: int, shape: Shape, chunks: Iterable[Images]) -> Tally:
    """Write `count` images of `shape` that come in chunks as uint8 (count, *shape), C order.

    One chunk is in memory at a time; the file is written whole or not at all. Raises a GenlabError
    where the chunks hold another number or shape of images.
    """
    tally = Tally(shape[2])
    header = {"descr": "|u1", "fortran_order": False, "shape": (count, *shape)}
    written = 0
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.lib.format.write_array_header_1_0(file, header)
        for chunk in chunks:
            if chunk.dtype != np.uint8 or chunk.shape[1:] != shape:
                raise GenlabError(
                    f"{path}: images must be uint8 {shape}, got {chunk.dtype} {chunk.shape[1:]};"
                    " check the images that the data set is made from"
                )
            plain = np.ascontiguousarray(chunk)
            tally.add(plain)
            file.write(plain.data)
            written += len(plain)
        if written != count:
            raise GenlabError(f"{path}: {count} images expected, got {written}; check the source")
    return tally


def rows(path: Path, chosen: Sequence[int] | Labels, producer_command: str) -> Iterator[Images]:
    """The images `chosen` of the file, in chunks; read, not mapped: memory is bounded."""
    shape, offset = checked_header(path, producer_command)
    size = int(np.prod(shape[1:]))
    with path.open("rb", buffering=0) as file:
        for start in range(0, len(chosen), CHUNK):
            part = chosen[start : start + CHUNK]
            images = np.empty((len(part), *shape[1:]), dtype=np.uint8)
            for image, index in zip(images, part, strict=True):
                file.seek(offset + int(index) * size)
                file.readinto(image.data)
            yield images


def checked_header(path: Path, producer_command: str) -> tuple[tuple[int, int, int, int], int]:
    """((n, height, width, channels), offset of the first image) of an image file.

    Raises a GenlabError for a missing, truncated or foreign file.
    """
    again = f"make it again with: {producer_command}"
    try:
        with path.open("rb") as file:
            shape, fortran, dtype = _numpy_header(file)
            offset = file.tell()
    except FileNotFoundError as error:
        raise GenlabError(f"{path} is missing; make it with: {producer_command}") from error
    except (ValueError, EOFError) as error:
        raise GenlabError(f"{path} is truncated or no .npy file; {again}") from error
    if dtype != np.uint8 or fortran or len(shape) != 4:
        order = "Fortran" if fortran else "C"
        raise GenlabError(
            f"{path}: images must be uint8 (n, height, width, channels) in C order,"
            f" got {dtype} {shape} in {order} order; {again}"
        )
    size, expected = path.stat().st_size, offset + int(np.prod(shape))
    if size != expected:
        raise GenlabError(f"{path} is truncated: {size} bytes, {expected} expected; {again}")
    return shape, offset


def _numpy_header(file: BinaryIO) -> tuple[Any, bool, np.dtype[Any]]:
    if np.lib.format.read_magic(file) != (1, 0):
        raise ValueError("another version of the .npy format")
    return np.lib.format.read_array_header_1_0(file)


def load_images(path: str | Path, split: str, shape: Shape | None = None) -> Images:
    """One split of the folder `path`, uint8 (n, height, width, channels), mapped, read only.

    With `shape`, the images must have it. Raises a GenlabError of one line for a missing, truncated
    or foreign file, and for a folder of another format version.
    """
    folder, producer_command = Path(path), split_command(path)
    manifest = _manifest(folder, split)
    file = folder / f"{split}.npy"
    found, _ = checked_header(file, producer_command)
    wanted = shape or tuple(manifest["shape"])
    if found[1:] != tuple(wanted) or found[0] != manifest["counts"][split]:
        count = manifest["counts"][split]
        raise GenlabError(
            f"{file}: {count} images of {_times(wanted)} expected, got {found[0]} of"
            f" {_times(found[1:])}; make it again with: {producer_command}"
        )
    images: Images = np.load(file, mmap_mode="r", allow_pickle=False)
    return images


def load_labels(path: str | Path, split: str) -> Labels:
    """The labels of one split of the folder `path`, int64 (n,): indices of the manifest's `labels`.

    Raises a GenlabError as `load_images` does.
    """
    folder, producer_command = Path(path), split_command(path)
    manifest = _manifest(folder, split)
    file = folder / LABELS_FILE
    labels = read_npz(file, kind=LABELS_KIND, keys=[split], producer_command=producer_command)[
        split
    ]
    return checked_labels(
        labels, file, manifest["counts"][split], len(manifest["labels"]), producer_command
    )


def checked_labels(
    labels: npt.NDArray[Any], file: Path, count: int, classes: int, producer_command: str
) -> Labels:
    """Return `labels` if they are int64 (count,), each in 0..classes-1."""
    if labels.dtype != np.int64 or labels.shape != (count,):
        raise GenlabError(
            f"{file}: labels must be int64 ({count},), got {labels.dtype} {labels.shape};"
            f" make it again with: {producer_command}"
        )
    if count and (labels.min() < 0 or labels.max() >= classes):
        raise GenlabError(
            f"{file}: labels must be 0 to {classes - 1}, got {labels.min()} to {labels.max()};"
            f" make it again with: {producer_command}"
        )
    return labels


def split_command(path: str | Path) -> str:
    """The command that makes the folder `path` of a split data set."""
    return _command("split", Path(path).name)


def generate_command(path: str | Path) -> str:
    """The command that makes the folder `path` of a data set that is not split yet."""
    return _command("generate", Path(path).name)


def _command(stage: str, name: str) -> str:
    known = name if name in get_args(params.Dataset) else "DATASET"
    return f"python stages/{stage}.py --dataset {known}"


def read_manifest(
    file: Path, kind: str, keys: Sequence[str], producer_command: str
) -> dict[str, Any]:
    """A manifest of this format version that holds `keys`; a GenlabError of one line otherwise."""
    manifest: dict[str, Any] = read_json(file, producer_command=producer_command, kind=kind)
    if manifest.get("version") != VERSION:
        raise GenlabError(
            f"{file} has format version {manifest.get('version')}, this genlab reads {VERSION};"
            f" make it again with: {producer_command}"
        )
    missing = [key for key in keys if key not in manifest]
    if missing:
        raise GenlabError(
            f"{file} has no key {missing[0]!r}; make it again with: {producer_command}"
        )
    return manifest


def _manifest(folder: Path, split: str) -> dict[str, Any]:
    if split not in SPLITS:
        raise GenlabError(f"no split is called {split!r}; known: {', '.join(SPLITS)}")
    keys = ("counts", "shape", "labels")
    return read_manifest(folder / MANIFEST_FILE, SPLIT_KIND, keys, split_command(folder))


def _times(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
