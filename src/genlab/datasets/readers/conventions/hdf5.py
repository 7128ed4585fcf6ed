"""Arrays of HDF5 and MATLAB files, by name, with pictures along the first axis.

MATLAB has them along the last, as in SVHN's files (Netzer et al. 2011): X (32, 32, 3, n). Arrays of
HDF5 are copied into a temporary file, which is mapped.
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
COPIED = 1 << 26  # bytes that are copied at a time
MAX_RATIO = 1000  # maximum bytes of an array per byte of its compressed file
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
    """Load all arrays of an HDF5 file by name; those of groups are named GROUP_NAME.

    Raises GenlabError and OSError.
    """
    h5py = import_h5py(file)
    arrays: dict[str, Array] = {}
    size = file.stat().st_size
    with h5py.File(file, "r") as content:

        def copy_array(name: str, node: Any) -> None:
            if isinstance(node, h5py.Dataset) and node.ndim:
                arrays[name.replace("/", "_")] = _copy(node, size)

        content.visititems(copy_array)
    return arrays


def import_h5py(file: Path) -> Any:
    """Import h5py. Raises a GenlabError that names the extra where it is not installed."""
    try:
        import h5py
    except ImportError as error:
        fix = "pip install -e '.[formats]'"
        raise GenlabError(f"{file}: needs an extra: {fix}", path=file, fix=fix) from error
    return h5py


def _copy(stored: Any, file_size: int) -> Array:
    """Copy a stored array in slices of its first axis, and map the copy.

    Raises ValueError where it would be too large for a file of `file_size` bytes.
    """
    if stored.dtype.kind not in "buif":
        return np.asarray(stored[()])
    if stored.nbytes > min(MAX_GROWTH, max(MAX_BYTES, MAX_RATIO * file_size)):
        raise ValueError(f"{stored.name} would take {stored.nbytes >> 30:,} GiB")
    handle, name = tempfile.mkstemp(".npy", dir=make_temporary().name)
    with open(handle, "wb"):
        mapped = np.lib.format.open_memmap(name, mode="w+", dtype=stored.dtype, shape=stored.shape)
    row_bytes = max(1, stored.dtype.itemsize * int(np.prod(stored.shape[1:])))
    step = max(1, COPIED // row_bytes)
    for start in range(0, len(stored), step):
        mapped[start : start + step] = stored[start : start + step]
    return mapped


def load_matlab(file: Path) -> Mapping[str, Array]:
    """Load all arrays of a MATLAB file of any version, pictures first.

    Raises GenlabError, OSError and ValueError.
    """
    with file.open("rb") as stream:
        start = stream.read(len(SIGNATURE))
        stream.seek(512)  # a file of version 7.3 is HDF5 after a block of 512 bytes
        after_block = stream.read(len(SIGNATURE))
    if SIGNATURE in (start, after_block):
        # Version 7.3 stores the axes in reverse order.
        arrays = {name: array.transpose() for name, array in load_hdf5(file).items()}
    else:
        arrays = _load_in_subprocess(file)
    return {name: _move_last_axis(array) for name, array in arrays.items()}


def _load_in_subprocess(file: Path) -> dict[str, Array]:
    """Load the arrays of a MATLAB file of version 5 or older in another process.

    A damaged file can crash the process in which scipy reads it. Raises ValueError.
    """
    folder = tempfile.mkdtemp(dir=make_temporary().name)
    command = [sys.executable, "-c", LOAD_MATLAB, str(file), folder]
    result = subprocess.run(command, capture_output=True, text=True)  # noqa: S603 - our own script
    if result.returncode < 0:
        raise ValueError(f"its reader ended by signal {-result.returncode}")
    if result.returncode:
        raise ValueError(result.stderr.strip().splitlines()[-1])
    names = json.loads(result.stdout)
    return {
        name: np.load(Path(folder, f"{number}.npy"), mmap_mode="r")
        for number, name in enumerate(names)
    }


def _move_last_axis(array: Array) -> Array:
    """Put MATLAB's last axis first; a row or a column becomes a vector."""
    if array.ndim >= 3:
        return np.moveaxis(array, -1, 0)
    return array.ravel() if array.ndim == 2 and 1 in array.shape else array
