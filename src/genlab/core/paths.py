"""Resolve paths that users write, in params.yaml and elsewhere.

`~` is the home folder. A relative path is relative to the main repository, also where dvc runs an
experiment in a copy of it (`dvc exp run --temp` and the queue work in .dvc/tmp/exps/NAME). Names
are compared with those on disk as people read them: a Mac stores `ü` as two characters, and an old
archive may have stored it in Latin-1.
"""

import os
import unicodedata
from contextlib import suppress
from pathlib import Path

COPIES = (".dvc", "tmp", "exps")
"""Folder, below a repository, of the copies that dvc makes of it."""

# Python represents a byte of a name that is not UTF-8 by a lone surrogate, which Latin-1 decodes.
_ESCAPED_BYTES = {0xDC80 + byte: 0x80 + byte for byte in range(0x80)}


def resolve_path(path: str | Path) -> Path:
    """Resolve a user's path to a file or folder; relative to the current folder where possible."""
    expanded = Path(os.path.expanduser(path))  # the name of an unknown user stays as it is
    if not expanded.is_absolute():
        expanded = _find_main_repository() / expanded
    return match_disk_names(expanded)


def resolve_beside(folder: Path, path: str | Path) -> Path:
    """Resolve a user's path; a relative one is relative to `folder`."""
    return match_disk_names(folder / os.path.expanduser(path))


def match_disk_names(path: Path) -> Path:
    """Replace names in `path` that the disk has in another Unicode form or encoding only."""
    if path == path.parent or os.path.lexists(path):
        return path
    folder = match_disk_names(path.parent)
    normalised = normalise_name(path.name)
    with suppress(OSError):  # not a folder, or not readable
        for name in sorted(os.listdir(folder)):
            if normalise_name(name) == normalised:
                return folder / name
    return folder / path.name


def normalise_name(name: str) -> str:
    """Return a file's name in composed Unicode (NFC), with bytes that are not UTF-8 as Latin-1."""
    return unicodedata.normalize("NFC", name.translate(_ESCAPED_BYTES))


def _find_main_repository() -> Path:
    """Find the repository that dvc copied to the current folder; else the current folder."""
    current = Path.cwd()
    for folder in (current, *current.parents):
        if folder.parts[-4:-1] == COPIES:
            return folder.parents[3]
    return Path()
