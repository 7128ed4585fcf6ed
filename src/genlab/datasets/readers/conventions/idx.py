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
from genlab.datasets.readers.layout import split_in

Array = npt.NDArray[Any]

TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}
GZIP = b"\x1f\x8b"
IDX_ERRORS = (KeyError, IndexError, ValueError, EOFError, OSError, zlib.error)
"""What is raised for data that end too early or are no IDX."""


def find_idx(files: Files, names: Sequence[str]) -> dict[str, Array]:
    """The arrays of IDX files, by name; other files are passed over.

    Raises GenlabError for a file that begins as IDX and is not whole.
    """
    arrays: dict[str, Array] = {}
    for name in names:
        start = files.start(name)
        named = "idx" in PurePosixPath(name).name.lower()
        if _is_idx(start) or (start[:2] == GZIP and named):
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
    """What a gzip file holds; other data stay as they are. Raises what is in IDX_ERRORS."""
    if data[:2] != GZIP:
        return data
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        return file.read(MAX_BYTES)


def parse_idx(data: bytes) -> Array:
    """The array of an IDX file, packed or not. Raises what is in IDX_ERRORS."""
    data = unpack(data)
    kind, axes = np.dtype(TYPES[data[2]]), data[3]
    shape = np.frombuffer(data, ">u4", axes, offset=4).tolist()
    values = np.frombuffer(data, kind, offset=4 + 4 * axes)
    return values.reshape(shape).astype(kind.newbyteorder("="), copy=False)


def read_idx(files: Files, arrays: dict[str, Array]) -> Collection:
    """Pair pictures (n, height, width) with labels (n,), by their names and counts.

    Splits: train, and test where a name says `t10k` or test. Raises GenlabError for pictures whose
    labels are of another number.
    """
    pictures = {name: array for name, array in arrays.items() if array.ndim in (3, 4)}
    labels = {_stem(name): array for name, array in arrays.items() if array.ndim == 1}
    if not pictures:
        raise GenlabError(f"{files.path}: its IDX files hold no pictures", path=files.path)
    parts: list[LabelledArray] = []
    for name, array in pictures.items():
        own = labels.get(_stem(name))
        if own is not None and len(own) != len(array):
            message = f"{files.path}: {name}: {len(array)} pictures, but {len(own)} labels"
            raise GenlabError(message, path=files.path / name)
        classes: list[str | None] = [None] * len(array)
        if own is not None:
            classes = [str(value) for value in own.tolist()]
        stacked = array if array.ndim == 4 else array[..., None]
        parts.append(LabelledArray(name, split_in(name), stacked, classes))
    return collect_arrays(files.path, "IDX files", parts)


def _stem(name: str) -> str:
    """What the names of pictures and of their labels have in common."""
    plain = PurePosixPath(name).name.lower().removesuffix(".gz")
    return re.sub(r"images?|labels?|[-_.]?idx\d|[-_.]ubyte", "", plain)
