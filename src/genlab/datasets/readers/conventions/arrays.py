"""Pictures as arrays, `.npz` and `.npy`: names of arrays, order of axes, official splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.core.picture import DecodedPicture
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.conventions.hdf5 import (
    HDF5_SUFFIXES,
    MATLAB_SUFFIXES,
    load_hdf5,
    load_matlab,
)
from genlab.datasets.readers.conventions.labels import Classes, name_rows
from genlab.datasets.readers.layout import ALL, split_in, split_of

Array = npt.NDArray[Any]

PAIRS = (
    ("x", "y"),
    ("images", "labels"),
    ("data", "target"),
    ("image", "label"),
    ("X", "Y"),
    ("X", "y"),
)
CHANNELS = (1, 3)
SUFFIXES = (".npz", ".npy", *HDF5_SUFFIXES, *MATLAB_SUFFIXES)


@dataclass(frozen=True, eq=False)
class ArrayLoader:
    """Takes rows of arrays (n, height, width, channels), one array after another."""

    arrays: list[Array]

    def __call__(self, index: int, side: int) -> DecodedPicture:
        """Load a picture."""
        for array in self.arrays:
            if index < len(array):
                return DecodedPicture(array[index], (array.shape[2], array.shape[1]))
            index -= len(array)
        raise IndexError(index)

    def part(self, rows: range) -> ArrayLoader:
        """Return one for these rows."""
        arrays: list[Array] = []
        start = 0
        for array in self.arrays:
            arrays.append(array[max(0, rows.start - start) : max(0, rows.stop - start)])
            start += len(array)
        return ArrayLoader(arrays)


def load_parts(file: Path, source: SourceParams) -> dict[str, Array]:
    """The arrays of pictures or grids of a file, by split. Raises GenlabError as `read_arrays`."""
    parts, _ = _find_parts(file, _load(file), source)
    return {split: array for split, (array, _) in parts.items()}


class LabelledArray(NamedTuple):
    """Pictures (n, height, width, channels) of one split; classes (n,): None without one."""

    name: str
    split: str
    pictures: Array
    classes: Classes


def read_arrays(path: Path, files: list[Path], source: SourceParams) -> Collection:
    """Read array files of one dataset: of one, or of several that are named after splits.

    Raises GenlabError for a damaged file, and where names or axes allow two readings.
    """
    named = {file: split_in(file.stem) for file in files}
    if len(files) > 1 and not all(named.values()):
        stray = min(file.name for file, split in named.items() if not split)
        fix = f"name one of them as path, such as {files[0]}"
        message = f"{path}: holds several array files, and {stray} is named after no split"
        raise GenlabError(f"{message}: {fix}", key="source.path", path=path, fix=fix)
    collected: list[LabelledArray] = []
    unused: list[str] = []
    notes: dict[str, None] = {}
    for file in files:
        parts, rest = _find_parts(file, _load(file), source)
        unused += rest
        for split, (pictures, labels) in parts.items():
            ordered = _order_axes(pictures, file, source)
            classes, why = label_array(labels, len(pictures), file)
            notes |= {why: None} if why else {}
            collected.append(LabelledArray(file.name, split or named[file], ordered, classes))
    collection = collect_arrays(path, "arrays", collected)
    collection.notes.extend(notes)
    if unused:
        collection.left_out["other arrays"] = unused
    return collection


def collect_arrays(path: Path, convention: str, parts: Sequence[LabelledArray]) -> Collection:
    """Collect arrays of pictures. Raises GenlabError where they are of several kinds."""
    kinds = {(part.pictures.shape[3], part.pictures.dtype) for part in parts}
    if len(kinds) > 1:
        raise GenlabError(f"{path}: arrays of several kinds: {sorted(map(str, kinds))}", path=path)
    return Collection(
        path=path,
        convention=convention,
        names=[f"{part.name}[{row}]" for part in parts for row in range(len(part.pictures))],
        splits=[part.split for part in parts for _ in range(len(part.pictures))],
        classes=[name for part in parts for name in part.classes],
        load=ArrayLoader([part.pictures for part in parts]),
    )


def _load(file: Path) -> Mapping[str, Array]:
    try:
        if file.suffix.lower() in HDF5_SUFFIXES:
            return load_hdf5(file)
        if file.suffix.lower() in MATLAB_SUFFIXES:
            return load_matlab(file)
        loaded = np.load(file, allow_pickle=False, mmap_mode="r")
        if isinstance(loaded, np.ndarray):
            return {"": loaded}
        with loaded:
            return {name: loaded[name] for name in loaded.files}
    except GenlabError:
        raise
    except Exception as error:  # numpy, h5py and scipy raise whatever their formats meet
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
    for labelled in (True, False):  # X with y is rather labelled than X without Y
        for pictures, labels in (*stated, *PAIRS):
            for prefix, suffix, split in _affixes(arrays):
                key, other = prefix + pictures + suffix, prefix + labels + suffix
                fits = key in arrays and (other in arrays or not labelled)
                if fits and split not in parts and key not in used:
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


def label_array(labels: Array | None, count: int, file: Path) -> tuple[Classes, str]:
    """Classes of `count` pictures by an array beside them, and why there are none.

    Raises GenlabError where the array is of another length.
    """
    if labels is None:
        return [None] * count, ""
    if len(labels) != count or labels.ndim > 2:
        message = f"{file}: {count} pictures, but labels of shape {labels.shape}"
        raise GenlabError(message, path=file)
    return name_rows(labels)
