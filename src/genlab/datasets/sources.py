"""The published image datasets: found on this machine, checked, or downloaded.

Looked for under `data/raw/` first, in the folders that torchvision uses; then in a system copy
(Debian's `dataset-fashion-mnist`); then downloaded by torchvision into `data/raw/`. The checksums
are the ones that torchvision publishes.
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
import numpy.typing as npt

from genlab.core.errors import OS_FIXES, GenlabError
from genlab.core.params import ImageParams
from genlab.datasets.image_files import Images, Labels, Shape

SYSTEM_FOLDERS = {"fashion_mnist": Path("/usr/share/datasets/fashion-mnist")}
TIMEOUT = 20.0
"""Seconds without an answer after which a download is given up."""

# SHA-256 of the unpacked content. Debian's archives differ from the published ones in the gzip
# header alone (name and date left out): with both put back they have the MD5s that torchvision
# lists, which is how these sums were tied to them.
UNPACKED_SHA256 = {
    "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}

CELEBA_CROP, CELEBA_SIDE = 148, 64
CELEBA_ATTRIBUTES = ("Male", "Smiling")


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images with labels, int64 (n,); `read(rows)` returns some of them, uint8 (m, *shape).

    Images of one group (int64 (n,)) must share a split; None: each is a group.
    """

    shape: Shape
    labels: Labels
    read: Callable[[slice], Images]
    groups: Labels | None = None


@dataclass(frozen=True, eq=False)
class Source:
    """A published dataset: parts `train` and `test`, or `all` where there is no such split."""

    parts: dict[str, ImageSet]
    origin: str


def open_mnist(name: str, params: ImageParams) -> Source:
    """MNIST or Fashion-MNIST, images (28, 28, 1): four gzipped IDX files."""
    from torchvision import datasets  # here, since importing it takes seconds

    loader: Any = {"mnist": datasets.MNIST, "fashion_mnist": datasets.FashionMNIST}[name]
    md5s = dict(loader.resources)
    home = Path(params.raw) / loader.__name__ / "raw"
    folders = [home, *filter(None, [SYSTEM_FOLDERS.get(name)])]
    folder = next((f for f in folders if all((f / file).is_file() for file in md5s)), None)
    if folder is None:
        wanted = f"{', '.join(md5s)} into {home}"
        _download(name, params, lambda root: loader(root, download=True), wanted)
        folder = home
    sha256s = UNPACKED_SHA256 if name == "fashion_mnist" else {}
    data = {
        file: _read_idx(folder / file, md5, sha256s.get(Path(file).stem))
        for file, md5 in md5s.items()
    }
    parts = {}
    for part, prefix in (("train", "train"), ("test", "t10k")):
        images, labels = (
            data[f"{prefix}-{kind}-ubyte.gz"] for kind in ("images-idx3", "labels-idx1")
        )
        parts[part] = _in_memory(images[..., None], labels)
    return Source(parts, f"torchvision {loader.__name__}, files of {folder}")


def _read_idx(file: Path, md5: str, sha256: str | None) -> Images:
    """The bytes of an IDX file (LeCun 1998), shaped: magic 0 0 8 ndim, the sizes, the values.

    Checked by the SHA-256 of its content or, where none is known, the MD5 of its archive.
    """
    packed = file.read_bytes()
    try:
        data = gzip.decompress(packed)
    except (EOFError, OSError, zlib.error) as error:
        raise _damaged(file) from error
    expected = sha256 or md5
    found = hashlib.sha256(data) if sha256 else hashlib.md5(packed, usedforsecurity=False)
    if found.hexdigest() != expected:
        raise _damaged(file)
    sizes = np.frombuffer(data, ">i4", data[3], offset=4)
    return np.frombuffer(data, np.uint8, offset=4 + sizes.nbytes).reshape(sizes)


def open_cifar10(name: str, params: ImageParams) -> Source:
    """CIFAR-10, images (32, 32, 3): `cifar-10-batches-py/`, or the archive it comes in."""
    from torchvision.datasets import CIFAR10

    raw = Path(params.raw)
    archive, folder = raw / CIFAR10.filename, raw / CIFAR10.base_folder
    _unpack(name, params, CIFAR10, archive, CIFAR10.tgz_md5, folder, archive.name)
    parts = {}
    for part in ("train", "test"):
        try:  # torchvision checks every MD5 before it unpickles
            loaded = CIFAR10(str(raw), train=part == "train")
        except RuntimeError as error:
            raise _damaged(folder) from error
        parts[part] = _in_memory(loaded.data, np.array(loaded.targets))
    return Source(parts, f"torchvision CIFAR10, files of {folder}")


def open_celeba(name: str, params: ImageParams) -> Source:
    """CelebA, images (64, 64, 3): the aligned photographs, centre crop of 148, resized.

    The official train and valid parts are `train`, grouped by person, so that no person is in two
    splits. Labels: attribute Male + 2 x attribute Smiling.
    """
    from torchvision.datasets import CelebA

    raw = Path(params.raw)
    folder = raw / CelebA.base_folder
    md5s = {file: md5 for _, md5, file in CelebA.file_list}
    archive = next(file for file in md5s if file.endswith(".zip"))
    photographs = folder / archive.removesuffix(".zip")
    tables = ", ".join(file for file in md5s if file != archive)
    wanted = f"{archive} (or its folder), {tables}"
    _unpack(name, params, CelebA, folder / archive, md5s[archive], photographs, wanted)
    try:
        official = {split: CelebA(str(raw), split=split) for split in ("train", "valid", "test")}
    except RuntimeError as error:
        raise _damaged(folder) from error
    parts = {
        "train": _read_celeba([official["train"], official["valid"]], photographs),
        "test": _read_celeba([official["test"]], photographs),
    }
    return Source(parts, f"torchvision CelebA, files of {folder}")


def _read_celeba(loaded: list[Any], photographs: Path) -> ImageSet:
    columns = [loaded[0].attr_names.index(name) for name in CELEBA_ATTRIBUTES]
    attributes = np.concatenate([part.attr[:, columns].numpy() for part in loaded])
    people = np.concatenate([part.identity[:, 0].numpy() for part in loaded])
    files = [photographs / name for part in loaded for name in part.filename]
    return ImageSet(
        shape=(CELEBA_SIDE, CELEBA_SIDE, 3),
        labels=(attributes @ np.array([1, 2])).astype(np.int64),
        read=lambda rows: np.stack([_read_face(file) for file in files[rows]]),
        groups=people.astype(np.int64),
    )


def _read_face(file: Path) -> Images:
    """One photograph, cropped and resized: uint8 (64, 64, 3)."""
    from PIL import Image
    from torchvision.transforms.functional import center_crop

    try:
        with Image.open(file) as image:
            cropped: Image.Image = center_crop(image.convert("RGB"), [CELEBA_CROP, CELEBA_CROP])
    except (OSError, SyntaxError, ValueError) as error:
        raise _damaged(file) from error
    return np.asarray(cropped.resize((CELEBA_SIDE, CELEBA_SIDE), Image.Resampling.BILINEAR))


def _in_memory(images: Images, labels: npt.NDArray[Any]) -> ImageSet:
    return ImageSet(images.shape[1:], labels.astype(np.int64), lambda rows: images[rows])


def _damaged(path: Path) -> GenlabError:
    fix = "put the original in its place, or remove it to have it looked for elsewhere"
    message = f"{path}: incomplete, damaged or not the published file; {fix}"
    return GenlabError(message, path=path, fix=fix)


def _unpack(
    name: str, params: ImageParams, loader: Any, archive: Path, md5: str, folder: Path, wanted: str
) -> None:
    """Make sure that `folder` is there: unpack `archive` beside it, or download."""
    from torchvision.datasets.utils import check_integrity, extract_archive

    if folder.is_dir():
        return
    if not archive.is_file():
        fetch = f"{wanted} into {archive.parent}"
        return _download(name, params, lambda root: loader(root, download=True), fetch)
    if not check_integrity(archive, md5):
        raise _damaged(archive)
    with _staging(archive.parent) as staging:
        extract_archive(archive, staging)


def _download(name: str, params: ImageParams, build: Callable[[str], object], wanted: str) -> None:
    """Let torchvision download into a fresh folder, then move the files to `params.raw`."""
    fix = f"put {wanted}"
    if name == "fashion_mnist":
        fix += ", or install the Debian package dataset-fashion-mnist"
    if not params.download:
        raise GenlabError(
            f"no copy of {name} here, and images.download is false: {fix}",
            key="images.download",
            fix=fix,
        )
    with _staging(Path(params.raw)) as staging:
        before = socket.getdefaulttimeout()
        socket.setdefaulttimeout(TIMEOUT)  # torchvision sets none
        try:
            build(str(staging))
        except Exception as error:  # torchvision, urllib and gdown each raise their own
            if isinstance(error, OSError) and error.errno in OS_FIXES:
                raise  # our own disk, not the network
            reason = " ".join(str(error).split())[-160:] or type(error).__name__
            message = f"no copy of {name} here, and the download failed (... {reason}): {fix}"
            raise GenlabError(message, fix=fix) from error
        finally:
            socket.setdefaulttimeout(before)


@contextmanager
def _staging(target: Path) -> Iterator[Path]:
    """Yield a temporary folder in `target`; on success its files are moved into `target`."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".part", dir=target) as name:
        yield Path(name)
        shutil.copytree(name, target, dirs_exist_ok=True, copy_function=os.replace)
