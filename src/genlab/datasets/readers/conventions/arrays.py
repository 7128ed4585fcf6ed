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
from genlab.datasets.readers.split_names import ALL, find_split, parse_split

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
    """Takes pictures from arrays (n, height, width, channels), one array after another."""

    arrays: list[Array]

    def __call__(self, index: int, side: int) -> DecodedPicture:
        """Load a picture."""
        for array in self.arrays:
            if index < len(array):
                return DecodedPicture(array[index], (array.shape[2], array.shape[1]))
            index -= len(array)
        raise IndexError(index)

    def select(self, rows: range) -> ArrayLoader:
        """Return one for these rows."""
        arrays: list[Array] = []
        start = 0
        for array in self.arrays:
            arrays.append(array[max(0, rows.start - start) : max(0, rows.stop - start)])
            start += len(array)
        return ArrayLoader(arrays)


class SplitArrays(NamedTuple):
    """Arrays of one split of a file: pictures or grids, and their labels, None without any."""

    items: Array
    labels: Array | None


def load_by_split(file: Path, source: SourceParams) -> dict[str, Array]:
    """Load the arrays of pictures or grids of a file, by split.

    Raises GenlabError as `read_arrays` does.
    """
    by_split, _ = _match_arrays(file, _load(file), source)
    return {split: arrays.items for split, arrays in by_split.items()}


class LabelledArray(NamedTuple):
    """Pictures (n, height, width, channels) of one split; classes (n,): None without one."""

    name: str
    split: str
    pictures: Array
    classes: Classes


def read_arrays(path: Path, files: list[Path], source: SourceParams) -> Collection:
    """Read the array files of one dataset: a single file, or several named after splits.

    Raises GenlabError for a damaged file, and where names or axes allow two readings.
    """
    file_splits = {file: find_split(file.stem) for file in files}
    if len(files) > 1 and not all(file_splits.values()):
        stray = min(file.name for file, split in file_splits.items() if not split)
        fix = f"name one of them as path, such as {files[0]}"
        message = f"{path}: holds several array files, and {stray} is named after no split"
        raise GenlabError(f"{message}: {fix}", key="source.path", path=path, fix=fix)
    collected: list[LabelledArray] = []
    unused: list[str] = []
    notes: list[str] = []
    for file in files:
        by_split, unused_names = _match_arrays(file, _load(file), source)
        unused += unused_names
        for array_split, arrays in by_split.items():
            pictures = _order_axes(arrays.items, file, source)
            classes, note = label_array(arrays.labels, len(pictures), file)
            if note and note not in notes:
                notes.append(note)
            split = array_split or file_splits[file]
            collected.append(LabelledArray(file.name, split, pictures, classes))
    collection = collect_arrays(path, "arrays", collected)
    collection.notes.extend(notes)
    if unused:
        collection.left_out["other arrays"] = unused
    return collection


def collect_arrays(path: Path, convention: str, arrays: Sequence[LabelledArray]) -> Collection:
    """Collect arrays of pictures. Raises GenlabError where they are of several kinds."""
    kinds = {(array.pictures.shape[3], array.pictures.dtype) for array in arrays}
    if len(kinds) > 1:
        raise GenlabError(f"{path}: arrays of several kinds: {sorted(map(str, kinds))}", path=path)
    names: list[str] = []
    splits: list[str] = []
    classes: Classes = []
    for array in arrays:
        count = len(array.pictures)
        names += [f"{array.name}[{row}]" for row in range(count)]
        splits += [array.split] * count
        classes += array.classes
    return Collection(
        path=path,
        convention=convention,
        names=names,
        splits=splits,
        classes=classes,
        load=ArrayLoader([array.pictures for array in arrays]),
    )


def _load(file: Path) -> Mapping[str, Array]:
    """Load the arrays of a file by name. Raises GenlabError for a damaged one."""
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
        if "Object arrays" in reason or "pickled" in reason:
            reason = "it holds Python objects, which are never opened"
        message = f"{file}: no whole file of arrays of numbers ({reason})"
        raise GenlabError(message, path=file) from error


def _match_arrays(
    file: Path, arrays: Mapping[str, Array], source: SourceParams
) -> tuple[dict[str, SplitArrays], list[str]]:
    """Match arrays with splits by their names; return also the names of unused arrays.

    Raises GenlabError, naming the key that decides, where it is not clear which are pictures.
    """
    by_split: dict[str, SplitArrays] = {}
    used: set[str] = set()
    stated = [tuple(source.arrays)] if source.arrays else []
    for labelled in (True, False):  # prefer X labelled by y to X without Y
        for pictures, labels in (*stated, *PAIRS):
            for prefix, suffix, split in _list_affixes(arrays):
                picture_key = prefix + pictures + suffix
                label_key = prefix + labels + suffix
                fits = picture_key in arrays and (label_key in arrays or not labelled)
                if fits and split not in by_split and picture_key not in used:
                    by_split[split] = SplitArrays(arrays[picture_key], arrays.get(label_key))
                    used |= {picture_key, label_key}
    if not by_split and len(arrays) == 1:
        by_split[ALL] = SplitArrays(next(iter(arrays.values())), None)
        used = set(arrays)
    if not by_split or (ALL in by_split and len(by_split) > 1):
        content = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        fix = "set arrays to the names of pictures and labels, such as [x, y]"
        message = f"{file}: which of its arrays are the pictures? it holds {content}; {fix}"
        raise GenlabError(message, key="source.arrays", path=file, fix=fix)
    return by_split, sorted(set(arrays) - used)


def _list_affixes(arrays: Mapping[str, Array]) -> list[tuple[str, str, str]]:
    """List prefix, suffix and split of names that may stand around x or images: train_, _train."""
    affixes = {("", "", ALL)}
    for name in arrays:
        first, _, after_first = name.partition("_")
        before_last, _, last = name.rpartition("_")
        first_split = parse_split(first)
        last_split = parse_split(last)
        if after_first and first_split:
            affixes.add((f"{first}_", "", first_split))
        if before_last and last_split:
            affixes.add(("", f"_{last}", last_split))
    return sorted(affixes)


def _order_axes(array: Array, file: Path, source: SourceParams) -> Array:
    """Return the pictures as (n, height, width, channels). Raises GenlabError for other shapes."""
    shape = array.shape
    if array.dtype.kind not in "buif" or array.size == 0:
        _refuse_shape(file, array, "pictures are numbers")
    if array.ndim == 3:
        return array[..., None]
    if array.ndim != 4:
        _refuse_shape(file, array, "pictures are (n, height, width) with or without channels")
    channels_last = shape[3] in CHANNELS
    layout = source.layout or ("NHWC" if channels_last else "NCHW")
    if source.layout is None and channels_last == (shape[1] in CHANNELS):
        fix = "set layout to NHWC or NCHW"
        message = f"{file}: pictures {shape}: which axis is the channels, 1 or 3? {fix}"
        raise GenlabError(message, key="source.layout", path=file, fix=fix)
    return array if layout == "NHWC" else array.transpose(0, 2, 3, 1)


def _refuse_shape(file: Path, array: Array, rule: str) -> NoReturn:
    raise GenlabError(f"{file}: {rule}, got {array.dtype} {array.shape}", path=file)


def label_array(labels: Array | None, count: int, file: Path) -> tuple[Classes, str]:
    """Name the classes of `count` pictures by an array of labels; also a note if there are none.

    Raises GenlabError where the array is of another length.
    """
    if labels is None:
        return [None] * count, ""
    if len(labels) != count or labels.ndim > 2:
        message = f"{file}: {count} pictures, but labels of shape {labels.shape}"
        raise GenlabError(message, path=file)
    return name_rows(labels)
