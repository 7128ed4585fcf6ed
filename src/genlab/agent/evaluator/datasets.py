"""The data that models are trained and judged on: training, validation and test parts.

A model trains on the first part, is chosen by its metrics on the second and meets the third once.
Labels of the second and third never enter the sandbox.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError, did_you_mean
from genlab.core.io import UNREADABLE

Items = npt.NDArray[np.uint8]
Labels = npt.NDArray[np.int64]

OWN = "path:"
COLOURS = 10
SPLITS = ("train", "val", "test")
SHARES = {"val": 0.1, "test": 0.1}  # of own data
SPLIT_SEED = 0  # of own data, always the same: no test item is ever a training item
IMAGE_FILES = (".png", ".jpg", ".jpeg")
DUMMY_SIDE, DUMMY_COUNT = 16, 1200


@dataclass(frozen=True)
class Part:
    """items: uint8 (n, channels, height, width); labels: int64 (n,) from 0."""

    items: Items
    labels: Labels

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: npt.NDArray[np.int64]) -> Part:
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


def load_data(dataset: str, root: Path, *, subset: int, validation: int, seed: int = 0) -> Data:
    """Read the parts that selection sees: `subset` and `validation` items, drawn by `seed`.

    dataset: a name, or `path:FOLDER` with a folder of images per class or an .npz of x and y.
    root: the folder that holds the named datasets' folders. Raises GenlabError of one line where
    the dataset is unknown, missing or damaged.
    """
    read = _reader(dataset, root)
    whole = [read(split) for split in ("train", "val")]
    rng = np.random.default_rng(seed)
    train, val = (
        part.take(np.sort(rng.permutation(len(part))[:count]))
        for part, count in zip(whole, (subset, validation), strict=True)
    )
    labelled = [read(split) for split in SPLITS] if dataset.startswith(OWN) else whole
    classes = int(max(part.labels.max() for part in labelled)) + 1
    folder = root / dataset
    return Data(dataset, classes, train, val, folder if folder.is_dir() else None)


def load_test(dataset: str, root: Path) -> Part:
    """Read the test part, which is opened once, for the final report."""
    part = _reader(dataset, root)("test")
    return replace(part, items=np.ascontiguousarray(part.items))


def check_data(dataset: str, root: Path) -> None:
    """Raise GenlabError where the dataset is unknown, missing or damaged."""
    _reader(dataset, root)("val")


def _reader(dataset: str, root: Path) -> Callable[[str], Part]:
    """A function that reads a split of the dataset."""
    if dataset.startswith(OWN):
        parts = _own(Path(dataset.removeprefix(OWN)).expanduser())
        return parts.__getitem__
    if dataset not in READERS:
        known = ", ".join([*READERS, f"{OWN}FOLDER"])
        near = did_you_mean(dataset, READERS)
        raise GenlabError(f"dataset must be one of {known}, got {dataset!r}{near}", key="dataset")
    return lambda split: READERS[dataset](root, split)


def _images(name: str) -> Callable[[Path, str], Part]:
    def read(root: Path, split: str) -> Part:
        from genlab.datasets.images import load_images, load_labels

        images = load_images(root / name, split)
        return Part(images.transpose(0, 3, 1, 2), load_labels(root / name, split))

    return read


def _grids(root: Path, split: str) -> Part:
    """Grids with a channel per colour; the class is the number of objects, from 1."""
    from genlab.datasets.arc_grids import find_data_file, load_objects, load_split

    grids = load_split(find_data_file(root / "arc_grids"), split)
    objects = load_objects(root / "arc_grids", split)
    counts = np.bincount(objects["grid"], minlength=len(grids)).astype(np.int64)
    one_hot = (grids[:, None] == np.arange(COLOURS)[None, :, None, None]).astype(np.uint8)
    return Part(one_hot, counts - 1)


def _dummy(root: Path, split: str) -> Part:
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


READERS: dict[str, Callable[[Path, str], Part]] = {
    "fashion_mnist": _images("fashion_mnist"),
    "mnist": _images("mnist"),
    "cifar10": _images("cifar10"),
    "arc_grids": _grids,
    "dummy": _dummy,
}


def _own(path: Path) -> dict[str, Part]:
    """The splits of own data, 80/10/10; equal images are kept in one split."""
    from genlab.datasets.splits import split_groups

    file = path if path.suffix == ".npz" else next(iter(sorted(path.glob("*.npz"))), None)
    if not path.exists():
        raise GenlabError(f"{OWN}{path} is not there; name a folder or an .npz file", path=path)
    items, labels = _read_npz(file) if file else _read_folders(path)
    hashes = [hashlib.blake2b(item.tobytes(), digest_size=7).digest() for item in items]
    groups = np.array([int.from_bytes(each, "big") for each in hashes], dtype=np.int64)
    rows = split_groups(groups, SHARES, SPLIT_SEED)
    return {split: Part(items[rows[split]], labels[rows[split]]) for split in SPLITS}


def _read_npz(file: Path) -> tuple[Items, Labels]:
    """x: (n, h, w), (n, h, w, c) or (n, c, h, w), levels or floats on [0, 1]; y: (n,)."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            x, y = arrays["x"], arrays["y"]
    except UNREADABLE as error:
        raise GenlabError(f"{file}: must be an .npz with arrays x and y", path=file) from error
    if x.ndim == 3:
        x = x[:, None]
    elif x.ndim == 4 and x.shape[3] in (1, 3):
        x = x.transpose(0, 3, 1, 2)
    if x.ndim != 4 or x.shape[1] not in (1, 3) or y.shape != (len(x),):
        shapes = f"got x {x.shape} and y {y.shape}"
        raise GenlabError(f"{file}: x must be (n, height, width, 1 or 3), y (n,); {shapes}")
    top = 1 if x.dtype.kind == "f" else 255
    if x.dtype.kind not in "fiu" or not len(x) or not (x.min() >= 0 and x.max() <= top):
        kinds = "floats from 0 to 1 or integers from 0 to 255"
        raise GenlabError(f"{file}: x must hold {kinds}", path=file)
    levels = (255 / top * x).round().astype(np.uint8)
    return np.ascontiguousarray(levels), np.unique(y, return_inverse=True)[1]


def _read_folders(folder: Path) -> tuple[Items, Labels]:
    """Images of a folder per class, all of one size; grey where every image is."""
    from PIL import Image

    classes = sorted(each for each in folder.iterdir() if each.is_dir())
    files = [
        (path, label)
        for label, each in enumerate(classes)
        for path in sorted(each.iterdir())
        if path.suffix.lower() in IMAGE_FILES
    ]
    if len({label for _, label in files}) < max(1, len(classes)):
        held = "a folder of .png or .jpg images per class, or an .npz with x and y"
        raise GenlabError(f"{folder}: must hold {held}", path=folder)
    images, grey = [], True
    for path, _ in files:
        try:
            with Image.open(path) as image:
                grey &= image.mode in ("1", "L")
                images.append(np.asarray(image.convert("RGB")))
        except (OSError, ValueError) as error:
            raise GenlabError(f"{path}: not a readable image; remove or replace it") from error
        if images[-1].shape != images[0].shape:
            sizes = f"{images[-1].shape[:2]}, not {images[0].shape[:2]} as the first"
            raise GenlabError(f"{path}: is {sizes}; resize the images to one size", path=path)
    items = np.stack(images)[..., : 1 if grey else 3].transpose(0, 3, 1, 2)
    labels = np.array([label for _, label in files], dtype=np.int64)
    return np.ascontiguousarray(items), labels
