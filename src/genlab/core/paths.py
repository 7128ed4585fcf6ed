"""Where a path that a user wrote down lies: `~` is the home folder.

A relative path is one from the main repository, also where dvc runs an experiment in a copy of it
(`dvc exp run --temp` and the queue work in .dvc/tmp/exps/NAME). A name is compared with those on
disk as people read it: a Mac stores `ü` in two parts, an old archive may have stored it in Latin-1.
"""

import os
import unicodedata
from contextlib import suppress
from pathlib import Path

COPIES = (".dvc", "tmp", "exps")
"""Where, in a repository, dvc makes copies of it."""

_ESCAPED_BYTES = {0xDC80 + byte: 0x80 + byte for byte in range(0x80)}  # as Python stands for them


def resolve_path(path: str | Path) -> Path:
    """The file or folder that a user's path means; relative where that says the same."""
    place = Path(os.path.expanduser(path))  # which leaves the name of an unknown user as it is
    return match_disk_names(place if place.is_absolute() else _main_repository() / place)


def resolve_beside(folder: Path, path: str | Path) -> Path:
    """The file that a path means which begins in `folder` where it is relative."""
    return match_disk_names(folder / os.path.expanduser(path))


def match_disk_names(path: Path) -> Path:
    """`path`, with names as the disk has them where it has them in another encoding alone."""
    if path == path.parent or os.path.lexists(path):
        return path
    folder = match_disk_names(path.parent)
    wanted = normalise_name(path.name)
    with suppress(OSError):  # no folder, or one that is closed
        for name in sorted(os.listdir(folder)):
            if normalise_name(name) == wanted:
                return folder / name
    return folder / path.name


def normalise_name(name: str) -> str:
    """A file's name as people write it: composed (NFC); bytes that are no UTF-8 are Latin-1."""
    return unicodedata.normalize("NFC", name.translate(_ESCAPED_BYTES))


def _main_repository() -> Path:
    """The repository that this is a copy of, made by dvc; the current folder where it is none."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if folder.parts[-4:-1] == COPIES:
            return folder.parents[3]
    return Path()
