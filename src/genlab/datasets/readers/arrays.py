"""Pictures as arrays, `.npz` and `.npy`: names of arrays, order of axes, official splits."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.picture import Picture
from genlab.core.sections import SourceParams
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.layout import ALL, split_of

Array = npt.NDArray[Any]

PAIRS = (("x", "y"), ("images", "labels"), ("data", "target"), ("image", "label"), ("X", "Y"))
CHANNELS = (1, 3)
SUFFIXES = (".npz", ".npy")


@dataclass(frozen=True, eq=False)
class ArrayLoader:
    """Takes rows of arrays (n, height, width, channels), one array after another."""

    arrays: list[Array]

    def __call__(self, index: int, side: int) -> Picture:
        """Load a picture."""
        for array in self.arrays:
            if index < len(array):
                return Picture(array[index], (array.shape[2], array.shape[1]))
            index -= len(array)
        raise IndexError(index)


def read_arrays(path: Path, files: list[Path], source: SourceParams) -> Collection:
    """Read array files of one dataset: of one, or of several that are named after splits.

    Raises GenlabError for a damaged file, and where names or axes allow two readings.
    """
    named = {file: _split_of_file(file) for file in files}
    if len(files) > 1 and not all(named.values()):
        stray = min(file.name for file, split in named.items() if not split)
        fix = f"name one of them as path, such as {files[0]}"
        message = f"{path}: holds several array files, and {stray} is named after no split"
        raise GenlabError(f"{message}: {fix}", key="source.path", path=path, fix=fix)
    arrays: list[Array] = []
    names: list[str] = []
    splits: list[str] = []
    classes: list[str | None] = []
    unused: list[str] = []
    for file in files:
        parts, rest = _find_parts(file, _load(file), source)
        unused += rest
        for split, (pictures, labels) in parts.items():
            split = split or named[file] or ALL
            names += [f"{file.name}[{row}]" for row in range(len(pictures))]
            splits += [split] * len(pictures)
            classes += _name_classes(labels, len(pictures), file)
            arrays.append(_order_axes(pictures, file, source))
    kinds = {(array.shape[3], array.dtype) for array in arrays}
    if len(kinds) > 1:
        raise GenlabError(f"{path}: arrays of several kinds: {sorted(map(str, kinds))}", path=path)
    left_out = {"other arrays": unused} if unused else {}
    loader = ArrayLoader(arrays)
    return Collection(path, "arrays", names, splits, classes, loader, left_out)


def _split_of_file(file: Path) -> str:
    for word in file.stem.lower().replace("-", "_").split("_"):
        if split := split_of(word):
            return split
    return ""


def _load(file: Path) -> Mapping[str, Array]:
    try:
        loaded = np.load(file, allow_pickle=False, mmap_mode="r")
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile, zlib.error, KeyError) as error:
        reason = " ".join(str(error).split())[:120]
        pickled = "Object arrays" in reason or "pickled" in reason
        held = "it holds Python objects, which are never opened" if pickled else reason
        message = f"{file}: no whole file of arrays of numbers ({held})"
        raise GenlabError(message, path=file) from error


def _find_parts(
    file: Path, arrays: Mapping[str, Array], source: SourceParams
) -> tuple[dict[str, tuple[Array, Array | None]], list[str]]:
    """Pictures and labels of each split, and the names of arrays that are neither."""
    parts: dict[str, tuple[Array, Array | None]] = {}
    used: set[str] = set()
    stated = [tuple(source.arrays)] if source.arrays else []
    for pictures, labels in (*stated, *PAIRS):
        for prefix, suffix, split in _affixes(arrays):
            key, other = prefix + pictures + suffix, prefix + labels + suffix
            if key in arrays and split not in parts:
                parts[split] = arrays[key], arrays.get(other)
                used |= {key, other}
    if not parts and len(arrays) == 1:
        parts[ALL] = next(iter(arrays.values())), None
        used = set(arrays)
    if not parts or (ALL in parts and len(parts) > 1):
        held = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        fix = "set arrays to the names of pictures and labels, such as [x, y]"
        message = f"{file}: which of its arrays are the pictures? it holds {held}; {fix}"
        raise GenlabError(message, key="source.arrays", path=file, fix=fix)
    return parts, sorted(set(arrays) - used)


def _affixes(arrays: Mapping[str, Array]) -> list[tuple[str, str, str]]:
    """Prefix, suffix and split of names that may stand around x or images: train_, _train."""
    affixes = {("", "", ALL)}
    for name in arrays:
        first, _, rest = name.partition("_")
        before, _, last = name.rpartition("_")
        if rest and (split := split_of(first)):
            affixes.add((f"{first}_", "", split))
        if before and (split := split_of(last)):
            affixes.add(("", f"_{last}", split))
    return sorted(affixes)


def _order_axes(array: Array, file: Path, source: SourceParams) -> Array:
    """The pictures as (n, height, width, channels)."""
    shape = array.shape
    if array.dtype.kind not in "buif" or array.size == 0:
        _refuse_shape(file, array, "pictures are numbers")
    if array.ndim == 3:
        return array[..., None]
    if array.ndim != 4:
        _refuse_shape(file, array, "pictures are (n, height, width) with or without channels")
    last = shape[3] in CHANNELS
    layout = source.layout or ("NHWC" if last else "NCHW")
    if source.layout is None and last == (shape[1] in CHANNELS):
        fix = "set layout to NHWC or NCHW"
        message = f"{file}: pictures {shape}: which axis is the channels, 1 or 3? {fix}"
        raise GenlabError(message, key="source.layout", path=file, fix=fix)
    return array if layout == "NHWC" else array.transpose(0, 2, 3, 1)


def _refuse_shape(file: Path, array: Array, rule: str) -> NoReturn:
    raise GenlabError(f"{file}: {rule}, got {array.dtype} {array.shape}", path=file)


def _name_classes(labels: Array | None, count: int, file: Path) -> list[str | None]:
    """Class names of an array of labels: whole numbers however written, words, or one-hot rows."""
    if labels is None:
        return [None] * count
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim == 2 and labels.dtype.kind in "buif":
        if ((labels == 0) | (labels == 1)).all() and (labels.sum(axis=1) == 1).all():
            labels = labels.argmax(axis=1)
        else:
            return [None] * count  # several classes at once
    if labels.shape != (count,):
        message = f"{file}: {count} pictures, but labels of shape {labels.shape}"
        raise GenlabError(message, path=file)
    if labels.dtype.kind == "f":
        if not (np.isfinite(labels).all() and (labels == np.rint(labels)).all()):
            return [None] * count  # a measured value
        labels = labels.astype(np.int64)
    if labels.dtype.kind == "S":
        labels = np.char.decode(labels, "utf-8")
    if labels.dtype.kind in "iub":
        return [None if label == -1 else str(int(label)) for label in labels.tolist()]
    return [str(label) for label in labels.tolist()]
