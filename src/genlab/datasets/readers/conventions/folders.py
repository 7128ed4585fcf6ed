"""Pictures as files in folders, or in an archive of these: classes and splits are folders.

`arrange` tells the folders of splits from those of classes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Literal, TypeVar, cast, get_args

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.core.paths import normalise_name
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
from genlab.datasets.readers.split_names import ALL, parse_split

FolderLabels = Literal["none", "top", "leaf", "path"]
FOLDER_LABELS = get_args(FolderLabels)
Value = TypeVar("Value")


@dataclass
class Layout:
    """Split and class of each picture, as its folders state them.

    names, splits, classes: in the same order; a class is None where there are none. left_out: names
    of pictures in folders beside those of the splits.
    """

    names: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    classes: list[str | None] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


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


def arrange(names: Sequence[str], path: Path, labels: FolderLabels | None = None) -> Layout:
    """Find splits and classes in the names of pictures.

    labels: which folders are the class; None: decide by the names. Raises GenlabError, naming the
    key that decides, where the names allow two readings.
    """
    paths = _remove_common_folders([name.split("/") for name in names])
    tops = {folders[0] for folders in paths if len(folders) > 1}
    split_tops = {top for top in tops if parse_split(top)}
    splits = {parse_split(top) for top in split_tops}
    loose = any(len(folders) == 1 for folders in paths)
    layout = Layout()
    by_split = len(splits) > 1 or (len(tops) > 0 and split_tops == tops and not loose)
    if not by_split and split_tops and labels != "top":
        direct = {folders[0] for folders in paths if len(folders) == 2}
        if loose or direct != tops or any(len(folders) > 2 for folders in paths):
            raise _ambiguity_error(
                path,
                f"the folder {min(split_tops)} may be a split or a class",
                "labels to top if it is a class, or move it beside another split",
            )
    entries: dict[str, list[tuple[str, list[str]]]] = defaultdict(list)
    for name, folders in zip(names, paths, strict=True):
        if not by_split:
            entries[ALL].append((name, folders))
        elif folders[0] in split_tops:
            entries[parse_split(folders[0]) or ALL].append((name, folders[1:]))
        else:
            layout.left_out.append(name)
    flat = {len(folders) == 1 for pairs in entries.values() for _, folders in pairs}
    if len(flat) > 1 and labels is None:
        raise _ambiguity_error(
            path,
            "pictures lie beside folders of pictures",
            "labels to none to read all without classes, or move them",
        )
    for split, pairs in entries.items():
        for name, folders in pairs:
            layout.names.append(name)
            layout.splits.append(split)
            layout.classes.append(_name_class(folders[:-1], labels))
    return layout


def _remove_common_folders(paths: list[list[str]]) -> list[list[str]]:
    """Remove leading folders that hold everything, unless they mean a split."""
    while paths and min(map(len, paths)) > 1:
        tops = {folders[0] for folders in paths}
        if len(tops) > 1 or parse_split(min(tops)):
            break
        paths = [folders[1:] for folders in paths]
    return paths


def _name_class(folders: list[str], labels: FolderLabels | None) -> str | None:
    if labels == "none" or not folders:
        return None
    folders = [normalise_name(folder) for folder in folders]
    return {"top": folders[0], "leaf": folders[-1]}.get(labels or "path", "/".join(folders))


def _ambiguity_error(path: Path, ambiguity: str, fix: str) -> GenlabError:
    message = f"{path}: {ambiguity}: set {fix}"
    return GenlabError(message, key="source.labels", path=path, fix=fix)


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
