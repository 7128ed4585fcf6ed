"""Datasets as users have them: files that were misread once, and others of the same kinds.

Each case writes a dataset of two classes, with bright columns and with dark ones, and checks that
all pictures are read upright, unclipped and with their classes, or that the error names the file.
"""

import gzip
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tifffile
from own_data import encode_idx
from PIL import Image

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams
from genlab.datasets.readers.opening import OwnPictures, read_pictures

SIDE = 28
COUNT = 120
APPLE = bytes([0, 5, 22, 7, 0, 2, 0, 0]) + b"Mac OS X".ljust(16) + bytes(100)
ORIENTATION = 0x0112

Levels = np.ndarray
Case = Callable[[Path], bool]
CASES: dict[str, Case] = {}
"""Checks by kind of input and name: whether the dataset is read, or refused, as it must be."""


def case(kind: str, *variants: Any) -> Callable[[Callable[..., bool]], Callable[..., bool]]:
    """Decorator that registers a case, or one case per variant."""

    def register(check: Callable[..., bool]) -> Callable[..., bool]:
        if not variants:
            CASES[f"{kind}: {check.__name__}"] = check
        for variant in variants:
            name = f"{kind}: {check.__name__} {variant}"
            CASES[name] = lambda folder, variant=variant: check(folder, variant)
        return check

    return register


def draw(number: int) -> Levels:
    """Draw a grey picture: odd numbers have bright columns, and every upper half is brighter."""
    pixels = np.random.default_rng(number).integers(0, 60, (SIDE, SIDE)).astype(np.uint8)
    pixels[:, ::2] += 60 * np.uint8(number % 2)
    pixels[: SIDE // 2] += 100
    return pixels


ROWS = np.stack([draw(number) for number in range(COUNT)])
CLASSES = np.arange(COUNT) % 2


def write_folders(
    folder: Path, save: Callable[[Levels, Path], object], ending: str = ".png"
) -> Path:
    """Save every picture in the folder of its class."""
    for number, pixels in enumerate(ROWS):
        file = folder / ("dark", "bright")[number % 2] / f"{number}{ending}"
        file.parent.mkdir(parents=True, exist_ok=True)
        save(pixels, file)
    return folder


def save_plain(pixels: Levels, file: Path) -> None:
    Image.fromarray(pixels).save(file, "PNG")


def read(path: Path | str, **options: Any) -> OwnPictures:
    return read_pictures(SourceParams(path=str(path), **options))


def is_right(pictures: OwnPictures, count: int = COUNT, near: float = 2.0) -> bool:
    """Whether the pictures and their two classes are those of ROWS and CLASSES."""
    levels = pictures.fitted.levels.astype(float).mean(axis=3)
    upper = levels[:, : SIDE // 2].mean((1, 2))
    lower = levels[:, SIDE // 2 :].mean((1, 2))
    bright = levels[:, :, ::2].mean((1, 2)) > levels[:, :, 1::2].mean((1, 2)) + 30
    names = np.array(pictures.classes)[pictures.labels]
    return (
        len(levels) == count
        and bool((upper > lower + 60).all())
        and bool(((names == names[bright][0]) == bright).all())
        and abs(levels.mean() - ROWS.mean()) < near
    )


def is_refused(path: Path, *names: str, **options: Any) -> bool:
    """Whether reading a dataset raises an error that contains the names."""
    try:
        read(path, **options)
    except GenlabError as error:
        return all(name in str(error) for name in names)
    return False


@case("appledouble")
def copied_on_a_mac(folder: Path) -> bool:
    write_folders(folder, save_plain)
    for name in ("dark/._0.png", "._dark", ".DS_Store", "bright/.DS_Store"):
        (folder / name).write_bytes(APPLE)
    return is_right(read(folder))


@case("appledouble")
def arrays_copied_on_a_mac(folder: Path) -> bool:
    np.savez(folder / "data.npz", x=ROWS, y=CLASSES)
    (folder / "._data.npz").write_bytes(APPLE)
    return is_right(read(folder))


@case("appledouble")
def packed_on_a_mac(folder: Path) -> bool:
    write_folders(folder / "pets", save_plain)
    with zipfile.ZipFile(folder / "pets.zip", "w") as archive:
        for file in sorted((folder / "pets").rglob("*.png")):
            name = file.relative_to(folder)
            archive.write(file, name)
            archive.writestr(f"__MACOSX/{name.parent}/._{name.name}", APPLE)
    return is_right(read(folder / "pets.zip"))


TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""How the pixels are stored, by the EXIF orientation that undoes it."""


@case(
    "exif_rotation",
    *((kind, turn) for kind in ("JPEG", "PNG", "TIFF", "WEBP") for turn in (3, 6, 8)),
)
def turned(folder: Path, variant: tuple[str, int]) -> bool:
    kind, turn = variant

    def save(pixels: Levels, file: Path) -> None:
        exif = Image.Exif()
        exif[ORIENTATION] = turn
        image = Image.fromarray(np.stack([pixels] * 3, axis=-1)).transpose(TURNS[turn])
        options = {"quality": 95} if kind in ("JPEG", "WEBP") else {}
        image.save(file, kind, exif=exif, **options)

    write_folders(folder, save, f".{kind.lower()}")
    # A mirrored picture has its bright columns at the other parity: classes are those of folders.
    levels = read(folder).fitted.levels.astype(float)
    return bool(
        (levels[:, : SIDE // 2].mean((1, 2, 3)) > levels[:, SIDE // 2 :].mean((1, 2, 3)) + 60).all()
    )


@case("first_npz")
def train_and_test(folder: Path) -> bool:
    np.savez(folder / "train.npz", x=ROWS[:80], y=CLASSES[:80])
    np.savez(folder / "test.npz", x=ROWS[80:], y=CLASSES[80:])
    pictures = read(folder)
    return is_right(pictures) and pictures.splits.count("test") == COUNT - 80


@case("first_npz")
def several_without_a_split(folder: Path) -> bool:
    for name in ("a", "b"):
        np.savez(folder / f"{name}.npz", x=ROWS, y=CLASSES)
    return is_refused(folder, "a.npz")


@case("first_npz")
def class_folders_beside_an_array(folder: Path) -> bool:
    write_folders(folder, save_plain)
    np.savez(folder / "features.npz", features=ROWS)
    return is_right(read(folder))


@case("large_scan")
def two_hundred_megapixels(folder: Path) -> bool:
    write_folders(folder, save_plain)
    Image.new("L", (20_000, 10_000), 90).save(folder / "dark/scan.png")
    return len(read(folder).labels) == COUNT + 1


@case("large_scan")
def more_than_is_read(folder: Path) -> bool:
    write_folders(folder, save_plain)
    Image.new("1", (40_000, 10_000)).save(folder / "dark/scan.png")
    return is_refused(folder, "dark/scan.png", unreadable="refuse")


@case("masks_of_zero_and_one", np.uint8, np.bool_, np.int64, np.float32)
def array(folder: Path, kind: Any) -> bool:
    np.savez(folder / "masks.npz", x=(ROWS > 100).astype(kind), y=CLASSES)
    return set(np.unique(read(folder / "masks.npz").fitted.levels)) == {0, 255}


@case("masks_of_zero_and_one", "L", "1")
def files(folder: Path, mode: str) -> bool:
    def save(pixels: Levels, file: Path) -> None:
        mask = Image.fromarray((pixels > 100).astype(np.uint8))
        (mask if mode == "L" else mask.point(lambda v: 255 * v).convert("1")).save(file)

    return set(np.unique(read(write_folders(folder, save)).fitted.levels)) == {0, 255}


@case("png16", ".png", ".tif", ".pgm")
def sixteen_bits(folder: Path, ending: str) -> bool:
    def save(pixels: Levels, file: Path) -> None:
        deep = pixels.astype(np.uint16) * 257
        if ending == ".pgm":
            file.write_bytes(b"P5 %d %d 65535\n" % (SIDE, SIDE) + deep.astype(">u2").tobytes())
        elif ending == ".tif":
            tifffile.imwrite(file, deep)
        else:
            Image.fromarray(deep).save(file)

    return is_right(read(write_folders(folder, save, ending)))


@case("png16")
def sixteen_bits_among_eight(folder: Path) -> bool:
    write_folders(folder, save_plain)
    file = folder / "dark/0.png"
    Image.fromarray(ROWS[0].astype(np.uint16) * 257).save(file)
    return is_right(read(folder))


@case("split_folders", ("train", "val", "test"), ("Training", "dev", "TESTING"), ("train", "test"))
def splits(folder: Path, names: tuple[str, ...]) -> bool:
    for name in names:
        write_folders(folder / "download" / name, save_plain)
    pictures = read(folder)
    return len(pictures.classes) == 2 and len(set(pictures.splits)) == len(names)


@case("split_folders")
def a_class_called_train(folder: Path) -> bool:
    for name in ("bus", "car", "train"):
        (folder / name).mkdir()
        for number in range(5):
            save_plain(draw(number), folder / name / f"{number}.png")
    return read(folder).classes == ["bus", "car", "train"]


@case("tilde")
def home_folder(folder: Path) -> bool:
    write_folders(folder / "photos", save_plain)
    before = os.environ.get("HOME", "")
    os.environ["HOME"] = str(folder)
    try:
        return is_right(read("~/photos"))
    finally:
        os.environ["HOME"] = before


@case("unknown_endings", ".jfif", ".PNG", "", ".dat", ".jpg")
def picture_under(folder: Path, ending: str) -> bool:
    return is_right(read(write_folders(folder, save_plain, ending)))


@case("unpacked_idx", "train-{}-ubyte", "train-{}-ubyte.gz", "emnist-digits-train-{}-ubyte", "{}")
def idx(folder: Path, pattern: str) -> bool:
    for name, values in (("images-idx3", ROWS), ("labels-idx1", CLASSES)):
        data = encode_idx(values)
        packed = pattern.endswith(".gz")
        (folder / pattern.format(name)).write_bytes(gzip.compress(data) if packed else data)
    return is_right(read(folder))
