"""Files of the stages as the pages read them: parsed once, and again when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from genlab.core.errors import GenlabError
from genlab.core.io import read_json

P = ParamSpec("P")
T = TypeVar("T")
Stamp = tuple[int, int, int, int]

REPRO = "make repro"
# What code raises on content that is valid JSON but not what the stage writes.
UNFIT = (KeyError, TypeError, ValueError, IndexError, AttributeError)


_KEPT: dict[tuple[str, str], dict[Any, Any]] = {}


def stamp(path: str | Path) -> Stamp | None:
    """Inode, size and times, which distinguish versions of a file; None where there is none.

    `dvc checkout` may bring an older file back with its old modification time; then the inode or
    the time of the inode's change, which nobody can set, differs.
    """
    try:
        found = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def fresh(function: Callable[Concatenate[Path, P], T]) -> Callable[Concatenate[Path, P], T]:
    """Cache what a function makes of the file at its first argument until the file changes.

    The arguments must be hashable. An error is not cached.
    """
    # A page's functions are made again whenever it runs: their results are kept here.
    kept = _KEPT.setdefault((function.__code__.co_filename, function.__qualname__), {})

    @wraps(function)
    def wrapper(path: Path, /, *rest: P.args, **named: P.kwargs) -> T:
        key, found = (path, rest, *named.items()), stamp(path)
        if key not in kept or kept[key][0] != found:
            kept[key] = found, function(path, *rest, **named)
        result: T = kept[key][1]
        return result

    return wrapper


def require(path: Path, command: str = REPRO) -> Path:
    """Return `path` if it exists. Raises a GenlabError that names the command that makes it."""
    if not path.exists():
        line = f"{path} is not there yet; make it with: {command}"
        raise GenlabError(line, path=path, fix=command)
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
        line = f"{path} is not as this version writes it ({fault}); make it again with: {command}"
        raise GenlabError(line, path=path, fix=command) from error


@fresh
def _parse(path: Path, command: str) -> Any:
    return read_json(path, producer_command=command)
