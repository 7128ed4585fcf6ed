"""Take a file that a guest left, trusting nothing about it."""

import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

from genlab.core.errors import GenlabError
from genlab.sandbox.limits import MIB


def remove_tree(path: str | Path) -> None:
    """Remove a folder that a guest filled, nested deeper perhaps than shutil.rmtree recurses.

    Its folders may be shut. Raises a GenlabError where something is left.
    """
    with suppress(OSError):  # it holds folders, or may not be changed
        _remove_files(path)
        os.rmdir(path)
        return
    # By their full paths: whoever calls may have an empty PATH.
    for command in (["/bin/chmod", "-R", "u+rwX"], ["/bin/rm", "-rf"]):
        words = [*command, "--", str(path)]
        subprocess.run(words, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    if os.path.lexists(path):
        raise GenlabError(f"{path}: could not be removed whole; remove it by hand")


def _remove_files(folder: str | Path) -> None:
    """Remove the files of a folder that is no link; commands would take as long as many a job.

    Raises OSError where it holds a folder.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in os.listdir(handle):
            os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)


def read_back(workspace: str | Path, path: str | Path, *, limit: int = 256 * MIB) -> bytes:
    """The bytes of a plain file in `workspace`; `path` is relative to it.

    Every part of the path is opened by itself and no link is followed, so that nothing can be
    exchanged between a check and its use. Raises a GenlabError for `..`, an absolute path, a link
    (also a second name of the same file), folder, device, fifo or socket, a file that is missing,
    and one of more than `limit` bytes. What the bytes hold is not looked at: parse them as JSON or
    safetensors, never unpickle them.
    """
    wanted = Path(path)
    parts = wanted.parts
    if wanted.is_absolute() or not parts or ".." in parts or "\0" in str(path):
        raise GenlabError(f"{path}: name a file inside of the workspace")
    handle = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, name in enumerate(parts, 1):
            last = depth == len(parts)
            # Without O_NONBLOCK a fifo would hold us for ever; O_NOFOLLOW refuses a link.
            kind = os.O_NONBLOCK if last else os.O_DIRECTORY
            try:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind
                lower = os.open(name, flags, dir_fd=handle)
            except OSError as error:
                raise GenlabError(f"{path}: {error.strerror}; it must be a plain file") from error
            os.close(handle)
            handle = lower
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
            raise GenlabError(f"{path}: not a plain file with one name; the guest must write one")
        if state.st_size > limit:
            raise GenlabError(f"{path}: {state.st_size} bytes, more than {limit}; write less")
        with os.fdopen(os.dup(handle), "rb") as file:
            held = file.read(limit + 1)
    finally:
        os.close(handle)
    if len(held) > limit:
        raise GenlabError(f"{path}: more than {limit} bytes; write less")
    return held
