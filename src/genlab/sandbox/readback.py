"""Read and remove files that a guest has left, trusting nothing about them."""

import os
import stat
import subprocess
from contextlib import suppress
from pathlib import Path

from genlab.core.errors import GenlabError
from genlab.sandbox.limits import MIB


def remove_tree(path: str | Path) -> None:
    """Remove a folder that a guest filled, even one nested deeper than shutil.rmtree recurses.

    It also removes folders that the guest closed to us. Raises a GenlabError where something is
    left.
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
    """Remove the files of a folder that is no link, without starting a process.

    Starting one takes as long as a short job. Raises OSError where it holds a folder.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for name in os.listdir(handle):
            os.unlink(name, dir_fd=handle)
    finally:
        os.close(handle)


def read_back(workspace: str | Path, path: str | Path, *, limit: int = 256 * MIB) -> bytes:
    """Read a plain file in `workspace`; `path` is relative to it.

    The path is opened folder by folder and no link is followed, so that nothing can be exchanged
    between a check and its use. Raises a GenlabError for `..`, an absolute path, a link (also a
    second name of the same file), folder, device, fifo or socket, a missing file, and one of more
    than `limit` bytes. The content is not checked: parse it as JSON or safetensors, never unpickle
    it.
    """
    relative = Path(path)
    parts = relative.parts
    if relative.is_absolute() or not parts or ".." in parts or "\0" in str(path):
        raise GenlabError(f"{path}: name a file inside of the workspace")
    handle = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for depth, name in enumerate(parts, 1):
            is_last = depth == len(parts)
            # Without O_NONBLOCK a fifo would hold us for ever; O_NOFOLLOW refuses a link.
            kind_flag = os.O_NONBLOCK if is_last else os.O_DIRECTORY
            try:
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | kind_flag
                next_handle = os.open(name, flags, dir_fd=handle)
            except OSError as error:
                raise GenlabError(f"{path}: {error.strerror}; it must be a plain file") from error
            os.close(handle)
            handle = next_handle
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink != 1:
            raise GenlabError(f"{path}: not a plain file with one name; the guest must write one")
        if state.st_size > limit:
            raise GenlabError(f"{path}: {state.st_size} bytes, more than {limit}; write less")
        with os.fdopen(os.dup(handle), "rb") as file:
            content = file.read(limit + 1)
    finally:
        os.close(handle)
    if len(content) > limit:
        raise GenlabError(f"{path}: more than {limit} bytes; write less")
    return content
