"""Read files of the stages for the pages: parsed once, and again when they change."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import streamlit as st

from genlab.core.io import file_error, read_json

P = ParamSpec("P")
T = TypeVar("T")

REPRO = "make repro"
# Raised by code that reads valid JSON with other content than the stage writes.
CONTENT_ERRORS = (KeyError, TypeError, ValueError, IndexError, AttributeError)


def file_version(path: str | Path) -> tuple[str, ...]:
    """Return the path with the file's inode, size and times, which identify its version.

    `dvc checkout` may restore an older file with its old modification time; then the inode or the
    change time, which no program can set, differs.
    """
    try:
        status = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return (str(path),)
    values = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return (str(path), *map(str, values))


def cache_by_file(function: Callable[P, T], entries: int = 64) -> Callable[P, T]:
    """Cache the result of a function of a file until the file changes. Errors are not cached.

    entries: maximum number of results, including those of earlier versions of a file.
    """
    options: Any = {"hash_funcs": {type(Path()): file_version}, "show_spinner": False}
    return st.cache_resource(max_entries=entries, **options)(function)


def require(path: Path, command: str = REPRO) -> Path:
    """Return `path` if it exists. Raises a GenlabError that names the command that makes it."""
    if not path.exists():
        raise file_error(path, "is not there yet", command)
    return path


@contextmanager
def open_json(path: Path, command: str = REPRO) -> Iterator[Any]:
    """Yield the content of a stage's JSON file, which is cached: do not change it.

    command: makes the file. Raises a GenlabError that names the file if it is missing or truncated,
    or if the block cannot use its content.
    """
    content = _parse(require(path, command), command)
    try:
        yield content
    except CONTENT_ERRORS as error:
        fault = f"{type(error).__name__}: {' '.join(str(error).split())[:80]}"
        raise file_error(path, f"is not as this version writes it ({fault})", command) from error


@cache_by_file
def _parse(path: Path, command: str) -> Any:
    return read_json(path, producer_command=command)
