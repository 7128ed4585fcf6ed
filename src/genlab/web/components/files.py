"""Files as the pages read them: parsed once, and again as soon as they are other files."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from pydantic import TypeAdapter, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from genlab.core.errors import GenlabError
from genlab.core.io import read_json

P = ParamSpec("P")
T = TypeVar("T")
Stamp = tuple[int, int, int, int]


class Missing(GenlabError):  # noqa: N818 (a state of the page, hardly an error)
    """Nothing is there yet, and `command` makes it: an empty page, not a fault."""

    def __init__(self, what: str, command: str) -> None:
        super().__init__(f"{what}; make it with: {command}")
        self.what, self.command = what, command


def stamp(path: str | Path) -> Stamp | None:
    """What tells one state of a file from the next: inode, size, times; None where there is none.

    `dvc checkout` may bring an older file back with its old modification time; then the inode or
    the time of the inode's change, which nobody can set, is another one.
    """
    try:
        found = Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return (found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def stamps(paths: Iterable[str | Path]) -> tuple[Stamp | None, ...]:
    """The stamps of several files."""
    return tuple(stamp(path) for path in paths)


def fresh(
    keep: int = 32,
) -> Callable[[Callable[Concatenate[Path, P], T]], Callable[Concatenate[Path, P], T]]:
    """Remember what a function makes of the file at its first argument, while it is that file.

    Other arguments must be hashable. An error is not remembered. `keep` results are held.
    """

    def decorate(function: Callable[Concatenate[Path, P], T]) -> Callable[Concatenate[Path, P], T]:
        @lru_cache(maxsize=keep)
        def remembered(path: Path, _: Stamp | None, rest: Any, named: Any) -> T:
            return function(path, *rest, **dict(named))

        @wraps(function)
        def wrapper(path: Path, /, *rest: P.args, **named: P.kwargs) -> T:
            return remembered(path, stamp(path), rest, tuple(sorted(named.items())))

        return wrapper

    return decorate


def require(path: Path, what: str, command: str) -> Path:
    """`path`, if it is there. Raises Missing, which says that `what` isn't and what makes it."""
    if not path.exists():
        raise Missing(what, command)
    return path


def json_at(path: Path, shape: Any = Any, *, producer_command: str) -> Any:
    """A JSON file of a stage, parsed once as long as it stays the same.

    shape: the type that its content must have (`genlab.web.shapes`).

    Raises Missing where there is none, and a GenlabError where it is truncated or of another shape.
    The value is shared: do not change it.
    """
    require(path, f"{path} is not there yet", producer_command)
    return _json(path, shape, producer_command)


def yaml_at(path: Path, shape: Any) -> Any:
    """A YAML file of the repository, as `json_at` reads JSON; git brings it back."""
    fix = f"git checkout -- {path.name}"
    require(path, f"{path} is not there yet", fix)
    return _yaml(path, shape, fix)


def fits(value: object, shape: Any) -> bool:
    """Whether a value has the shape."""
    try:
        TypeAdapter(shape).validate_python(value, strict=True)
    except ValidationError:
        return False
    return True


@fresh(keep=64)
def _json(path: Path, shape: Any, producer_command: str) -> Any:
    return of_shape(
        path, read_json(path, producer_command=producer_command), shape, producer_command
    )


@fresh()
def _yaml(path: Path, shape: Any, fix: str) -> Any:
    try:
        found = YAML(typ="safe", pure=True).load(path.read_text(encoding="utf-8"))
    except (YAMLError, ValueError) as error:  # not UTF-8, or a date that no calendar has
        fault = " ".join(str(error).split())[:160]
        raise GenlabError(
            f"{path} is not valid YAML ({fault}); mend it, or bring it back with: {fix}"
        ) from error
    return of_shape(path, found, shape, fix)


def of_shape(path: Path, value: Any, shape: Any, fix: str) -> Any:
    """`value`, read from `path`. Raises a GenlabError where it hasn't the shape."""
    try:
        TypeAdapter(shape).validate_python(value, strict=True)
    except ValidationError as error:
        fault = error.errors()[0]
        place = ".".join(str(part) for part in fault["loc"])[:80] or "what it holds"
        raise GenlabError(
            f"{path}: {place} is not as it should be ({fault['msg']}, got"
            f" {repr(fault['input'])[:40]}); make it again with: {fix}"
        ) from error
    return value
