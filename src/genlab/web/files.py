"""Files of the stages as the pages read them: parsed once, and again when they change."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from genlab.core.io import file_error, read_json

P = ParamSpec("P")
T = TypeVar("T")

REPRO = "make repro"
# What code raises on content that is valid JSON but not what the stage writes.
UNFIT = (KeyError, TypeError, ValueError, IndexError, AttributeError)


def stamp(path: str | Path) -> tuple[str, ...]:
    """The path with inode, size and times of the file: they distinguish its versions.

    `dvc checkout` may bring an older file back with its old modification time; then the inode or
    the time of the inode's change, which nobody can set, differs.
    """
    try:
        found = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return (str(path),)
    versions = (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return (str(path), *map(str, versions))


def fresh(function: Callable[P, T], entries: int = 64) -> Callable[P, T]:
    """Cache what a function makes of a file until the file changes. An error is not cached.

    entries: how many results are kept, those of earlier versions of a file included.
    """
    options: Any = {"hash_funcs": {type(Path()): stamp}, "show_spinner": False}
    return st.cache_resource(max_entries=entries, **options)(function)


def require(path: Path, command: str = REPRO) -> Path:
    """Return `path` if it exists. Raises a GenlabError that names the command that makes it."""
    if not path.exists():
        raise file_error(path, "is not there yet", command)
    return path


@contextmanager
def reading(path: Path, command: str = REPRO) -> Iterator[Any]:
    """Yield the content of a stage's JSON file, which `command` makes. Do not change it.

    Raises a GenlabError that names the file where it is missing or truncated, or where the block
    cannot use what it holds.
    """
    content = _parse(require(path, command), command)
    try:
        yield content
    except UNFIT as error:
        fault = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
        raise file_error(path, f"is not as this version writes it ({fault})", command) from error


@fresh
def _parse(path: Path, command: str) -> Any:
    return read_json(path, producer_command=command)
