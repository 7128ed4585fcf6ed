"""Which folder names a split, and which a class: rules over the names of files alone."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

from genlab.core.errors import GenlabError
from genlab.core.paths import normalise_name

SPLIT_WORDS = {
    "train": "train", "training": "train",
    "val": "val", "valid": "val", "validation": "val", "dev": "val",
    "test": "test", "testing": "test",
}  # fmt: skip
ALL = ""  # the split of items without an official one
FolderLabels = Literal["none", "top", "leaf", "path"]
FOLDER_LABELS = get_args(FolderLabels)


@dataclass
class Layout:
    """Split and class of each file; `left_out` are those of folders beside the splits.

    names, splits, classes: in the same order; a class is None where there are none.
    """

    names: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    classes: list[str | None] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def split_of(word: str) -> str | None:
    """The split that a folder's name means, None where it means none."""
    return SPLIT_WORDS.get(word.lower())


def split_in(name: str) -> str:
    """The split that a word of a file's name means, ALL where none does."""
    words = re.split(r"[-_. ]", name.rpartition("/")[2])
    meant = [split_of("test" if word.lower() == "t10k" else word) for word in words]
    return next((split for split in meant if split), ALL)


def arrange(names: Sequence[str], path: Path, labels: FolderLabels | None = None) -> Layout:
    """Find splits and classes in the names of pictures.

    labels: which folders are the class; None: found out. Raises GenlabError, naming the key that
    decides, where the names allow two readings.
    """
    paths = _unwrap([name.split("/") for name in names])
    tops = {parts[0] for parts in paths if len(parts) > 1}
    split_tops = {top for top in tops if split_of(top)}
    meant = {split_of(top) for top in split_tops}
    loose = any(len(parts) == 1 for parts in paths)
    layout = Layout()
    by_split = len(meant) > 1 or (len(tops) > 0 and split_tops == tops and not loose)
    if not by_split and split_tops and labels != "top":
        direct = {parts[0] for parts in paths if len(parts) == 2}
        if loose or direct != tops or any(len(parts) > 2 for parts in paths):
            raise _doubt(
                path,
                f"the folder {min(split_tops)} may be a split or a class",
                "labels to top if it is a class, or move it beside another split",
            )
    rest: dict[str, list[tuple[str, list[str]]]] = defaultdict(list)
    for name, parts in zip(names, paths, strict=True):
        if not by_split:
            rest[ALL].append((name, parts))
        elif parts[0] in split_tops:
            rest[split_of(parts[0]) or ALL].append((name, parts[1:]))
        else:
            layout.left_out.append(name)
    flat = {len(parts) == 1 for entries in rest.values() for _, parts in entries}
    if len(flat) > 1 and labels is None:
        raise _doubt(
            path,
            "pictures lie beside folders of pictures",
            "labels to none to read all without classes, or move them",
        )
    for split, entries in rest.items():
        for name, parts in entries:
            layout.names.append(name)
            layout.splits.append(split)
            layout.classes.append(_class_of(parts[:-1], labels))
    return layout


def _unwrap(paths: list[list[str]]) -> list[list[str]]:
    """Take off the folder that holds everything, and the one below, unless it means a split."""
    while paths and min(map(len, paths)) > 1:
        tops = {parts[0] for parts in paths}
        if len(tops) > 1 or split_of(min(tops)):
            break
        paths = [parts[1:] for parts in paths]
    return paths


def _class_of(folders: list[str], labels: FolderLabels | None) -> str | None:
    if labels == "none" or not folders:
        return None
    folders = [normalise_name(folder) for folder in folders]
    return {"top": folders[0], "leaf": folders[-1]}.get(labels or "path", "/".join(folders))


def _doubt(path: Path, what: str, fix: str) -> GenlabError:
    return GenlabError(f"{path}: {what}: set {fix}", key="source.labels", path=path, fix=fix)


def list_some(names: Iterable[str], most: int = 3) -> str:
    """Names for a line: the first ones, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most:,} more" if len(every) > most else ""
    return ", ".join(every[:most]) + more
