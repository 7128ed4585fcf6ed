"""Pictures as files in folders, or in an archive of these: classes and splits are folders."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath

from genlab.core.errors import GenlabError
from genlab.core.picture import SUFFIXES, Picture, Unreadable, decode, is_picture
from genlab.core.sections import SourceParams
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.files import Files
from genlab.datasets.readers.layout import arrange


@dataclass(frozen=True)
class FileLoader:
    """Decodes the files of these names."""

    files: Files
    names: list[str]
    background: str

    def __call__(self, index: int, side: int) -> Picture:
        """Load a picture."""
        name = self.names[index]
        try:
            data = self.files.read(name)
        except OSError as error:
            raise Unreadable(f"{name}: {error.strerror}", path=name) from error
        return decode(data, name, side=side, background=self.background)


def find_pictures(files: Files) -> tuple[list[str], list[str]]:
    """Names of pictures, by ending or else by content, and of other files."""
    pictures: list[str] = []
    others: list[str] = []
    for name in files.names:
        known = PurePosixPath(name).suffix.lower() in SUFFIXES
        (pictures if known or is_picture(files.start(name)) else others).append(name)
    return pictures, others


def read_folders(
    files: Files, pictures: list[str], others: list[str], source: SourceParams
) -> Collection:
    """Arrange the pictures of a folder or an archive. Raises GenlabError where there is doubt."""
    if not pictures:
        raise GenlabError(f"{files.path}: holds no pictures", path=files.path)
    layout = arrange(pictures, files.path, source.labels)
    left_out = {
        "debris of systems and tools": files.debris,
        "no pictures": others,
        "beside the folders of splits": layout.left_out,
    }
    classes = layout.classes
    some = [name for name in classes if name is not None]
    convention = "a folder per class" if some else "pictures without classes"
    if any(layout.splits):
        convention += ", in a folder per split"
    return Collection(
        path=files.path,
        convention=convention,
        names=layout.names,
        splits=layout.splits,
        classes=classes,
        load=FileLoader(files, layout.names, source.background),
        left_out={reason: names for reason, names in left_out.items() if names},
    )
