"""Back up a folder of runs to one file while the app writes to it, and restore it.

An archive is a zip file: a copy of the store by SQLite's online backup, every other file of the
folder, and `backup.json` with the SHA-256 of each file. The store is copied first, so that the
pictures that it names exist. Not protected: photographs and pictures in an archive are not
encrypted.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import IO

from genlab.benchmark.store import migrations
from genlab.benchmark.store.repository import STORE, Store
from genlab.benchmark.store.schema import now
from genlab.core.errors import GenlabError
from genlab.core.io import atomic_write

MANIFEST = "backup.json"
HEADER = {"kind": "genlab_backup", "version": 1}
PASSES = 3  # over the folder: new files may replace listed ones meanwhile
CHUNK = 1 << 20  # bytes


def back_up(runs: Path, archive: Path) -> list[str]:
    """Write the store and all files of `runs` to `archive`, atomically.

    Returns the pictures that are missing or whose content is not that of the store. Raises a
    `GenlabError` if the store is damaged.
    """
    digests: dict[str, str] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        atomic_write(archive) as temporary,
        zipfile.ZipFile(temporary, "w", allowZip64=True) as target,
    ):
        copy = Path(folder) / STORE
        pictures = _copy_store(runs / STORE, copy)
        digests[STORE] = _add(target, copy, STORE)
        for _ in range(PASSES):
            for name in _list_files(runs):
                with suppress(FileNotFoundError):  # a received answer, removed meanwhile
                    if name not in digests and runs / name != archive:
                        digests[name] = _add(target, runs / name, name)
        target.writestr(MANIFEST, json.dumps({**HEADER, "files": digests}))
    return sorted(name for name, digest in pictures.items() if digests.get(name) != digest)


def restore(archive: Path, runs: Path, *, replace: bool = False) -> Path | None:
    """Replace `runs` by an archive of `back_up`; returns the new path of the earlier folder.

    The archive is unpacked beside `runs` and checked before anything is moved; nothing is deleted.
    Raises a `GenlabError` if the archive is damaged or unsafe, if `runs` holds files and `replace`
    is false, or if a program has the store open.
    """
    runs = runs.resolve()
    occupied = runs.is_dir() and any(runs.iterdir())
    if occupied and not replace:
        raise GenlabError(f"{runs} holds files; move them away, or add --replace, which keeps them")
    runs.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".genlab-", dir=runs.parent) as temporary:
        new = Path(temporary) / "new"
        _unpack(archive, new)
        Store(new / STORE).close()  # raises if it is damaged or of a newer version
        if not occupied:
            new.rename(runs)
            return None
        _require_closed(runs / STORE)
        old = runs.with_name(f"{runs.name}.replaced-{now()[:19].replace(':', '')}")
        runs.rename(old)
        try:
            new.rename(runs)
        except OSError:
            old.rename(runs)
            raise
    return old


def _copy_store(path: Path, copy: Path) -> dict[str, str]:
    """Copy a store while others may write to it; returns the SHA-256 of its pictures by name."""
    migrations.check_file(path)
    try:
        with (
            closing(sqlite3.connect(path, timeout=migrations.BUSY_SECONDS)) as source,
            closing(sqlite3.connect(copy)) as target,
        ):
            source.backup(target)
            rows = target.execute("SELECT image, image_sha256 FROM run_items WHERE image != ''")
            pictures = dict(rows.fetchall())
    except sqlite3.DatabaseError as error:
        raise migrations.describe_fault(path, error) from error
    migrations.check_file(copy)
    return pictures


def _require_closed(path: Path) -> None:
    """Raise a `GenlabError` if another program has the store open.

    The program would continue to write to the folder that is moved away.
    """
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(path, timeout=1)) as connection:
        try:
            connection.execute("PRAGMA journal_mode = DELETE")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                fix = "stop the app and runs, then restore"
                raise GenlabError(f"{path} is open in another program; {fix}") from error
            raise


def _list_files(runs: Path) -> Iterator[str]:
    """Yield the names of the files of `runs`, except the store, locks and unfinished files."""
    for path in sorted(runs.rglob("*")):
        name = path.relative_to(runs).as_posix()
        if name.startswith(STORE) or path.name == ".lock" or ".part" in path.suffixes:
            continue
        if _is_safe(name) and path.is_file() and not path.is_symlink():
            yield name


def _is_safe(name: str) -> bool:
    """Whether a file of this name is unpacked below the target folder, on every system."""
    if not name.isprintable() or "\\" in name or ":" in name:
        return False
    return not {"", ".", ".."} & set(name.split("/"))


def _add(target: zipfile.ZipFile, path: Path, name: str) -> str:
    """Append a file; returns its SHA-256."""
    with path.open("rb") as source, target.open(name, "w", force_zip64=True) as entry:
        return _copy(source, entry)


def _copy(source: IO[bytes], target: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while chunk := source.read(CHUNK):
        digest.update(chunk)
        target.write(chunk)
    return digest.hexdigest()


def _unpack(archive: Path, folder: Path) -> None:
    """Unpack the files of an archive. Raises a `GenlabError` if it is not one of `back_up`."""
    try:
        with zipfile.ZipFile(archive) as source:
            manifest = json.loads(source.read(MANIFEST))
            files = manifest.pop("files")
            names = [name for name in source.namelist() if name != MANIFEST]
            if manifest != HEADER or sorted(files) != sorted(names) or STORE not in files:
                raise ValueError("its list of files differs from its content")
            for name in names:
                if not _is_safe(name):
                    raise ValueError(f"a file in it has the name {name[:80]!r}")
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with source.open(name) as entry, path.open("xb") as target:
                    if _copy(entry, target) != files[name]:
                        raise ValueError(f"{name} is damaged")
    except OSError:
        raise
    except Exception as error:  # zipfile and json raise almost anything on a damaged file
        raise GenlabError(f"{archive} is no sound backup ({error}); name another one") from error
