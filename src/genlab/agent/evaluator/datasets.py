"""The data that models are trained and judged on: training, validation and test split.

A model trains on the training split, is chosen by its metrics on the validation split and meets the
test split once. Labels of the last two never enter the sandbox.
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

PATH_PREFIX = "path:"  # of the name of a dataset that is a path to files
SHARES = {"val": 0.1, "test": 0.1}  # of a user's own data without official splits
SPLIT_SEED = 0  # of own data, always the same: no test item is ever a training item
DUMMY_SIDE = 16
DUMMY_COUNT = 1200


@dataclass(frozen=True)
class DataSplit:
    """Items and labels of one split.

    items: uint8 (n, channels, height, width). labels: int64 (n,) from 0, -1 for no class.
    """

    items: Items
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Labels) -> DataSplit:
        """Return these rows, copied out of memory-mapped files."""
        return DataSplit(np.ascontiguousarray(self.items[rows]), self.labels[rows])


@dataclass(frozen=True)
class Data:
    """What the choice between models may see: training and validation items, never the test split.

    folder: where the pipeline's stage split has written all items of the dataset; None where no
    stage has.
    """

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
    """Load `subset` random training items and `validation` random validation items; 0 is all.

    dataset: a name, or `path:` with what `datasets.readers` reads. root: the folder that holds the
    named datasets' folders. Raises a one-line GenlabError where the dataset is missing or damaged.
    """
    read_split = _choose_reader(dataset, root)
    rng = np.random.default_rng(0)
    splits = [read_split(name) for name in ("train", "val")]
    train, val = (
        split.take(np.sort(rng.permutation(len(split))[: count or len(split)]))
        for split, count in zip(splits, (subset, validation), strict=True)
    )
    if _is_own(dataset):
        splits.append(read_split("test"))  # a class of own data may occur there alone
    classes = max(1, int(max(split.labels.max() for split in splits)) + 1)
    folder = root / dataset
    return Data(dataset, classes, train, val, folder if folder.is_dir() else None)


def load_test(dataset: str, root: Path) -> DataSplit:
    """Load the test split, which is opened once, for the final report."""
    test = _choose_reader(dataset, root)("test")
    return test.take(np.arange(len(test)))


def check_data(dataset: str, root: Path, task: str) -> list[str]:
    """Raise a GenlabError where the dataset is missing or damaged, or does not fit the task.

    task: classify or generate. Returns how the user's own data were understood, in lines.
    """
    read_split = _choose_reader(dataset, root)
    if not _is_own(dataset):
        _check_is_made(dataset, root)
        read_split("val")
        return []
    pictures = None
    path = root / dataset
    if dataset.startswith(PATH_PREFIX):
        pictures = _read_pictures(dataset.removeprefix(PATH_PREFIX))
        path = pictures.path
    if task == "classify" and any((read_split(name).labels < 0).any() for name in SPLITS):
        raise GenlabError(f"{path}: a classifier needs a class for each picture", path=path)
    if pictures:
        return pictures.describe()
    manifest = read_manifest(path, SPLIT_KIND, split_command(path))
    return describe(manifest["generated"]["understood"])


def _check_is_made(dataset: str, root: Path) -> None:
    """Raise a GenlabError with both commands where neither generate nor split has run."""
    folder = root / dataset
    split = split_command(folder)
    is_made = folder.is_dir() or (root / "generated" / dataset).is_dir()
    if dataset != DUMMY_DATASET and split.startswith("python") and not is_made:
        make = f"{generate_command(dataset)} && {split}"
        raise GenlabError(f"{folder} is missing; make it with: {make}", path=folder)


def _is_own(dataset: str) -> bool:
    return dataset not in (DUMMY_DATASET, *PUBLISHED)


def _choose_reader(dataset: str, root: Path) -> Callable[[str], DataSplit]:
    """Return a function that reads a split of the dataset by its name."""
    if dataset.startswith(PATH_PREFIX):
        return _split_pictures(dataset.removeprefix(PATH_PREFIX)).__getitem__
    if dataset == DUMMY_DATASET:
        return _draw_dummy_split
    return partial(_read_grids if _is_grids(dataset) else _read_images, root / dataset)


def _is_grids(dataset: str) -> bool:
    return dataset in PUBLISHED and PUBLISHED[dataset].kind == "grids"


def _read_images(folder: Path, name: str) -> DataSplit:
    images = load_images(folder, name).transpose(0, 3, 1, 2)
    return DataSplit(images, load_labels(folder, name))


def _read_grids(folder: Path, name: str) -> DataSplit:
    """Read grids with a channel per colour; the class is the number of objects, from 1."""
    grids = load_split(find_data_file(folder), name)
    counts = np.bincount(load_objects(folder, name)["grid"], minlength=len(grids))
    one_hot = grids[:, None] == np.arange(COLOURS)[:, None, None]
    return DataSplit(one_hot.astype(np.uint8), counts.astype(np.int64) - 1)


def _draw_dummy_split(name: str) -> DataSplit:
    """Draw noise with stripes whose direction is the class: any network learns it quickly."""
    rng = np.random.default_rng([0, SPLITS.index(name)])
    labels = rng.integers(0, 4, DUMMY_COUNT)
    items = rng.integers(0, 120, (DUMMY_COUNT, 1, DUMMY_SIDE, DUMMY_SIDE)).astype(np.uint8)
    rows, columns = np.indices((DUMMY_SIDE, DUMMY_SIDE))
    stripes = np.stack([rows, columns, rows + columns, rows - columns])
    phases = rng.integers(0, 4, DUMMY_COUNT)
    bright = (stripes[labels] + phases[:, None, None]) % 4 < 2
    items[:, 0] += 120 * bright.astype(np.uint8)
    return DataSplit(items, labels)


@lru_cache(maxsize=1)
def _read_pictures(path: str) -> OwnPictures:
    return read_pictures(SourceParams(path=path))


def _split_pictures(path: str) -> dict[str, DataSplit]:
    """Split a user's pictures: officially, else 80/10/10 with equal images in one split."""
    pictures = _read_pictures(path)
    items = pictures.fitted.levels.transpose(0, 3, 1, 2)
    official = number_splits(pictures.splits)
    try:
        rows = assign_splits(official, pictures.groups, SHARES, SPLIT_SEED)
    except GenlabError as error:
        reason = f"{len(items)} images are too few for splits of 80, 10 and 10 %; add some"
        raise GenlabError(f"{pictures.path}: {reason}", path=pictures.path) from error
    return {
        name: DataSplit(np.ascontiguousarray(items[rows[name]]), pictures.labels[rows[name]])
        for name in SPLITS
    }
