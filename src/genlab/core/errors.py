"""Errors for users: one line that names the place, the value and the fix."""

from __future__ import annotations

import difflib
import errno
import io
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

from genlab.core import runtime

if TYPE_CHECKING:
    from filelock import BaseFileLock
    from pydantic import ValidationError

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
INTERRUPTED = "interrupted; finished files are kept, the same command resumes from them"

OUT_OF_MEMORY = (
    "allocate memory",  # torch on a CPU
    "out of memory",  # torch on a GPU
    "could not create a primitive",  # oneDNN, which torch uses on a CPU
    "can't start new thread",  # Python, which finds no room for a thread's stack
    "bad_alloc",  # a C++ library
    "failed to map segment",  # the dynamic linker, at the import of a library
)
"""Parts of the messages of a RuntimeError or ImportError that say that memory ran out."""
OS_FIXES = {
    errno.ENOSPC: "free some space on that disk, then run the same command again",
    errno.EDQUOT: "free some of your disk quota, then run the same command again",
    errno.EFBIG: "raise the limit of ulimit -f, then run the same command again",
    errno.ENOMEM: "free some memory or raise ulimit -v, then run the same command again",
    errno.EACCES: "make it writable and readable for you, or choose another path",
    errno.EPERM: "make it writable and readable for you, or choose another path",
    errno.EROFS: "choose a path on a disk that can be written",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "a part of that path is a file: choose another path",
    errno.EISDIR: "that is a folder: name a file",
    errno.ENAMETOOLONG: "choose a shorter path",
}


class GenlabError(Exception):
    """An error that the user can fix.

    message: the line that is printed. key: the parameter, option or field at fault. path: the file
    at fault. fix: the command or change that helps. The message already contains all three; the
    attributes are for programs.
    """

    def __init__(
        self,
        message: str,
        *,
        key: str | None = None,
        path: str | Path | None = None,
        fix: str | None = None,
    ) -> None:
        super().__init__(" ".join(message.splitlines()))
        self.key = key
        self.path = None if path is None else Path(path)
        self.fix = fix


def to_genlab_error(
    error: ValidationError, source: str | Path, valid_keys: Iterable[str] = ()
) -> GenlabError:
    """Turn pydantic's error into one line: the first violated rule, and how many more there are.

    valid_keys: names that a misspelt key is compared with.
    """
    (key, line), *others = list_violations(error, valid_keys)
    more = f" (and {len(others)} more)" if others else ""
    return GenlabError(f"{source}: {line}{more}", key=key or None, path=source)


def list_violations(
    error: ValidationError, valid_keys: Iterable[str] = ()
) -> list[tuple[str, str]]:
    """List key and message of every violated rule, those of missing keys last."""
    violations = []
    for rule in sorted(error.errors(), key=lambda rule: rule["type"] == "missing"):
        key = ".".join(str(step) for step in rule["loc"] if step != "[key]")
        line = rule["msg"].removeprefix("Value error, ").replace("Input", key or "it", 1)
        if rule["type"] == "extra_forbidden":
            suggestion = did_you_mean(key.rpartition(".")[2], valid_keys)
            line = f"{key} is not a known key{suggestion}"
        elif rule["type"] == "missing":
            line = f"{key} is missing"
        elif rule["type"] == "value_error":  # a rule of ours over several fields of a section
            line = f"{key}.{line}" if key else line
        else:
            quotes = _correct_quotes(rule["type"], rule["input"])
            line = f"{line if key in line else f'{key}: {line}'}, got {rule['input']!r}{quotes}"
        violations.append((key, line))
    return violations


def _correct_quotes(rule: str, value: object) -> str:
    """Return the fix for a scalar of YAML or JSON that has quotes too many, or too few; or ""."""
    if rule in ("int_type", "float_type") and isinstance(value, str):
        with suppress(ValueError):
            float(value)
            return "; write it without quotes"
    if rule == "string_type" and isinstance(value, (bool, int, float, date)):
        return "; put it in quotes"
    return ""


def acquire(lock: BaseFileLock, fault: str) -> AbstractContextManager[BaseFileLock]:
    """Acquire a lock between processes; leaving the returned context releases it.

    Raises a `GenlabError` with `fault` if another process holds it for longer than its timeout.
    """
    from filelock import Timeout  # takes 50 ms, and most commands lock nothing

    try:
        return lock.acquire()
    except Timeout as error:
        raise GenlabError(fault) from error


def did_you_mean(word: str, choices: Iterable[str]) -> str:
    """Return `"; did you mean beta_max?"`, or an empty string if no choice is similar."""
    matches = difflib.get_close_matches(word, list(choices), n=1, cutoff=0.5)
    return f"; did you mean {matches[0]}?" if matches else ""


def describe_os_error(error: OSError) -> str:
    """Describe an error of the operating system in one line, with the file and a fix."""
    file = error.filename if error.filename is not None else "input or output"
    reason = error.strerror or str(error) or type(error).__name__
    fix = OS_FIXES.get(error.errno or 0, "check the path and the disk")
    return f"{file}: {reason}; {fix}"


def run_cli(main: Callable[[], object]) -> None:
    """Run the command line `main`; if it fails, print one line and exit.

    The exit status is 2 after a `GenlabError`, an `OSError` or a lack of memory, 130 after Ctrl-C,
    and `main`'s own if it calls `sys.exit`. Any other exception is a bug and keeps its traceback.
    A stage of dvc ends when dvc does. Characters that the terminal cannot show are printed as
    escapes such as `\\xeb`. `--runs=~/runs` means the home folder, as `--runs ~/runs` does.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    sys.argv[1:] = [_expand_home(argument) for argument in sys.argv[1:]]
    try:
        with runtime.dvc_stage():
            main()
    except GenlabError as error:
        _exit(f"error: {error}", EXIT_ERROR)
    except KeyboardInterrupt:
        _exit(INTERRUPTED, EXIT_INTERRUPTED)
    except SystemExit as stop:
        if stop.code == EXIT_INTERRUPTED:  # Typer's translation of Ctrl-C
            _exit(INTERRUPTED, EXIT_INTERRUPTED)
        raise
    except OSError as error:
        _exit(f"error: {describe_os_error(error)}", EXIT_ERROR)
    except Exception as error:
        if not _is_out_of_memory(error):
            raise
        _exit(f"error: out of memory; {OS_FIXES[errno.ENOMEM]}", EXIT_ERROR)


def _expand_home(argument: str) -> str:
    """Expand `~` in `--option=~/path`; a shell expands it only at the start of a word."""
    option, separator, rest = argument.partition("=~")
    if option.startswith("--") and separator and rest[:1] in ("", "/"):
        return f"{option}={os.path.expanduser('~' + rest)}"
    return argument


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Whether memory ran out, also if another error followed, such as closing a truncated zip."""
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        may_be = isinstance(error, (RuntimeError, ImportError))
        if may_be and any(text in str(error) for text in OUT_OF_MEMORY):
            return True
        error = error.__context__
    return False


def _exit(message: str, status: int) -> None:
    print("genlab: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(status)
