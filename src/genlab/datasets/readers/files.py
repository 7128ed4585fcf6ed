"""The files of a folder or of an archive, by relative name; nothing is ever unpacked beside them.

Debris of systems and tools is left out: hidden files and folders, `__MACOSX`, `Thumbs.db`.
"""

from __future__ import annotations

import gzip
import os
import re
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path, PurePosixPath
from typing import Protocol

from genlab.core.errors import GenlabError
from genlab.core.picture import UnreadablePictureError

DEBRIS = frozenset({"__macosx", "thumbs.db", "desktop.ini", "ehthumbs.db", "icon\r"})
ZIPS = (".zip",)
TARS = (".tar", ".tar.gz", ".tgz")
MAX_FILES = 10_000_000
MAX_BYTES = 1 << 30  # of one file of an archive
MAX_GROWTH = 1 << 38  # of all files of a packed archive
START = 16  # number of first bytes that identify a file's format
DIGITS = 16  # numbers in names are padded to so many digits before they are sorted


class Contents(Protocol):
    """Reads files by name; other processes get a copy of it."""

    def read(self, name: str, most: int = MAX_BYTES) -> bytes:
        """Return the content of a file, at most `most` bytes of it.

        Raises OSError and UnreadablePictureError.
        """

    def select(self, names: Sequence[str]) -> Contents:
        """Return one that reads these names at least."""


@dataclass(frozen=True)
class Files:
    """The files of a folder or an archive.

    names: relative, with `/`, in natural order. debris: names of files that systems and tools left
    there, sorted; they are not read.
    """

    path: Path
    names: list[str]
    debris: list[str]
    contents: Contents

    @classmethod
    def collect(cls, path: Path, names: Iterable[str], contents: Contents) -> Files:
        """Sort names and separate those of debris."""
        regular: list[str] = []
        debris: list[str] = []
        for name in names:
            (debris if is_debris(name) else regular).append(name)
        regular.sort()
        regular.sort(key=natural_key)
        return cls(path, regular, sorted(debris), contents)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return self.contents.read(name)

    def read_start(self, name: str) -> bytes:
        """Return the first START bytes of a file; none where it cannot be read."""
        try:
            return self.contents.read(name, START)
        except (OSError, UnreadablePictureError):
            return b""


def open_files(path: Path) -> Files:
    """Open a folder or an archive.

    A folder that holds one archive, and nothing else but debris, is that archive. Raises
    GenlabError where `path` is missing or neither.
    """
    if path.is_dir():
        files = Files.collect(path, _walk(path), FolderContents(path))
        if len(files.names) == 1 and is_archive(path / files.names[0]):
            return open_files(path / files.names[0])
        return files
    if not path.exists():
        raise GenlabError(f"{path} is not there; name a folder, an archive or a file", path=path)
    if is_archive(path):
        return open_zip(path) if path.name.lower().endswith(ZIPS) else open_tar(path)
    raise GenlabError(f"{path}: neither a folder nor a zip or tar archive", path=path)


def is_archive(path: Path) -> bool:
    """Whether a file is an archive that can be read, by its ending."""
    return path.name.lower().endswith((*ZIPS, *TARS))


def is_tar(path: Path) -> bool:
    """Whether a path is a tar archive, by its ending, or a folder of such."""
    if path.is_dir():
        return any(path.glob("*.tar"))
    return path.name.lower().endswith(TARS)


def is_debris(name: str) -> bool:
    """Whether a system or a tool left this file there, or its name leads out of the archive."""
    folders_and_file = PurePosixPath(name).parts
    return any(word.startswith((".", "/")) or word.lower() in DEBRIS for word in folders_and_file)


def natural_key(name: str) -> str:
    """Sort key that orders by folders, and in each by numbers: `2.png` before `10.png`."""
    normal = unicodedata.normalize("NFC", name).replace("/", "\0")
    return re.sub(r"[0-9]+", lambda digits: digits[0].zfill(DIGITS), normal)


@dataclass(frozen=True)
class FolderContents:
    """Reads files of a folder."""

    path: Path

    def read(self, name: str, most: int = MAX_BYTES) -> bytes:
        """Return the content of a file, at most `most` bytes of it."""
        with (self.path / name).open("rb") as file:
            return file.read(most)

    def select(self, names: Sequence[str]) -> FolderContents:
        """Return itself."""
        return self


def _walk(path: Path) -> Iterator[str]:
    """Yield the names of the files of a folder and its subfolders; links are followed once."""
    visited: set[tuple[int, int]] = set()
    for folder, subfolders, names in os.walk(path, followlinks=True):
        state = os.stat(folder)
        if (state.st_dev, state.st_ino) in visited:
            subfolders.clear()
            continue
        visited.add((state.st_dev, state.st_ino))
        relative = Path(folder).relative_to(path)
        for name in names:
            yield (relative / name).as_posix()


@dataclass(frozen=True)
class ZipContents:
    """Reads files of a zip archive."""

    path: Path

    def read(self, name: str, most: int = MAX_BYTES) -> bytes:
        """Return the content of a file, at most `most` bytes of it."""
        try:
            with _open_archive(self.path).open(name) as file:
                return file.read(most)
        except Exception as error:  # zipfile and its decoders raise many things
            raise UnreadablePictureError(f"{name}: {error}", path=self.path) from error

    def select(self, names: Sequence[str]) -> ZipContents:
        """Return itself."""
        return self


@lru_cache(maxsize=1)
def _open_archive(path: Path) -> zipfile.ZipFile:
    """Open a zip archive; each process reads its directory once."""
    return zipfile.ZipFile(path)


def open_zip(path: Path) -> Files:
    """Open a zip archive. Raises GenlabError where it is damaged or too large."""
    _open_archive.cache_clear()  # of another archive that was here before
    try:
        entries = _open_archive(path).infolist()
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
        raise GenlabError(f"{path}: no whole zip archive ({error})", path=path) from error
    entries = [entry for entry in entries if entry.filename and not entry.is_dir()]
    _check_size(path, len(entries), sum(entry.file_size for entry in entries))
    regular = [entry for entry in entries if (entry.external_attr >> 28) != 0xA]  # no links
    return Files.collect(path, (entry.filename for entry in regular), ZipContents(path))


@dataclass(frozen=True)
class TarContents:
    """Reads files of a tar that is not packed. members: offset and size of each file, by name."""

    plain: Path
    members: Mapping[str, tuple[int, int]]

    def read(self, name: str, most: int = MAX_BYTES) -> bytes:
        """Return the content of a file, at most `most` bytes of it."""
        offset, size = self.members[name]
        with self.plain.open("rb") as file:
            file.seek(offset)
            return file.read(min(size, most))

    def select(self, names: Sequence[str]) -> TarContents:
        """Return one that reads these names."""
        return TarContents(self.plain, {name: self.members[name] for name in names})


def open_tar(path: Path) -> Files:
    """Open a tar archive; a packed one is unpacked, as one tar, until the process ends.

    Raises GenlabError where it is damaged or too large.
    """
    members: dict[str, tuple[int, int]] = {}
    total = 0
    try:
        plain = path if path.name.lower().endswith(".tar") else _unpack(path)
        with tarfile.open(plain, "r:") as archive:
            for member in archive:
                if member.isfile():  # no links
                    total += member.size
                    _check_size(path, len(members), total)
                    name = member.name.removeprefix("./")
                    members[name] = (member.offset_data, member.size)
    except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
        raise GenlabError(f"{path}: no whole tar archive ({error})", path=path) from error
    return Files.collect(path, members, TarContents(plain, members))


def _unpack(path: Path) -> Path:
    """Unpack a tar.gz as one tar into a temporary folder of this process."""
    handle, plain = tempfile.mkstemp(".tar", dir=make_temporary().name)
    size = 0
    with gzip.open(path) as source, open(handle, "wb") as target:
        while chunk := source.read(1 << 20):
            size += len(chunk)
            _check_size(path, 0, size)
            target.write(chunk)
    return Path(plain)


@cache
def make_temporary() -> tempfile.TemporaryDirectory[str]:
    """Make the folder of this process for unpacked and copied files; it is removed at its end."""
    return tempfile.TemporaryDirectory(prefix="genlab-read-")


def _check_size(path: Path, files: int, size: int) -> None:
    if files > MAX_FILES or size > MAX_GROWTH:
        held = f"{files:,} files of {size >> 30:,} GiB"
        most = f"at most {MAX_FILES:,} files and {MAX_GROWTH >> 30} GiB are read"
        raise GenlabError(f"{path}: the archive holds {held}; {most}", path=path, fix="unpack it")
