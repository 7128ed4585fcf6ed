"""Find out by which convention a path holds pictures, and say what was understood."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.sections import SourceParams
from genlab.datasets.readers.arrays import SUFFIXES, read_arrays
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.files import Folder, natural_key, open_files
from genlab.datasets.readers.folders import find_pictures, read_folders
from genlab.datasets.readers.idx import find_idx, read_idx
from genlab.datasets.readers.layout import ALL, list_some
from genlab.datasets.readers.reading import Items, read_items
from genlab.datasets.splits import SPLITS, split_groups

Numbers = npt.NDArray[np.int64]
UNLABELLED = -1


@dataclass(frozen=True, eq=False)
class Pictures:
    """A source that was read.

    splits: of each item of `items`; labels: indices into `classes`, UNLABELLED where it has none.
    groups: equal numbers for items of equal pixels.
    """

    collection: Collection
    items: Items
    splits: list[str]
    classes: list[str]
    labels: Numbers
    groups: Numbers

    def summarise(self) -> dict[str, Any]:
        """What was understood, for programs."""
        items, counts = (
            self.items,
            np.bincount(self.labels[self.labels >= 0], minlength=len(self.classes)),
        )
        sizes = items.sizes.most_common()
        return {
            "path": str(self.collection.path),
            "kind": "images",
            "convention": self.collection.convention,
            "count": len(items.rows),
            "size": items.plan.size,
            "channels": items.plan.channels,
            "fit": items.plan.fit,
            "values": items.rule,
            "classes": dict(zip(self.classes, counts.tolist(), strict=True)),
            "splits": dict(Counter(split for split in self.splits if split)),
            "sizes": [{"width": w, "height": h, "count": n} for (w, h), n in sizes],
            "traits": dict(sorted(items.traits.items())),
            "left_out": {**self.collection.left_out, "unreadable": items.unreadable},
            "duplicates": len(self.groups) - len(np.unique(self.groups)),
        }

    def describe(self) -> list[str]:
        """What was understood, in lines."""
        facts = self.summarise()
        side, colours = facts["size"], "grey" if facts["channels"] == 1 else "in colour"
        lines = [
            f"{facts['path']}: {facts['count']:,} pictures, {facts['convention']}",
            f"read as {side} × {side}, {colours}; values: {facts['values']}",
        ]
        if set(self.items.sizes) == {(side, side)}:
            lines.append("sizes: all as they are")
        else:
            named = [f"{s['width']} × {s['height']} ({s['count']:,})" for s in facts["sizes"]]
            lines.append(f"sizes before: {list_some(named)}; fitted by: {facts['fit']}")
        if classes := facts["classes"]:
            named = [f"{name} ({count:,})" for name, count in classes.items()]
            lines.append(f"{len(classes)} classes: {list_some(named, 12)}")
        if self.classes and (without := int((self.labels == UNLABELLED).sum())):
            lines.append(f"without a class: {without:,}")
        if splits := facts["splits"]:
            named = [f"{split} ({count:,})" for split, count in splits.items()]
            lines.append(f"official splits: {', '.join(named)}")
        lines += [f"{trait}: {count:,}" for trait, count in facts["traits"].items()]
        for reason, names in facts["left_out"].items():
            if names:
                lines.append(f"left out, {reason} ({len(names):,}): {list_some(names)}")
        if facts["duplicates"]:
            lines.append(f"exact duplicates: {facts['duplicates']:,}")
        return lines


def assign_splits(
    official: Sequence[str], groups: Numbers, shares: Mapping[str, float], seed: int
) -> dict[str, Numbers]:
    """The items of each split, where all, some or none have an official one.

    official: of each item, empty where it has none. A split without items is drawn from the items
    that have none, and from train, by its share of them; see `split_groups`.
    """
    given = np.array(official)
    rows = {split: np.flatnonzero(given == split) for split in SPLITS}
    pool = np.sort(np.concatenate([rows["train"], np.flatnonzero(given == ALL)]))
    missing = {split: share for split, share in shares.items() if not len(rows[split])}
    if not missing:
        return {**rows, "train": pool}
    drawn = split_groups(groups[pool], missing, seed)
    return {**rows, **{split: pool[chosen] for split, chosen in drawn.items()}}


def open_collection(source: SourceParams) -> Collection:
    """Find the convention of a source. Raises GenlabError of one line where there is none."""
    path = Path(source.path).expanduser()
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return read_arrays(path, [path], source)
    files = open_files(path)
    pictures, others = find_pictures(files)
    arrays = [name for name in others if name.lower().endswith(SUFFIXES)]
    if arrays and not pictures and isinstance(files, Folder):
        collection = read_arrays(path, [files.path / name for name in arrays], source)
        rest = [name for name in others if name not in arrays]
        left_out = {"debris of systems and tools": files.debris, "no arrays": rest}
        collection.left_out.update({why: names for why, names in left_out.items() if names})
        return collection
    if not pictures and (idx := find_idx(files, others)):
        collection = read_idx(files, idx)
        rest = [name for name in others if name not in idx]
        return replace(collection, left_out={"no IDX files": rest} if rest else {})
    if not pictures:
        held = list_some(others) if others else "no files"
        readable = "pictures in folders, a zip or tar archive of these, IDX files, .npz or .npy"
        raise GenlabError(f"{path}: holds {held}; what is read: {readable}", path=path)
    return read_folders(files, pictures, others, source)


def read_pictures(source: SourceParams, file: Path | None = None) -> Pictures:
    """Read a source whole.

    file: of the levels (.npy); None: they are kept in memory.
    """
    collection = open_collection(source)
    if file is None:
        with tempfile.TemporaryDirectory(prefix="genlab-read-") as folder:
            items = read_items(collection, source, Path(folder, "levels.npy"))
            items = replace(items, levels=np.array(items.levels))
    else:
        items = read_items(collection, source, file)
    named = [collection.classes[row] for row in items.rows]
    classes = sorted({name for name in named if name is not None}, key=natural_key)
    number = {name: index for index, name in enumerate(classes)}
    labels = [UNLABELLED if name is None else number[name] for name in named]
    distinct = {digest: index for index, digest in enumerate(dict.fromkeys(items.digests))}
    return Pictures(
        collection=collection,
        items=items,
        splits=[collection.splits[row] for row in items.rows],
        classes=classes,
        labels=np.array(labels, dtype=np.int64),
        groups=np.array([distinct[digest] for digest in items.digests], dtype=np.int64),
    )
