"""Read a user's own pictures in any convention, and summarise their source."""

from __future__ import annotations

import re
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.core.paths import resolve_path
from genlab.core.text import join_first
from genlab.datasets.images import UNLABELLED
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.conventions import arrays, idx, parquet, tiff_stack, webdataset
from genlab.datasets.readers.conventions.folders import find_pictures, read_folders
from genlab.datasets.readers.files import (
    Files,
    FolderContents,
    is_archive,
    is_tar,
    natural_key,
    open_files,
)
from genlab.datasets.readers.reading import (
    FittedPictures,
    Spread,
    choose_plan,
    fit_pictures,
    load_sample,
)
from genlab.datasets.readers.summary import describe

Numbers = npt.NDArray[np.int64]
EXAMPLES = 512
READABLE = (
    "pictures in folders, or a zip or tar archive of these; WebDataset tars; .npz, .npy, .h5, .mat,"
    " IDX, Parquet; a TIFF stack"
)


@dataclass(frozen=True, eq=False)
class OwnPictures:
    """Pictures of a user's own dataset, at one size.

    fitted: every picture that could be read. splits: the official split of each, empty where it
    has none. labels: indices into `classes`, UNLABELLED where a picture has no class. groups: equal
    numbers for pictures that must share a split. retained_rows: rows of `fitted` that make the
    dataset: all, or all but duplicates.
    """

    collection: Collection
    fitted: FittedPictures
    splits: list[str]
    classes: list[str]
    labels: Numbers
    groups: Numbers
    retained_rows: Numbers

    @property
    def examples(self) -> npt.NDArray[np.uint8]:
        """The first items, as a model takes them."""
        return self.fitted.levels[:EXAMPLES]

    @property
    def path(self) -> Path:
        """Path of the source."""
        return self.collection.path

    def summarise(self, max_names: int | None = None) -> dict[str, Any]:
        """Summarise the source for programs; at most `max_names` left-out names per reason."""
        fitted = self.fitted
        counts = np.bincount(self.labels[self.labels >= 0], minlength=len(self.classes))
        sizes = fitted.facts.sizes.most_common()
        left_out = {**self.collection.left_out, "unreadable": fitted.facts.unreadable}
        return {
            "path": str(self.collection.path),
            "kind": "images",
            "convention": self.collection.convention,
            "count": len(fitted.facts.rows),
            "size": fitted.plan.size,
            "channels": fitted.plan.channels,
            "fit": fitted.plan.fit,
            "values": fitted.rule,
            "classes": dict(zip(self.classes, counts.tolist(), strict=True)),
            "unlabelled": int((self.labels == UNLABELLED).sum()),
            "notes": self.collection.notes,
            "splits": dict(Counter(split for split in self.splits if split)),
            "sizes": [{"width": w, "height": h, "count": n} for (w, h), n in sizes],
            "traits": dict(sorted(fitted.facts.traits.items())),
            "left_out": {
                reason: {"count": len(names), "names": names[:max_names]}
                for reason, names in left_out.items()
            },
            "duplicates": self._count_duplicates(),
            "groups": len(np.unique(self.groups)),
            "groups_across_splits": self._count_crossing(),
        }

    def _count_duplicates(self) -> dict[str, int]:
        """Count surplus copies: all, those of another official split, and those dropped."""
        digests = self.fitted.facts.digests
        across = 0
        official: dict[bytes, str] = {}
        for digest, split in zip(digests, self.splits, strict=True):
            across += official.setdefault(digest, split) != split
        return {
            "all": len(digests) - len(set(digests)),
            "across_splits": across,
            "dropped": len(digests) - len(self.retained_rows),
        }

    def describe(self) -> list[str]:
        """Describe the source in lines of text."""
        return describe(self.summarise())

    def _count_crossing(self) -> int:
        """Count groups with pictures of several official splits."""
        pairs = set(zip(self.groups.tolist(), self.splits, strict=True))
        splits_per_group = Counter(group for group, _ in pairs)
        return sum(splits > 1 for splits in splits_per_group.values())


def open_collection(source: SourceParams) -> Collection:
    """Open the pictures of a source, in whatever convention it holds them.

    Raises GenlabError of one line where it holds none.
    """
    path = resolve_path(source.path)
    if path.is_file():
        collection = _open_single_file(path, source)
        if collection is not None:
            return collection
    files = open_files(path)
    if files.names and path.is_dir() and all(name.endswith(".tar") for name in files.names):
        files = webdataset.open_shards(files)
    pictures, others = find_pictures(files)
    if pictures:
        sides = webdataset.find_sides(pictures, others) if is_tar(files.path) else {}
        if source.convention == "webdataset" or (sides and source.convention is None):
            return webdataset.read_webdataset(files, pictures, sides, source)
        return read_folders(files, pictures, others, source)
    for read, suffixes in (
        (arrays.read_arrays, arrays.SUFFIXES),
        (parquet.read_parquet, parquet.SUFFIXES),
    ):
        matching = [name for name in others if name.lower().endswith(suffixes)]
        if matching and files.path.is_dir():
            collection = read(path, [files.path / name for name in matching], source)
            if files.debris:
                collection.left_out["debris of systems and tools"] = files.debris
            unread = [name for name in others if name not in matching]
            if unread:
                collection.left_out["other files"] = unread
            return collection
    idx_arrays = idx.find_idx(files, others)
    if idx_arrays:
        collection = idx.read_idx(files, idx_arrays)
        unread = [name for name in others if name not in idx_arrays]
        return replace(collection, left_out={"no IDX files": unread} if unread else {})
    content = join_first(others) if others else "no files"
    raise GenlabError(f"{path}: holds {content}; what is read: {READABLE}", path=path)


def _open_single_file(path: Path, source: SourceParams) -> Collection | None:
    """Open a file that is a dataset by itself, or one picture; None for any other, as archives."""
    suffix = path.suffix.lower()
    if suffix in arrays.SUFFIXES:
        return arrays.read_arrays(path, [path], source)
    if suffix in parquet.SUFFIXES:
        return parquet.read_parquet(path, [path], source)
    if suffix in tiff_stack.SUFFIXES:
        return tiff_stack.read_tiff_stack(path)
    if is_archive(path):
        return None
    single_file = Files.collect(path, [path.name], FolderContents(path.parent))
    pictures, others = find_pictures(single_file)
    if not pictures:
        return None
    return read_folders(single_file, pictures, others, source)


def find_size(source: SourceParams) -> int:
    """Find the side that the pictures of a source will have."""
    collection = open_collection(source)
    return choose_plan(load_sample(collection, source), source, collection.path).size


def read_pictures(
    source: SourceParams, file: Path | None = None, spread: Spread = map, key: str = ""
) -> OwnPictures:
    """Read all pictures of a source.

    file: for the levels (.npy), from which a killed run with the same key resumes; None: levels are
    in memory. spread: maps a function over chunks of pictures, in their order.
    """
    collection = open_collection(source)
    if file is None:
        with tempfile.TemporaryDirectory(prefix="genlab-read-") as folder:
            fitted = fit_pictures(collection, source, Path(folder, "levels.npy"))
            fitted = replace(fitted, levels=np.array(fitted.levels))
    else:
        fitted = fit_pictures(collection, source, file, spread, key)
    rows = fitted.facts.rows
    digests = fitted.facts.digests
    class_names = [collection.classes[row] for row in rows]
    classes = sorted({name for name in class_names if name is not None})
    classes.sort(key=natural_key)
    numbers = {name: index for index, name in enumerate(classes)}
    labels = [UNLABELLED if name is None else numbers[name] for name in class_names]
    first: dict[bytes, int] = {}
    copies = np.array(
        [first.setdefault(digest, row) for row, digest in enumerate(digests)], dtype=np.int64
    )
    drop = source.duplicates == "drop"
    keys = None
    if collection.groups:
        keys = [collection.groups[row] for row in rows]
    elif source.group:
        keys = match_names([collection.names[row] for row in rows], source.group)
    return OwnPictures(
        collection=collection,
        fitted=fitted,
        splits=[collection.splits[row] for row in rows],
        classes=classes,
        labels=np.array(labels, dtype=np.int64),
        groups=group_items(copies, keys),
        retained_rows=np.unique(copies) if drop else np.arange(len(rows)),
    )


def match_names(names: Sequence[str], pattern: str) -> list[str]:
    """Match a pattern in each name: its first group, or the whole match; else the name itself."""
    keys = []
    for name in names:
        match = re.search(pattern, name)
        if match is None:
            keys.append(name)
        else:
            keys.append(match[1] if match.groups() else match[0])
    return keys


def group_items(copies: Numbers, keys: Sequence[str] | None) -> Numbers:
    """Number groups so that equal pictures, and pictures of one key, have equal numbers.

    copies: the first equal picture of each. keys: of each picture; None where there are none.
    """
    if keys is None:
        return copies
    from scipy.sparse import coo_array  # here, since importing it takes long
    from scipy.sparse.csgraph import connected_components

    first: dict[str, int] = {}
    same_key = [first.setdefault(key, row) for row, key in enumerate(keys)]
    rows = np.arange(len(keys))
    ends = np.concatenate([copies, np.array(same_key, dtype=np.int64)])
    links = coo_array((np.ones(len(ends)), (np.tile(rows, 2), ends)), shape=(len(keys),) * 2)
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)
