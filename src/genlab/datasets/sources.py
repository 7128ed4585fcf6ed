"""Where the published image data sets come from: found on this machine, checked, or downloaded.

Looked for under `data/raw/` first, in the folders that torchvision uses; then in a system copy
(Debian's `dataset-fashion-mnist`); then downloaded by torchvision into `data/raw/`. torchvision's
own classes read the files; the checksums are the ones that it publishes.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import socket
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genlab.core.errors import OS_FIXES, GenlabError
from genlab.core.params import ImageParams
from genlab.datasets.image_files import CHUNK, Images, Labels, Shape

SYSTEM_FOLDERS = {"fashion_mnist": Path("/usr/share/datasets/fashion-mnist")}
DEBIAN_PACKAGES = {"fashion_mnist": "dataset-fashion-mnist"}
TIMEOUT = 20.0
"""Seconds without an answer after which a download is given up."""

# SHA-256 of the unpacked files. Debian's archives differ from the published ones in the gzip
# header alone (name and date left out): with both put back they have the MD5s that torchvision
# lists, which is how these sums were tied to them.
UNPACKED_SHA256 = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
UNPACKED = {"fashion_mnist": UNPACKED_SHA256}

CELEBA_SIZE, CELEBA_CROP, CELEBA_SIDE = (178, 218), 148, 64
CELEBA_ATTRIBUTES = ("Male", "Smiling")


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images that are read in chunks, uint8 (m, *shape), with their labels, int64 (n,).

    A split must not tear images of one group (int64 (n,)) apart; None: each stands by itself.
    """

    shape: Shape
    labels: Labels
    chunks: Callable[[], Iterator[Images]]
    groups: Labels | None = None


@dataclass(frozen=True, eq=False)
class Source:
    """A data set as published: parts `train` and `test`, or `all` where there is no such split."""

    parts: dict[str, ImageSet]
    origin: str


def open_idx(name: str, params: ImageParams) -> Source:
    """MNIST or Fashion-MNIST, images (28, 28, 1): four IDX files, gzipped or bare."""
    from torchvision import datasets  # here, since importing it takes seconds

    loader: Any = {"mnist": datasets.MNIST, "fashion_mnist": datasets.FashionMNIST}[name]
    sums = {archive.removesuffix(".gz"): md5 for archive, md5 in loader.resources}
    home = Path(params.raw) / loader.__name__ / "raw"
    places = [home, home.parent, *([SYSTEM_FOLDERS[name]] if name in SYSTEM_FOLDERS else [])]
    found = _first_whole(places, list(sums))
    if found is None:
        wanted = f"{', '.join(f'{plain}.gz' for plain in sums)} into {home}"
        _download(name, params, lambda root: loader(root, download=True), wanted)
        found = _first_whole([home], list(sums)) or []
    with tempfile.TemporaryDirectory() as root:
        unpacked = Path(root) / loader.__name__ / "raw"
        unpacked.mkdir(parents=True)
        for file, (plain, md5) in zip(found, sums.items(), strict=True):
            content = _unpacked(file, md5, UNPACKED.get(name, {}).get(plain))
            (unpacked / plain).write_bytes(content)
        folder = found[0].parent
        parts = {
            part: _idx_part(lambda train: loader(root, train=train), part, folder)
            for part in ("train", "test")
        }
    return Source(parts, f"torchvision {loader.__name__}, files of {folder}")


def _first_whole(folders: list[Path], names: list[str]) -> list[Path] | None:
    """The files `names`, bare or with .gz, in the first of the folders that has them all."""
    for folder in folders:
        both = [(folder / f"{name}.gz", folder / name) for name in names]
        files = [gz if gz.is_file() else bare for gz, bare in both]
        if all(file.is_file() for file in files):
            return files
    return None


def _unpacked(file: Path, md5: str, sha256: str | None) -> bytes:
    """The content of an IDX file: the archive has the MD5, or what is in it the SHA-256.

    A bare file of which no SHA-256 is known is taken as it is, as torchvision takes it.
    """
    data = file.read_bytes()
    if file.suffix == ".gz":
        intact = hashlib.md5(data, usedforsecurity=False).hexdigest() == md5
        try:
            data = gzip.decompress(data)
        except (gzip.BadGzipFile, EOFError, zlib.error) as error:
            raise _damaged(file, f"not a whole gzip file: {error}") from error
        if intact:
            return data
        if sha256 is None:
            raise _damaged(file, f"its MD5 is not {md5}")
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise _damaged(file, "its checksum is not the published one")
    return data


def _idx_part(load: Callable[[bool], Any], part: str, folder: Path) -> ImageSet:
    file = folder / ("train" if part == "train" else "t10k")
    try:
        loaded = load(part == "train")
    except (AssertionError, KeyError, ValueError, TypeError, RuntimeError) as error:
        raise _damaged(
            Path(f"{file}-images-idx3-ubyte"), "it is cut short or no IDX file"
        ) from error
    return _in_memory(loaded.data.numpy()[..., None], loaded.targets.numpy(), (28, 28, 1), file)


def open_cifar10(name: str, params: ImageParams) -> Source:
    """CIFAR-10, images (32, 32, 3): `cifar-10-batches-py/`, or the archive it comes in."""
    from torchvision.datasets import CIFAR10
    from torchvision.datasets.utils import check_integrity, extract_archive

    raw = Path(params.raw)
    folder, archive = raw / CIFAR10.base_folder, raw / CIFAR10.filename
    if not folder.is_dir() and not archive.is_file():
        _download(
            name, params, lambda root: CIFAR10(root, download=True), f"{archive.name} into {raw}"
        )
    with tempfile.TemporaryDirectory() as unpacked:
        root = raw
        if not folder.is_dir():
            _check_md5(archive, CIFAR10.tgz_md5, check_integrity)
            extract_archive(str(archive), unpacked)
            root = Path(unpacked)
        meta = [(CIFAR10.meta["filename"], CIFAR10.meta["md5"])]
        for file, md5 in [*CIFAR10.train_list, *CIFAR10.test_list, *meta]:
            _check_md5(root / CIFAR10.base_folder / file, md5, check_integrity)
        parts = {}
        for part in ("train", "test"):
            loaded = CIFAR10(str(root), train=part == "train")
            labels = np.array(loaded.targets)
            parts[part] = _in_memory(loaded.data, labels, (32, 32, 3), folder)
    return Source(parts, f"torchvision CIFAR10, files of {folder if root == raw else archive}")


def open_celeba(name: str, params: ImageParams) -> Source:
    """CelebA, images (64, 64, 3): the aligned photographs, centre crop of 148, made smaller.

    The official train and valid parts are `train`, grouped by person, so that no one stands in two
    splits. Labels: attribute Male + 2 x attribute Smiling.
    """
    from torchvision.datasets import CelebA
    from torchvision.datasets.utils import check_integrity, extract_archive

    raw = Path(params.raw)
    folder = raw / CelebA.base_folder
    tables = {file: md5 for _, md5, file in CelebA.file_list if not file.endswith(".zip")}
    archive, archive_md5 = next((f, md5) for _, md5, f in CelebA.file_list if f.endswith(".zip"))
    pictures = folder / archive.removesuffix(".zip")
    if not pictures.is_dir() and not (folder / archive).is_file():
        wanted = f"{archive} (or its folder), {', '.join(tables)} into {folder}"
        _download(name, params, lambda root: CelebA(root, download=True), wanted)
    for file, md5 in tables.items():
        _check_md5(folder / file, md5, check_integrity)
    if not pictures.is_dir():
        _check_md5(folder / archive, archive_md5, check_integrity)
        with _whole_folder(raw) as unpacked:  # beside the archive, as torchvision does
            extract_archive(str(folder / archive), str(unpacked / CelebA.base_folder))
    official = {split: CelebA(str(raw), split=split) for split in ("train", "valid", "test")}
    parts = {
        "train": _celeba_part([official["train"], official["valid"]], pictures),
        "test": _celeba_part([official["test"]], pictures),
    }
    return Source(parts, f"torchvision CelebA, files of {folder}")


def _celeba_part(loaded: list[Any], pictures: Path) -> ImageSet:
    columns = [loaded[0].attr_names.index(name) for name in CELEBA_ATTRIBUTES]
    attributes = np.concatenate([part.attr[:, columns].numpy() for part in loaded])
    people = np.concatenate([part.identity[:, 0].numpy() for part in loaded])
    files = [pictures / name for part in loaded for name in part.filename]

    def chunks() -> Iterator[Images]:
        for start in range(0, len(files), CHUNK):
            yield np.stack([_face(file) for file in files[start : start + CHUNK]])

    labels = (attributes @ np.array([1, 2])).astype(np.int64)
    return ImageSet((CELEBA_SIDE, CELEBA_SIDE, 3), labels, chunks, people.astype(np.int64))


def _face(file: Path) -> Images:
    """One photograph, cropped and made smaller: uint8 (64, 64, 3)."""
    from PIL import Image
    from torchvision.transforms.functional import center_crop

    try:
        with Image.open(file) as image:
            if image.size != CELEBA_SIZE:
                raise _damaged(file, f"{image.size} pixels, {CELEBA_SIZE} expected")
            cropped: Image.Image = center_crop(image.convert("RGB"), [CELEBA_CROP, CELEBA_CROP])
    except FileNotFoundError as error:
        raise GenlabError(f"{file} is missing; unpack img_align_celeba.zip again") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise _damaged(file, f"no whole JPEG: {error}") from error
    return np.asarray(cropped.resize((CELEBA_SIDE, CELEBA_SIDE), Image.Resampling.BILINEAR))


def _in_memory(images: Images, labels: Any, shape: Shape, file: Path) -> ImageSet:
    if images.dtype != np.uint8 or images.shape[1:] != shape or len(labels) != len(images):
        raise _damaged(
            file,
            f"uint8 images of {shape} with a label each expected,"
            f" got {images.dtype} {images.shape} and {len(labels)} labels",
        )

    def chunks() -> Iterator[Images]:
        for start in range(0, len(images), CHUNK):
            yield images[start : start + CHUNK]

    return ImageSet(shape, labels.astype(np.int64), chunks)


def _damaged(file: Path, what: str) -> GenlabError:
    return GenlabError(
        f"{file}: damaged or not the published file ({what});"
        " put the original in its place, or remove it to have it looked for elsewhere"
    )


def _check_md5(file: Path, md5: str, check_integrity: Callable[[Path, str], bool]) -> None:
    if not file.is_file():
        raise GenlabError(f"{file} is missing; put it there, or remove {file.parent} and try again")
    if not check_integrity(file, md5):
        raise _damaged(file, f"its MD5 is not {md5}")


def _download(name: str, params: ImageParams, build: Callable[[str], object], wanted: str) -> None:
    """Let torchvision download into a fresh folder, then move what came to `params.raw`."""
    package = DEBIAN_PACKAGES.get(name)
    fix = f"put {wanted}" + (f", or install the Debian package {package}" if package else "")
    if not params.download:
        raise GenlabError(f"no copy of {name} here, and images.download is false: {fix}")
    with _whole_folder(Path(params.raw)) as folder:
        try:
            with _patience(TIMEOUT):
                build(str(folder))
        except Exception as error:  # torchvision, urllib and gdown each raise their own
            if isinstance(error, OSError) and error.errno in OS_FIXES:
                raise  # our own disk, not the network
            reason = " ".join(str(error).split())[-160:] or type(error).__name__
            raise GenlabError(
                f"no copy of {name} here, and the download failed (... {reason}): {fix}"
            ) from error


@contextmanager
def _whole_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder in `target`; on success its files are moved to their places."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part", dir=target) as name:
        yield Path(name)
        for top in sorted(Path(name).iterdir()):
            if top.is_dir():  # beside what may lie there already
                shutil.copytree(
                    top, target / top.name, dirs_exist_ok=True, copy_function=os.replace
                )
            else:
                os.replace(top, target / top.name)


@contextmanager
def _patience(seconds: float) -> Iterator[None]:
    """Let no socket wait for longer than `seconds`: torchvision sets no limit of its own."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
