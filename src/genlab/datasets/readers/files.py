"""The files of a folder or of an archive, by relative name; nothing is ever unpacked beside them.

Debris of systems and tools is left out: hidden files and folders, `__MACOSX`, `Thumbs.db`.
"""

from __future__ import annotations

import gzip
import os
import tarfile
import tempfile
import unicodedata
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Protocol

from genlab.core.errors import GenlabError
from genlab.core.picture import Unreadable

DEBRIS = frozenset({"__macosx", "thumbs.db", "desktop.ini", "ehthumbs.db", "icon\r"})
ZIPS, TARS = (".zip",), (".tar", ".tar.gz", ".tgz")
MAX_FILES = 10_000_000
MAX_BYTES = 1 << 30  # of one file of an archive
MAX_GROWTH = 1 << 38  # of all files of a packed archive
START = 16  # bytes that tell what a file is


class Files(Protocol):
    """Files by name. names: relative, with `/`, sorted; debris: names of what was left out."""

    path: Path
    names: list[str]
    debris: list[str]

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises GenlabError where it cannot be read."""

    def start(self, name: str) -> bytes:
        """Return its first START bytes."""


def open_files(path: Path) -> Files:
    """Open a folder or an archive.

    A folder that holds one archive, and nothing else but debris, is that archive. Raises
    GenlabError where `path` is missing or neither.
    """
    if path.is_dir():
        folder = Folder(path)
        if len(folder.names) == 1 and is_archive(path / folder.names[0]):
            return open_files(path / folder.names[0])
        return folder
    if not path.exists():
        raise GenlabError(f"{path} is not there; name a folder, an archive or a file", path=path)
    if is_archive(path):
        return Zip(path) if path.name.lower().endswith(ZIPS) else Tar(path)
    raise GenlabError(f"{path}: neither a folder nor a zip or tar archive", path=path)


def is_archive(path: Path) -> bool:
    """Whether a file is an archive that is read here, by its ending."""
    return path.name.lower().endswith((*ZIPS, *TARS))


def is_debris(name: str) -> bool:
    """Whether a system or a tool left this file there, or its name leads out of the archive."""
    parts = PurePosixPath(name).parts
    return any(part.startswith((".", "/")) or part.lower() in DEBRIS for part in parts)


def sort_names(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the names to read, sorted, and those of debris."""
    wanted: list[str] = []
    debris: list[str] = []
    for name in names:
        (debris if is_debris(name) else wanted).append(name)
    return sorted(wanted, key=lambda name: (natural_key(name), name)), sorted(debris)


def natural_key(name: str) -> list[tuple[int, int, str]]:
    """Sort by folders, and in each by numbers as numbers: `2.png` before `10.png`."""
    normal = unicodedata.normalize("NFC", name)
    return [
        (0, int(part), "") if part.isascii() and part.isdigit() else (1, 0, part)
        for folder in normal.split("/")
        for part in (*_split_digits(folder), "")
    ]


def _split_digits(text: str) -> Iterator[str]:
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or text[end].isdigit() != text[start].isdigit():
            yield text[start:end]
            start = end


@dataclass
class Folder:
    """Files of a folder and of its folders; links are followed once."""

    path: Path
    names: list[str] = field(init=False)
    debris: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names, self.debris = sort_names(self._walk())

    def _walk(self) -> Iterator[str]:
        seen: set[tuple[int, int]] = set()
        for place, folders, names in os.walk(self.path, followlinks=True):
            state = os.stat(place)
            if (state.st_dev, state.st_ino) in seen:
                folders.clear()
                continue
            seen.add((state.st_dev, state.st_ino))
            relative = Path(place).relative_to(self.path)
            for name in names:
                yield (relative / name).as_posix()

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return (self.path / name).read_bytes()

    def start(self, name: str) -> bytes:
        """Return its first bytes."""
        with (self.path / name).open("rb") as file:
            return file.read(START)


@dataclass
class Zip:
    """Files of a zip archive."""

    path: Path
    names: list[str] = field(init=False)
    debris: list[str] = field(init=False)

    def __post_init__(self) -> None:
        try:
            entries = [entry for entry in self._archive.infolist() if not entry.is_dir()]
        except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError) as error:
            message = f"{self.path}: no whole zip archive ({error})"
            raise GenlabError(message, path=self.path) from error
        _check_size(self.path, len(entries), sum(entry.file_size for entry in entries))
        regular = [entry for entry in entries if (entry.external_attr >> 28) != 0xA]  # no links
        self.names, self.debris = sort_names(entry.filename for entry in regular)

    @cached_property
    def _archive(self) -> zipfile.ZipFile:
        return zipfile.ZipFile(self.path)

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_archive"}

    def read(self, name: str, most: int = MAX_BYTES) -> bytes:
        """Return the content of a file, at most `most` bytes of it."""
        try:
            with self._archive.open(name) as file:
                return file.read(most)
        except (zipfile.BadZipFile, RuntimeError, zlib.error, EOFError) as error:
            raise Unreadable(f"{name}: {error}", path=self.path) from error

    def start(self, name: str) -> bytes:
        """Return its first bytes."""
        return self.read(name, START)


@dataclass
class Tar:
    """Files of a tar archive; a packed one is unpacked, as one tar, into a temporary file."""

    path: Path
    names: list[str] = field(init=False)
    debris: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.plain = self.path
        self.places: dict[str, tuple[int, int]] = {}
        total = 0
        try:
            if not self.path.name.lower().endswith(".tar"):
                self._temporary = tempfile.TemporaryDirectory(prefix="genlab-tar-")
                self.plain = Path(self._temporary.name, "plain.tar")
                self._unpack()
            with tarfile.open(self.plain, "r:") as archive:
                for member in archive:
                    if member.isfile():  # no links
                        total += member.size
                        _check_size(self.path, len(self.places), total)
                        place = (member.offset_data, member.size)
                        self.places[member.name.removeprefix("./")] = place
        except (tarfile.TarError, OSError, EOFError, zlib.error) as error:
            message = f"{self.path}: no whole tar archive ({error})"
            raise GenlabError(message, path=self.path) from error
        self.names, self.debris = sort_names(self.places)

    def _unpack(self) -> None:
        size = 0
        with gzip.open(self.path) as source, self.plain.open("wb") as target:
            while chunk := source.read(1 << 20):
                size += len(chunk)
                _check_size(self.path, 0, size)
                target.write(chunk)

    def __getstate__(self) -> dict[str, object]:
        return {key: value for key, value in vars(self).items() if key != "_temporary"}

    def read(self, name: str, most: int = MAX_BYTES) -> bytes:
        """Return the content of a file, at most `most` bytes of it."""
        offset, size = self.places[name]
        with self.plain.open("rb") as file:
            file.seek(offset)
            return file.read(min(size, most))

    def start(self, name: str) -> bytes:
        """Return its first bytes."""
        return self.read(name, START)


def _check_size(path: Path, files: int, size: int) -> None:
    if files > MAX_FILES or size > MAX_GROWTH:
        held = f"{files:,} files of {size >> 30:,} GiB"
        most = f"at most {MAX_FILES:,} files and {MAX_GROWTH >> 30} GiB are read"
        raise GenlabError(f"{path}: the archive holds {held}; {most}", path=path, fix="unpack it")
