"""The data that models are trained and judged on: training, validation and test parts.

A model trains on the first part, is chosen by its metrics on the second and meets the third once.
Labels of the second and third never enter the sandbox.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.params.catalogue import DUMMY_DATASET, PUBLISHED
from genlab.core.params.sections import SourceParams
from genlab.datasets.arc_grids import find_data_file, load_objects, load_split
from genlab.datasets.images import SPLIT_KIND, load_images, load_labels
from genlab.datasets.manifests import generate_command, read_manifest, split_command
from genlab.datasets.readers.opening import OwnPictures, read_pictures
from genlab.datasets.readers.summary import describe
from genlab.datasets.splits import SPLITS, assign_splits, number_splits
from genlab.grids.palette import COLOURS

Items = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

OWN = "path:"
SHARES = {"val": 0.1, "test": 0.1}  # of own data
SPLIT_SEED = 0  # of own data, always the same: no test item is ever a training item
DUMMY_SIDE, DUMMY_COUNT = 16, 1200


@dataclass(frozen=True)
class DataSplit:
    """items: uint8 (n, channels, height, width); labels: int64 (n,) from 0, -1 for no class."""

    items: Items
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Labels) -> DataSplit:
        """The items of these rows, copied from where they may be mapped."""
        return DataSplit(np.ascontiguousarray(self.items[rows]), self.labels[rows])


@dataclass(frozen=True)
class Data:
    """What selection may see. folder: of stage split, with all training items; None: no stage."""

    name: str
    classes: int
    train: DataSplit
    validation: DataSplit
    folder: Path | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an item."""
        channels, height, width = self.train.items.shape[1:]
        return channels, height, width

    @property
    def scale(self) -> float:
        """What levels are divided by: 255, or 1 for grids, whose colours are one-hot."""
        return 1.0 if _is_grids(self.name) else 255.0


def load_data(dataset: str, root: Path, *, subset: int, validation: int) -> Data:
    """Read the parts that selection sees: `subset` and `validation` items at random; 0 is all.

    dataset: a name, or `path:` with what `datasets.readers` reads.
    root: the folder that holds the named datasets' folders. Raises GenlabError of one line where
    the dataset is missing or damaged.
    """
    read, rng = _reader(dataset, root), np.random.default_rng(0)
    whole = [read(split) for split in ("train", "val")]
    train, val = (
        part.take(np.sort(rng.permutation(len(part))[: count or len(part)]))
        for part, count in zip(whole, (subset, validation), strict=True)
    )
    known = [*whole, read("test")] if _is_own(dataset) else whole
    classes = max(1, int(max(part.labels.max() for part in known)) + 1)
    folder = root / dataset
    return Data(dataset, classes, train, val, folder if folder.is_dir() else None)


def load_test(dataset: str, root: Path) -> DataSplit:
    """Read the test part, which is opened once, for the final report."""
    part = _reader(dataset, root)("test")
    return part.take(np.arange(len(part)))


def check_data(dataset: str, root: Path, task: str) -> list[str]:
    """Raise GenlabError where the dataset is missing or damaged, or does not fit the task.

    task: classify or generate. Returns how own data were understood, in lines.
    """
    read = _reader(dataset, root)
    if not _is_own(dataset):
        folders = (root / dataset, root / "generated" / dataset)
        split = split_command(folders[0])
        if (
            dataset != DUMMY_DATASET
            and split.startswith("python")
            and not any(map(Path.is_dir, folders))
        ):
            make = f"{generate_command(dataset)} && {split}"
            raise GenlabError(f"{folders[0]} is missing; make it with: {make}", path=folders[0])
        read("val")
        return []
    own = _read_own(dataset.removeprefix(OWN)) if dataset.startswith(OWN) else None
    place = own.path if own else root / dataset
    if task == "classify" and any((read(split).labels < 0).any() for split in SPLITS):
        raise GenlabError(f"{place}: a classifier needs a class for each picture", path=place)
    if own:
        return own.describe()
    manifest = read_manifest(place, SPLIT_KIND, split_command(place))
    return describe(manifest["generated"]["understood"])


def _is_own(dataset: str) -> bool:
    return dataset not in (DUMMY_DATASET, *PUBLISHED)


def _reader(dataset: str, root: Path) -> Callable[[str], DataSplit]:
    """A function that reads a split of the dataset."""
    if dataset.startswith(OWN):
        return _own(dataset.removeprefix(OWN)).__getitem__
    if dataset == DUMMY_DATASET:
        return partial(_dummy, root)
    return partial(_grids if _is_grids(dataset) else _images, root / dataset)


def _is_grids(dataset: str) -> bool:
    return dataset in PUBLISHED and PUBLISHED[dataset].kind == "grids"


def _images(folder: Path, split: str) -> DataSplit:
    return DataSplit(load_images(folder, split).transpose(0, 3, 1, 2), load_labels(folder, split))


def _grids(folder: Path, split: str) -> DataSplit:
    """Grids with a channel per colour; the class is the number of objects, from 1."""
    grids = load_split(find_data_file(folder), split)
    counts = np.bincount(load_objects(folder, split)["grid"], minlength=len(grids))
    one_hot = grids[:, None] == np.arange(COLOURS)[:, None, None]
    return DataSplit(one_hot.astype(np.uint8), counts.astype(np.int64) - 1)


def _dummy(_: Path, split: str) -> DataSplit:
    """Noise with stripes whose direction is the class: any network learns it quickly."""
    rng = np.random.default_rng([0, SPLITS.index(split)])
    labels = rng.integers(0, 4, DUMMY_COUNT)
    items = rng.integers(0, 120, (DUMMY_COUNT, 1, DUMMY_SIDE, DUMMY_SIDE)).astype(np.uint8)
    rows, columns = np.indices((DUMMY_SIDE, DUMMY_SIDE))
    stripes = np.stack([rows, columns, rows + columns, rows - columns])
    phases = rng.integers(0, 4, DUMMY_COUNT)
    bright = (stripes[labels] + phases[:, None, None]) % 4 < 2
    items[:, 0] += 120 * bright.astype(np.uint8)
    return DataSplit(items, labels)


@lru_cache(maxsize=1)
def _read_own(path: str) -> OwnPictures:
    return read_pictures(SourceParams(path=path))


def _own(path: str) -> dict[str, DataSplit]:
    """The splits of own pictures; where none are official 80/10/10, equal images in one split."""
    pictures = _read_own(path)
    where = pictures.collection.path
    items = pictures.fitted.levels.transpose(0, 3, 1, 2)
    official = number_splits(pictures.splits)
    try:
        rows = assign_splits(official, pictures.groups, SHARES, SPLIT_SEED)
    except GenlabError as error:
        shares = "splits of 80, 10 and 10 %"
        raise GenlabError(
            f"{where}: {len(items)} images are too few for {shares}; add some", path=where
        ) from error
    return {
        split: DataSplit(np.ascontiguousarray(items[rows[split]]), pictures.labels[rows[split]])
        for split in SPLITS
    }
