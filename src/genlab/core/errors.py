"""Errors as one line: what went wrong, where, and what to do about it."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable

EXIT_ERROR = 2
EXIT_INTERRUPTED = 130
INTERRUPTED = "interrupted; finished files are kept, the same command goes on from them"

CURES = {
    errno.ENOSPC: "free some space on that disk, then run the same command again",
    errno.EDQUOT: "free some of your disk quota, then run the same command again",
    errno.EFBIG: "raise the limit of ulimit -f, then run the same command again",
    errno.EACCES: "make it writable and readable for you, or choose another path",
    errno.EPERM: "make it writable and readable for you, or choose another path",
    errno.EROFS: "choose a path on a disk that can be written",
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "a part of that path is a file: choose another path",
    errno.EISDIR: "that is a folder: name a file",
    errno.ENAMETOOLONG: "choose a shorter path",
}


class GenlabError(Exception):
    """A fault the user can mend; its message is one line naming the value, place and fix."""


def describe_os_error(error: OSError) -> str:
    """One line that names the file and the fix of a fault of the operating system."""
    where = error.filename if error.filename is not None else "input or output"
    what = error.strerror or str(error) or type(error).__name__
    fix = CURES.get(error.errno or 0, "check the path and the disk")
    return f"{where}: {what}; {fix}"


def run_cli(main: Callable[[], object]) -> None:
    """Run the command line `main` and end the process with one line where it fails.

    Exit status: 2 after a `GenlabError` or `OSError`, 130 after Ctrl-C, and `main`'s own where it
    calls `sys.exit`. Any other exception is a bug and keeps its traceback.
    """
    try:
        main()
    except GenlabError as error:
        _stop(f"error: {error}", EXIT_ERROR)
    except KeyboardInterrupt:
        _stop(INTERRUPTED, EXIT_INTERRUPTED)
    except SystemExit as stop:
        if stop.code == EXIT_INTERRUPTED:  # Typer's translation of Ctrl-C
            _stop(INTERRUPTED, EXIT_INTERRUPTED)
        raise
    except OSError as error:
        _stop(f"error: {describe_os_error(error)}", EXIT_ERROR)


def _stop(message: str, status: int) -> None:
    print("genlab: " + " ".join(message.split()), file=sys.stderr)
    sys.exit(status)
