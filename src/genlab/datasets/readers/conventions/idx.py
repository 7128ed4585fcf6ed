"""IDX files, packed or not, as MNIST and its relatives are published (LeCun 1998)."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.conventions.arrays import LabelledArray, collect_arrays
from genlab.datasets.readers.files import MAX_BYTES, Files
from genlab.datasets.readers.split_names import find_split

Array = npt.NDArray[Any]

TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
GZIP = b"\x1f\x8b"
IDX_ERRORS = (KeyError, IndexError, ValueError, EOFError, OSError, zlib.error)
"""Errors of `unpack` and `parse_idx` for data that end too early or are no IDX."""


def find_idx(files: Files, names: Sequence[str]) -> dict[str, Array]:
    """Load the arrays of IDX files, by name; other files are skipped.

    Raises GenlabError for a file that begins as IDX and is not complete.
    """
    arrays: dict[str, Array] = {}
    for name in names:
        start = files.read_start(name)
        packed_idx = start[:2] == GZIP and "idx" in PurePosixPath(name).name.lower()
        if not _is_idx(start) and not packed_idx:
            continue
        try:
            arrays[name] = parse_idx(files.read(name))
        except IDX_ERRORS as error:
            fix = "fetch it again"
            message = f"{files.path}: {name}: no whole IDX file ({error}); {fix}"
            raise GenlabError(message, path=files.path / name, fix=fix) from error
    return arrays


def _is_idx(start: bytes) -> bool:
    return len(start) > 4 and start[:2] == b"\0\0" and start[2] in TYPES and 1 <= start[3] <= 4


def unpack(data: bytes) -> bytes:
    """Decompress gzip data; other data stay as they are. Raises IDX_ERRORS."""
    if data[:2] != GZIP:
        return data
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(MAX_BYTES)


def parse_idx(data: bytes) -> Array:
    """Parse the array of an IDX file, packed or not. Raises IDX_ERRORS."""
    data = unpack(data)
    dtype = np.dtype(TYPES[data[2]])
    axes = data[3]
    shape = np.frombuffer(data, ">u4", axes, offset=4).tolist()
    values = np.frombuffer(data, dtype, offset=4 + 4 * axes)
    return values.reshape(shape).astype(dtype.newbyteorder("="), copy=False)


def read_idx(files: Files, arrays: dict[str, Array]) -> Collection:
    """Pair pictures (n, height, width) with labels (n,), by their names and counts.

    Splits: train, and test where a name says `t10k` or test. Raises GenlabError where pictures and
    their labels differ in number.
    """
    pictures = {name: array for name, array in arrays.items() if array.ndim in (3, 4)}
    labels_by_stem = {_stem(name): array for name, array in arrays.items() if array.ndim == 1}
    if not pictures:
        raise GenlabError(f"{files.path}: its IDX files hold no pictures", path=files.path)
    labelled: list[LabelledArray] = []
    for name, array in pictures.items():
        labels = labels_by_stem.get(_stem(name))
        if labels is not None and len(labels) != len(array):
            message = f"{files.path}: {name}: {len(array)} pictures, but {len(labels)} labels"
            raise GenlabError(message, path=files.path / name)
        classes: list[str | None] = [None] * len(array)
        if labels is not None:
            classes = [str(label) for label in labels.tolist()]
        with_channels = array if array.ndim == 4 else array[..., None]
        labelled.append(LabelledArray(name, find_split(name), with_channels, classes))
    return collect_arrays(files.path, "IDX files", labelled)


def _stem(name: str) -> str:
    """Return what the file names of pictures and of their labels have in common."""
    plain = PurePosixPath(name).name.lower().removesuffix(".gz")
    return re.sub(r"images?|labels?|[-_.]?idx\d|[-_.]ubyte", "", plain)
