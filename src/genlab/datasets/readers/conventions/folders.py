"""Pictures as files in folders, or in an archive of these: classes and splits are folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar, cast

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
from genlab.datasets.readers.conventions.table import Table, find_table, read_column, read_labels
from genlab.datasets.readers.files import Contents, Files
from genlab.datasets.readers.layout import FOLDER_LABELS, FolderLabels, Layout, arrange

Value = TypeVar("Value")


@dataclass(frozen=True)
class FileLoader:
    """Decodes the files of these names.

    frames: number of the frame of each file; where it is empty, the first frame is decoded.
    """

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

    def select(self, rows: range) -> FileLoader:
        """Return one for these rows."""
        names = self.names[rows.start : rows.stop]
        frames = self.frames[rows.start : rows.stop]
        return FileLoader(self.contents.select(names), names, self.background, frames)


def find_pictures(files: Files) -> tuple[list[str], list[str]]:
    """Separate names of pictures, by ending or else by content, from those of other files."""
    pictures: list[str] = []
    others: list[str] = []
    for name in files.names:
        has_suffix = PurePosixPath(name).suffix.lower() in SUFFIXES
        if has_suffix or is_picture(files.read_start(name)):
            pictures.append(name)
        else:
            others.append(name)
    return pictures, others


def read_folders(
    files: Files, pictures: list[str], others: list[str], source: SourceParams
) -> Collection:
    """Arrange the pictures of a folder or an archive. Raises GenlabError where there is doubt.

    Tables that name every picture take precedence over folders, unless `labels` says which folders
    count.
    """
    left_out = {"debris of systems and tools": files.debris, "no pictures": others}
    table = None
    groups: list[str] = []
    notes: list[str] = []
    if source.convention != "folders" and source.labels not in FOLDER_LABELS:
        table = find_table(files, pictures, others, source)
    if table is None:
        layout = arrange(pictures, files.path, folder_labels(source))
    else:
        layout = arrange(pictures, files.path, "none")
        layout.classes, note, official = read_labels(table, layout.names, source)
        layout.splits = [
            stated or split for stated, split in zip(official, layout.splits, strict=True)
        ]
        if note:
            notes.append(note)
        groups = read_column(table, layout.names, source.group)
        left_out["no pictures"] = [name for name in others if name not in table.files]
        left_out["named by a table, and not there"] = table.unknown
    left_out["beside the folders of splits"] = layout.left_out
    convention = _describe_convention(layout, table)
    names = layout.names
    files_of = layout.names
    frames: list[int] = []
    if source.frames == "all":
        counts = [count_frames(files.read(name)) for name in layout.names]
        frames = [frame for count in counts for frame in range(count)]
        files_of = _repeat(layout.names, counts)
        names = [f"{name}[{frame}]" for name, frame in zip(files_of, frames, strict=True)]
        layout.splits = _repeat(layout.splits, counts)
        layout.classes = _repeat(layout.classes, counts)
        groups = _repeat(groups, counts) if groups else []
    return Collection(
        path=files.path,
        convention=convention,
        names=names,
        splits=layout.splits,
        classes=layout.classes,
        load=FileLoader(files.contents, files_of, source.background, frames),
        left_out={reason: names for reason, names in left_out.items() if names},
        notes=notes,
        groups=groups,
    )


def _describe_convention(layout: Layout, table: Table | None) -> str:
    convention = "pictures without classes"
    if any(name is not None for name in layout.classes):
        convention = f"classes by {', '.join(table.files)}" if table else "a folder per class"
    if any(layout.splits):
        convention += ", with official splits"
    return convention


def _repeat(values: Sequence[Value], counts: Sequence[int]) -> list[Value]:
    """Repeat each value as often as its count says."""
    return [value for value, count in zip(values, counts, strict=True) for _ in range(count)]


def folder_labels(source: SourceParams) -> FolderLabels | None:
    """Return which folders name the class.

    Raises GenlabError for the name of a column, since there is no table with such a column.
    """
    if source.labels is None or source.labels in FOLDER_LABELS:
        return cast("FolderLabels | None", source.labels)
    words = ", ".join(FOLDER_LABELS)
    message = f"{source.path}: labels is {source.labels}, and no table has such a column"
    fix = f"set labels to a column of a table, or to one of {words}"
    raise GenlabError(f"{message}; {fix}", key="source.labels", path=source.path, fix=fix)
