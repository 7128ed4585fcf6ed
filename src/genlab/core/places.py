"""Where a path that a user wrote down lies: `~` is the home folder.

A relative path is one from the main repository, also where dvc runs an experiment in a copy of it
(`dvc exp run --temp` and the queue work in .dvc/tmp/exps/NAME).
"""

from pathlib import Path

COPIES = (".dvc", "tmp", "exps")
"""Where, in a repository, dvc makes copies of it."""


def find_place(path: str | Path) -> Path:
    """The file or folder that a user's path means; relative where that says the same."""
    place = Path(path).expanduser()
    return place if place.is_absolute() else _main_repository() / place


def _main_repository() -> Path:
    """The repository that this is a copy of, made by dvc; the current folder where it is none."""
    here = Path.cwd()
    for folder in (here, *here.parents):
        if folder.parts[-4:-1] == COPIES:
            return folder.parents[3]
    return Path()
