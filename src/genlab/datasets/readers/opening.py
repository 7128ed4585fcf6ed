"""Find out by which convention a path holds pictures, and say what was understood."""

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
from genlab.datasets.readers.collection import Collection
from genlab.datasets.readers.conventions import arrays, idx, parquet, tiff, webdataset
from genlab.datasets.readers.conventions.folders import find_pictures, read_folders
from genlab.datasets.readers.files import (
    Files,
    FolderContents,
    is_archive,
    is_tar,
    natural_key,
    open_files,
)
from genlab.datasets.readers.layout import list_some
from genlab.datasets.readers.reading import (
    FittedPictures,
    Spread,
    choose,
    fit_pictures,
    load_sample,
)
from genlab.datasets.readers.summary import describe

Numbers = npt.NDArray[np.int64]
UNLABELLED = -1
EXAMPLES = 512
READABLE = (
    "pictures in folders, or a zip or tar archive of these; WebDataset tars; .npz, .npy, .h5, .mat,"
    " IDX, Parquet; a TIFF stack"
)


@dataclass(frozen=True, eq=False)
class OwnPictures:
    """Pictures of one's own dataset, fitted.

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
        """Some items as a model takes them."""
        return self.fitted.levels[:EXAMPLES]

    @property
    def path(self) -> Path:
        """Where they lie."""
        return self.collection.path

    def summarise(self, named: int | None = None) -> dict[str, Any]:
        """What was understood, for programs. named: most names of files left out, by reason."""
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
                reason: {"count": len(names), "names": names[:named]}
                for reason, names in left_out.items()
            },
            "duplicates": self._count_duplicates(),
            "groups": len(np.unique(self.groups)),
            "groups_across_splits": self._count_crossing(),
        }

    def _count_duplicates(self) -> dict[str, int]:
        """Surplus copies: in all, of pictures of an earlier official split, and those dropped."""
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
        """What was understood, in lines."""
        return describe(self.summarise())

    def _count_crossing(self) -> int:
        """Number of groups with pictures of several official splits."""
        pairs = set(zip(self.groups.tolist(), self.splits, strict=True))
        return sum(count > 1 for count in Counter(group for group, _ in pairs).values())


def open_collection(source: SourceParams) -> Collection:
    """Find the convention of a source. Raises GenlabError of one line where there is none."""
    path = resolve_path(source.path)
    if path.is_file():
        suffix = path.suffix.lower()
        if suffix in arrays.SUFFIXES:
            return arrays.read_arrays(path, [path], source)
        if suffix in parquet.SUFFIXES:
            return parquet.read_parquet(path, [path], source)
        if suffix in tiff.SUFFIXES:
            return tiff.read_tiff(path)
        if not is_archive(path):  # one picture, to be encoded or reconstructed
            alone = Files.collect(path, [path.name], FolderContents(path.parent))
            pictures, others = find_pictures(alone)
            if pictures:
                return read_folders(alone, pictures, others, source)
    files = open_files(path)
    if files.names and path.is_dir() and all(name.endswith(".tar") for name in files.names):
        files = webdataset.open_shards(files)
    pictures, others = find_pictures(files)
    if pictures:
        sides = webdataset.find_sides(pictures, others) if is_tar(files.path) else {}
        if source.convention == "webdataset" or (sides and source.convention is None):
            return webdataset.read_webdataset(files, pictures, sides, source)
        return read_folders(files, pictures, others, source)
    for reader, suffixes in (
        (arrays.read_arrays, arrays.SUFFIXES),
        (parquet.read_parquet, parquet.SUFFIXES),
    ):
        named = [name for name in others if name.lower().endswith(suffixes)]
        if named and files.path.is_dir():
            collection = reader(path, [files.path / name for name in named], source)
            rest = [name for name in others if name not in named]
            left_out = {"debris of systems and tools": files.debris, "other files": rest}
            collection.left_out.update({why: names for why, names in left_out.items() if names})
            return collection
    if arrays_of_idx := idx.find_idx(files, others):
        collection = idx.read_idx(files, arrays_of_idx)
        rest = [name for name in others if name not in arrays_of_idx]
        return replace(collection, left_out={"no IDX files": rest} if rest else {})
    held = list_some(others) if others else "no files"
    raise GenlabError(f"{path}: holds {held}; what is read: {READABLE}", path=path)


def find_size(source: SourceParams) -> int:
    """Find the side that the pictures of a source will have."""
    collection = open_collection(source)
    return choose(load_sample(collection, source), source, collection.path).size


def read_pictures(
    source: SourceParams, file: Path | None = None, spread: Spread = map, key: str = ""
) -> OwnPictures:
    """Read a source whole.

    file: of the levels (.npy), where a killed run with the same key goes on; None: they are kept in
    memory. spread: maps a function over pieces of work, in their order.
    """
    collection = open_collection(source)
    if file is None:
        with tempfile.TemporaryDirectory(prefix="genlab-read-") as folder:
            fitted = fit_pictures(collection, source, Path(folder, "levels.npy"))
            fitted = replace(fitted, levels=np.array(fitted.levels))
    else:
        fitted = fit_pictures(collection, source, file, spread, key)
    named = [collection.classes[row] for row in fitted.facts.rows]
    classes = sorted({name for name in named if name is not None})
    classes.sort(key=natural_key)
    number = {name: index for index, name in enumerate(classes)}
    labels = [UNLABELLED if name is None else number[name] for name in named]
    names = [collection.names[row] for row in fitted.facts.rows]
    first = dict(zip(reversed(fitted.facts.digests), range(len(names) - 1, -1, -1), strict=True))
    copies = np.array([first[digest] for digest in fitted.facts.digests], dtype=np.int64)
    drop = source.duplicates == "drop"
    keys = [collection.groups[row] for row in fitted.facts.rows] if collection.groups else None
    if source.group and keys is None:
        keys = match_names(names, source.group)
    return OwnPictures(
        collection=collection,
        fitted=fitted,
        splits=[collection.splits[row] for row in fitted.facts.rows],
        classes=classes,
        labels=np.array(labels, dtype=np.int64),
        groups=group_items(copies, keys),
        retained_rows=np.unique(copies) if drop else np.arange(len(names)),
    )


def match_names(names: Sequence[str], pattern: str) -> list[str]:
    """What a pattern matches of each name: its first group, or all; the name where it does not."""
    matches = [re.search(pattern, name) for name in names]
    return [
        name if match is None else match[1] if match.groups() else match[0]
        for name, match in zip(names, matches, strict=True)
    ]


def group_items(copies: Numbers, keys: Sequence[str] | None) -> Numbers:
    """Equal numbers for equal pictures, and for those of one key.

    copies: of each item, the first one that is equal. keys: of each item; None: there are none.
    """
    if keys is None:
        return copies
    from scipy.sparse import coo_array  # here, since importing it takes long
    from scipy.sparse.csgraph import connected_components

    first: dict[str, int] = {}
    alike = [first.setdefault(key, row) for row, key in enumerate(keys)]
    rows = np.arange(len(keys))
    ends = np.concatenate([copies, np.array(alike, dtype=np.int64)])
    links = coo_array((np.ones(len(ends)), (np.tile(rows, 2), ends)), shape=(len(keys),) * 2)
    return np.asarray(connected_components(links, directed=False)[1], dtype=np.int64)
