"""The data that models are trained and judged on: training, validation and test parts.

A model trains on the first part, is chosen by its metrics on the second and meets the third once.
Labels of the second and third never enter the sandbox.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.core.io import read_npz
from genlab.datasets.arc_grids import find_data_file, load_objects, load_split
from genlab.datasets.images import load_images, load_labels
from genlab.datasets.splits import SPLITS, split_groups
from genlab.grids.palette import COLOURS

Items = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

OWN = "path:"
SHARES = {"val": 0.1, "test": 0.1}  # of own data
SPLIT_SEED = 0  # of own data, always the same: no test item is ever a training item
DUMMY_SIDE, DUMMY_COUNT = 16, 1200


@dataclass(frozen=True)
class Part:
    """items: uint8 (n, channels, height, width); labels: int64 (n,) from 0."""

    items: Items
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Labels) -> Part:
        """The items of these rows, copied from where they may be mapped."""
        return Part(np.ascontiguousarray(self.items[rows]), self.labels[rows])


@dataclass(frozen=True)
class Data:
    """What selection may see. folder: of stage split, with all training items; None: no stage."""

    name: str
    classes: int
    train: Part
    validation: Part
    folder: Path | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an item."""
        channels, height, width = self.train.items.shape[1:]
        return channels, height, width

    @property
    def scale(self) -> float:
        """What levels are divided by: 255, or 1 for grids, whose colours are one-hot."""
        return 1.0 if self.name == "arc_grids" else 255.0


def load_data(dataset: str, root: Path, *, subset: int, validation: int) -> Data:
    """Read the parts that selection sees: `subset` and `validation` items at random.

    dataset: a name, or `path:FOLDER` with a folder of images per class or an .npz of x and y.
    root: the folder that holds the named datasets' folders. Raises GenlabError of one line where
    the dataset is missing or damaged.
    """
    read, rng = _reader(dataset, root), np.random.default_rng(0)
    whole = [read(split) for split in ("train", "val")]
    train, val = (
        part.take(np.sort(rng.permutation(len(part))[:count]))
        for part, count in zip(whole, (subset, validation), strict=True)
    )
    known = [*whole, read("test")] if dataset.startswith(OWN) else whole
    classes = int(max(part.labels.max() for part in known)) + 1
    folder = root / dataset
    return Data(dataset, classes, train, val, folder if folder.is_dir() else None)


def load_test(dataset: str, root: Path) -> Part:
    """Read the test part, which is opened once, for the final report."""
    part = _reader(dataset, root)("test")
    return part.take(np.arange(len(part)))


def check_data(dataset: str, root: Path) -> None:
    """Raise GenlabError where the dataset is missing or damaged."""
    _reader(dataset, root)("val")


def _reader(dataset: str, root: Path) -> Callable[[str], Part]:
    """A function that reads a split of the dataset."""
    if dataset.startswith(OWN):
        return _own(Path(dataset.removeprefix(OWN)).expanduser()).__getitem__
    readers = {"arc_grids": _grids, "dummy": _dummy}
    return partial(readers.get(dataset, _images), root / dataset)


def _images(folder: Path, split: str) -> Part:
    return Part(load_images(folder, split).transpose(0, 3, 1, 2), load_labels(folder, split))


def _grids(folder: Path, split: str) -> Part:
    """Grids with a channel per colour; the class is the number of objects, from 1."""
    grids = load_split(find_data_file(folder), split)
    counts = np.bincount(load_objects(folder, split)["grid"], minlength=len(grids))
    one_hot = grids[:, None] == np.arange(COLOURS)[:, None, None]
    return Part(one_hot.astype(np.uint8), counts.astype(np.int64) - 1)


def _dummy(_: Path, split: str) -> Part:
    """Noise with stripes whose direction is the class: any network learns it quickly."""
    rng = np.random.default_rng([0, SPLITS.index(split)])
    labels = rng.integers(0, 4, DUMMY_COUNT)
    items = rng.integers(0, 120, (DUMMY_COUNT, 1, DUMMY_SIDE, DUMMY_SIDE)).astype(np.uint8)
    rows, columns = np.indices((DUMMY_SIDE, DUMMY_SIDE))
    stripes = np.stack([rows, columns, rows + columns, rows - columns])
    phases = rng.integers(0, 4, DUMMY_COUNT)
    bright = (stripes[labels] + phases[:, None, None]) % 4 < 2
    items[:, 0] += 120 * bright.astype(np.uint8)
    return Part(items, labels)


def _own(path: Path) -> dict[str, Part]:
    """The splits of own data, 80/10/10; equal images are kept in one split."""
    if not path.exists():
        raise GenlabError(f"{OWN}{path} is not there; name a folder or an .npz file", path=path)
    file = path if path.suffix == ".npz" else min(path.glob("*.npz"), default=None)
    items, labels = _read_npz(file) if file else _read_folders(path)
    hashes = [hashlib.blake2b(item.tobytes(), digest_size=7).digest() for item in items]
    groups = np.array([int.from_bytes(each, "big") for each in hashes], dtype=np.int64)
    try:
        rows = split_groups(groups, SHARES, SPLIT_SEED)
    except GenlabError as error:
        shares = "splits of 80, 10 and 10 %"
        raise GenlabError(
            f"{path}: {len(items)} images are too few for {shares}; add some"
        ) from error
    return {split: Part(items[rows[split]], labels[rows[split]]) for split in SPLITS}


def _read_npz(file: Path) -> tuple[Items, Labels]:
    """x: (n, h, w), (n, h, w, c) or (n, c, h, w), uint8 or floats on [0, 1]; y: (n,)."""
    arrays = read_npz(
        file,
        kind=None,
        keys=["x", "y"],
        producer_command=f"numpy.savez({str(file)!r}, x=..., y=...)",
    )
    x, y = arrays["x"], arrays["y"]
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4 or x.shape[1] not in (1, 3) or y.shape != (len(x),):
        shapes = f"got x {x.shape} and y {y.shape}"
        raise GenlabError(f"{file}: x must be (n, height, width, 1 or 3), y (n,); {shapes}")
    if x.dtype.kind == "f" and len(x) and x.min() >= 0 and x.max() <= 1:
        x = (255 * x).round().astype(np.uint8)
    if x.dtype != np.uint8:
        raise GenlabError(f"{file}: x must hold uint8 or floats from 0 to 1", path=file)
    return np.ascontiguousarray(x), np.unique(y, return_inverse=True)[1]


def _read_folders(folder: Path) -> tuple[Items, Labels]:
    """Images of a folder per class, all of one size; grey where every image is."""
    from torchvision.datasets import ImageFolder

    try:
        found = ImageFolder(str(folder))
        images = np.stack([np.asarray(image) for image, _ in found])
    except (OSError, ValueError) as error:
        held = "a folder of images per class, all of one size, or an .npz with x and y"
        raise GenlabError(f"{folder}: must hold {held}: {error}", path=folder) from error
    channels = 1 if bool((images == images[..., :1]).all()) else 3
    items = images[..., :channels].transpose(0, 3, 1, 2)
    return np.ascontiguousarray(items), np.array(found.targets, dtype=np.int64)
