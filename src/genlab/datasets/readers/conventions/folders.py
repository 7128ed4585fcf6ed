"""Pictures as files in folders, or in an archive of these: classes and splits are folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import cast

import numpy as np

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.core.picture import (
    SUFFIXES,
    DecodedPicture,
    UnreadablePictureError,
    count_frames,
    decode,
    is_picture,
)
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.conventions.table import find_table, read_column, read_labels
from genlab.datasets.readers.files import Contents, Files
from genlab.datasets.readers.layout import FOLDER_LABELS, FolderLabels, arrange


@dataclass(frozen=True)
class FileLoader:
    """Decodes the files of these names; frames: of each, the first one where it is empty."""

    contents: Contents
    names: list[str]
    background: str
    frames: Sequence[int] = ()

    def __call__(self, index: int, side: int) -> DecodedPicture:
        """Load a picture."""
        name = self.names[index]
        try:
            data = self.contents.read(name)
        except OSError as error:
            raise UnreadablePictureError(f"{name}: {error.strerror}", path=name) from error
        frame = self.frames[index] if self.frames else 0
        return decode(data, name, side=side, background=self.background, frame=frame)

    def part(self, rows: range) -> FileLoader:
        """Return one for these rows."""
        names = self.names[rows.start : rows.stop]
        frames = self.frames[rows.start : rows.stop]
        return FileLoader(self.contents.part(names), names, self.background, frames)


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
    """Arrange the pictures of a folder or an archive. Raises GenlabError where there is doubt.

    Tables that name every picture stand above folders, unless `labels` says which folders count.
    """
    left_out = {"debris of systems and tools": files.debris, "no pictures": others}
    table = None
    groups: list[str] = []
    if source.convention != "folders" and source.labels not in FOLDER_LABELS:
        table = find_table(files, pictures, others, source)
    if table is None:
        layout = arrange(pictures, files.path, folder_labels(source))
        classes, notes = layout.classes, []
    else:
        layout = arrange(pictures, files.path, "none")
        classes, why, official = read_labels(table, layout.names, source)
        layout.splits = [
            stated or split for stated, split in zip(official, layout.splits, strict=True)
        ]
        notes = [why] if why else []
        groups = read_column(table, layout.names, source.group)
        left_out["no pictures"] = [name for name in others if name not in table.files]
        left_out["named by a table, and not there"] = table.unknown
    left_out["beside the folders of splits"] = layout.left_out
    names, files_of = layout.names, layout.names
    frames: list[int] = []
    splits = layout.splits
    if source.frames == "all":
        counts = [count_frames(files.read(name)) for name in layout.names]
        frames = [frame for count in counts for frame in range(count)]
        files_of = np.repeat(layout.names, counts).tolist()
        splits = np.repeat(splits, counts).tolist()
        classes = [name for name, count in zip(classes, counts, strict=True) for _ in range(count)]
        groups = np.repeat(groups, counts).tolist() if groups else []
        names = [f"{name}[{frame}]" for name, frame in zip(files_of, frames, strict=True)]
    convention = "pictures without classes"
    if any(name is not None for name in classes):
        convention = f"classes by {', '.join(table.files)}" if table else "a folder per class"
    if any(layout.splits):
        convention += ", with official splits"
    return Collection(
        path=files.path,
        convention=convention,
        names=names,
        splits=splits,
        classes=classes,
        load=FileLoader(files.contents, files_of, source.background, frames),
        left_out={reason: names for reason, names in left_out.items() if names},
        notes=notes,
        groups=groups,
    )


def folder_labels(source: SourceParams) -> FolderLabels | None:
    """Which folders name the class. Raises GenlabError for a column where there is no table."""
    if source.labels is None or source.labels in FOLDER_LABELS:
        return cast("FolderLabels | None", source.labels)
    words = ", ".join(FOLDER_LABELS)
    message = f"{source.path}: labels is {source.labels}, and no table has such a column"
    fix = f"set labels to a column of a table, or to one of {words}"
    raise GenlabError(f"{message}; {fix}", key="source.labels", path=source.path, fix=fix)
