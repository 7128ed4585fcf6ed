"""Find splits and classes in the folders of pictures: rules over file names only."""

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
    """Split and class of each picture, as its folders state them.

    names, splits, classes: in the same order; a class is None where there are none. left_out: names
    of pictures in folders beside those of the splits.
    """

    names: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    classes: list[str | None] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def parse_split(word: str) -> str | None:
    """Return the split that a word means, None where it means none."""
    return SPLIT_WORDS.get(word.lower())


def find_split(name: str) -> str:
    """Return the split that a word of a file's name means, ALL where none does."""
    words = re.split(r"[-_. ]", name.rpartition("/")[2])
    for word in words:
        split = parse_split("test" if word.lower() == "t10k" else word)
        if split:
            return split
    return ALL


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


def join_first(names: Iterable[str], most: int = 3) -> str:
    """Join the first names for a message, with the number of the remaining ones."""
    names = list(names)
    text = ", ".join(names[:most])
    return f"{text} and {len(names) - most:,} more" if len(names) > most else text
