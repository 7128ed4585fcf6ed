"""Arrays of HDF5 and MATLAB files, by name, with the pictures' number as their first axis.

MATLAB has it last, as in SVHN's files (Netzer et al. 2011): X (32, 32, 3, n). Arrays of HDF5 are
copied into a temporary file, from which they are mapped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.datasets.readers.files import MAX_BYTES, MAX_GROWTH, make_temporary

Array = npt.NDArray[Any]

HDF5_SUFFIXES = (".h5", ".hdf5")
MATLAB_SUFFIXES = (".mat",)
SIGNATURE = b"\x89HDF\r\n"
COPIED = 1 << 26  # bytes at a time
MOST_PACKED = 1000  # bytes of an array per byte of its file
LOAD_MATLAB = """
import json, sys
import numpy as np
from scipy.io import loadmat
file, folder = sys.argv[1:]
arrays = {
    name: array
    for name, array in loadmat(file).items()
    if isinstance(array, np.ndarray) and not name.startswith("__") and array.dtype.kind in "buifU"
}
for number, array in enumerate(arrays.values()):
    np.save(f"{folder}/{number}.npy", array, allow_pickle=False)
print(json.dumps(list(arrays)))
"""


def load_hdf5(file: Path) -> Mapping[str, Array]:
    """All arrays of an HDF5 file, those of groups as GROUP_NAME. Raises GenlabError, OSError."""
    h5py = import_h5py(file)
    arrays: dict[str, Array] = {}
    size = file.stat().st_size
    with h5py.File(file, "r") as content:

        def take(name: str, found: Any) -> None:
            if isinstance(found, h5py.Dataset) and found.ndim:
                arrays[name.replace("/", "_")] = _copy(found, size)

        content.visititems(take)
    return arrays


def import_h5py(file: Path) -> Any:
    """The module h5py. Raises a GenlabError that names the extra where it is not installed."""
    try:
        import h5py
    except ImportError as error:
        fix = "pip install -e '.[formats]'"
        raise GenlabError(f"{file}: needs an extra: {fix}", path=file, fix=fix) from error
    return h5py


def _copy(stored: Any, size: int) -> Array:
    """Copy a stored array in slices of its first axis, and map the copy. size: of its file."""
    if stored.dtype.kind not in "buif":
        return np.asarray(stored[()])
    if stored.nbytes > min(MAX_GROWTH, max(MAX_BYTES, MOST_PACKED * size)):
        raise ValueError(f"{stored.name} would take {stored.nbytes >> 30:,} GiB")
    handle, name = tempfile.mkstemp(".npy", dir=make_temporary().name)
    with open(handle, "wb"):
        mapped = np.lib.format.open_memmap(name, mode="w+", dtype=stored.dtype, shape=stored.shape)
    row = max(1, stored.dtype.itemsize * int(np.prod(stored.shape[1:])))
    step = max(1, COPIED // row)
    for start in range(0, len(stored), step):
        mapped[start : start + step] = stored[start : start + step]
    return mapped


def load_matlab(file: Path) -> Mapping[str, Array]:
    """All arrays of a MATLAB file of any version, pictures first. Raises GenlabError, OSError."""
    with file.open("rb") as opened:
        start = opened.read(len(SIGNATURE))
        opened.seek(512)  # a file of version 7.3 is HDF5 behind its own block
        later = opened.read(len(SIGNATURE))
    if SIGNATURE in (start, later):
        # Axes are reversed there.
        return {name: _turn(array.transpose()) for name, array in load_hdf5(file).items()}
    return {name: _turn(array) for name, array in _load_apart(file).items()}


def _load_apart(file: Path) -> dict[str, Array]:
    """Arrays of a MATLAB file of version 5 or older, read in another process.

    A damaged file was seen to end the process that scipy reads it in. Raises ValueError.
    """
    folder = tempfile.mkdtemp(dir=make_temporary().name)
    command = [sys.executable, "-c", LOAD_MATLAB, str(file), folder]
    done = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - our own script
    if done.returncode < 0:
        raise ValueError(f"its reader ended by signal {-done.returncode}")
    if done.returncode:
        raise ValueError(done.stderr.strip().splitlines()[-1])
    names = json.loads(done.stdout)
    return {
        name: np.load(Path(folder, f"{number}.npy"), mmap_mode="r")
        for number, name in enumerate(names)
    }


def _turn(array: Array) -> Array:
    """Put MATLAB's last axis first; a row or a column becomes a vector."""
    if array.ndim >= 3:
        return np.moveaxis(array, -1, 0)
    return array.ravel() if array.ndim == 2 and 1 in array.shape else array
