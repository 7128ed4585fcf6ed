"""Write files atomically; check files when they are read."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from genlab.core.errors import GenlabError

if TYPE_CHECKING:  # importing it takes a tenth of a second
    import numpy.typing as npt

HEADER = "header"
UNFINISHED = Path("data/.making")
"""Folder of what killed runs have finished, by a digest of their params; git ignores it."""

Array: TypeAlias = "npt.NDArray[Any]"


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success, sync it to disk and rename it to `path`.

    If the block raises, the temporary file is removed and `path` keeps its content. An `OSError`
    without a file name, such as a full disk in the middle of a write, is raised as one that names
    `path`. Missing parent folders are made.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    # The suffix is kept: matplotlib and others choose the format by it.
    try:
        handle, name = tempfile.mkstemp(".part" + target.suffix, f".{target.name}.", target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(target)) from error
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp's 0600 would lock colleagues out
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        if error.filename in (None, name):
            raise OSError(error.errno, error.strerror or str(error), str(target)) from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_bytes(path: str | Path, data: bytes) -> None:
    """Write `data` to `path` atomically."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path` atomically, as UTF-8."""
    write_bytes(path, text.encode("utf-8"))


def write_json(path: str | Path, value: object) -> None:
    """Write `value` atomically as indented JSON.

    Raises a `GenlabError` for NaN and infinity, which JSON lacks, and for what is not JSON.
    """
    try:
        text = json.dumps(value, indent=2, allow_nan=False, ensure_ascii=False)
    except (ValueError, TypeError) as error:
        raise GenlabError(f"{path}: not writable as JSON: {error}") from error
    write_text(path, text + "\n")


def read_json(path: str | Path, *, producer_command: str, kind: str | None = None) -> Any:
    """Read a JSON file.

    producer_command: the command that makes the file; every error names it. kind: if given, the
    file must hold an object whose key `kind` has this value. Raises a `GenlabError` for a missing,
    truncated or foreign file.
    """
    try:
        value = json.loads(_read(path, producer_command))
    except (ValueError, RecursionError) as error:
        raise file_error(path, f"is truncated or not JSON ({error})", producer_command) from error
    stored_kind = value.get("kind") if isinstance(value, dict) else None
    if kind is not None and stored_kind != kind:
        fault = f"holds {stored_kind or 'something else'}, not {kind}"
        raise file_error(path, fault, producer_command)
    return value


def parse_as_dvc(text: str) -> Any:
    """Parse YAML 1.2 with ruamel.yaml, as DVC parses params.yaml. A duplicate key is an error."""
    return YAML(typ="safe", pure=True).load(text)


def read_yaml(path: str | Path, parse: Callable[[str], Any] = parse_as_dvc) -> dict[str, Any]:
    """Read a YAML mapping from a file that git tracks. Raises a `GenlabError` of one line."""
    restore = f"git checkout -- {path}"
    try:
        values = parse(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise GenlabError(
            f"{path} is missing; run from the repository's root, or restore it with: {restore}",
            path=path,
            fix=restore,
        ) from error
    except UnicodeDecodeError as error:
        raise GenlabError(f"{path} is not UTF-8 text; save it as UTF-8", path=path) from error
    except (YAMLError, ValueError, RecursionError) as error:  # such as a number of 5,000 digits
        reason = " ".join(str(error).split())
        raise GenlabError(f"{path} is not valid YAML: {reason}", path=path) from error
    if not isinstance(values, dict):
        kind = type(values).__name__
        raise GenlabError(f"{path} must hold keys and values, got {kind}", path=path)
    return values


def encode_npz(arrays: Mapping[str, Array], *, kind: str, version: int = 1) -> bytes:
    """Encode named arrays as a compressed `.npz`; equal arrays give equal bytes.

    An additional text entry `header` holds `kind` and `version` as JSON, which `read_npz` checks.
    `numpy.load` can read the file, too. Arrays of Python objects are refused.
    """
    if HEADER in arrays:
        raise ValueError(f"an array cannot be called {HEADER!r}, which is the format's own entry")
    import numpy as np

    header = np.array(json.dumps({"kind": kind, "version": version}))
    buffer = io.BytesIO()
    np.savez_compressed(buffer, allow_pickle=False, **{HEADER: header, **arrays})
    return buffer.getvalue()


def write_npz(
    path: str | Path, arrays: Mapping[str, Array], *, kind: str, version: int = 1
) -> None:
    """Write `encode_npz` of the arrays atomically."""
    write_bytes(path, encode_npz(arrays, kind=kind, version=version))


def read_npz(
    path: str | Path,
    *,
    kind: str | None,
    keys: Sequence[str],
    producer_command: str,
    version: int = 1,
) -> dict[str, Array]:
    """Read the arrays `keys` of a `.npz` file; nothing is unpickled.

    kind: if None, any `.npz` with these keys is accepted, such as a user's own; else the header
    must hold this `kind` and `version`. producer_command: the command that makes the file; every
    error names it. Raises a `GenlabError` for a missing, truncated or foreign file, a missing key,
    another kind or version.
    """
    import numpy as np

    data = _read(path, producer_command)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("a single array")
            names = archive.files
            header = json.loads(str(archive[HEADER])) if HEADER in names else {}
            arrays = {key: archive[key] for key in keys if key in names}
    except Exception as error:  # numpy and zipfile raise almost anything on a damaged file
        reason = " ".join(str(error).split())[:80] or type(error).__name__
        fault = f"is truncated or no .npz of plain arrays ({reason})"
        raise file_error(path, fault, producer_command) from error
    expected = {"kind": kind, "version": version}
    if kind is not None and header != expected:
        raise file_error(path, f"must hold {expected}, found {header}", producer_command)
    for key in keys:
        if key not in arrays:
            raise file_error(
                path, f"has no key {key!r} (it has {', '.join(names)})", producer_command
            )
    return arrays


def map_npy(path: str | Path, *, producer_command: str) -> Array:
    """Map the array of a `.npy` file, read-only; it may be larger than memory."""
    import numpy as np

    try:
        return np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError as error:
        raise file_error(path, "is missing", producer_command) from error
    except OSError as error:  # such as no address space: mmap's errors name no file
        raise OSError(error.errno, error.strerror, str(path)) from error
    except Exception as error:
        raise file_error(path, "is truncated or no .npy file", producer_command) from error


def sha256(path: str | Path) -> str:
    """Hexadecimal SHA-256 of a file's content."""
    with Path(path).open("rb") as file:
        digest = hashlib.sha256()
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _read(path: str | Path, producer_command: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except FileNotFoundError as error:
        raise file_error(path, "is missing", producer_command) from error


def file_error(path: str | Path, fault: str, producer_command: str) -> GenlabError:
    """Return the error of a missing or unusable file; it names the command that makes the file."""
    line = f"{path} {fault}; make it with: {producer_command}"
    return GenlabError(line, path=path, fix=producer_command)
