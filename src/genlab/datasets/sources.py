"""Open the published image datasets: find them on this machine and check them, or download them.

They are looked for under `data/raw/` first, in the folders that torchvision uses; then in a system
copy (Debian's `dataset-fashion-mnist`); then torchvision downloads them into `data/raw/`.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from genlab.core.errors import GenlabError
from genlab.core.params.sections import ImageParams
from genlab.core.paths import resolve_path
from genlab.core.picture import UnreadablePictureError, decode
from genlab.datasets.images import Images, ImageSet, ImageSource
from genlab.datasets.readers.conventions.idx import IDX_ERRORS, parse_idx, unpack

SYSTEM_FOLDERS = {"fashion_mnist": Path("/usr/share/datasets/fashion-mnist")}

# SHA-256 of the unpacked content: archives of other dates or compression levels count too.
UNPACKED_SHA256 = {
    "mnist": {
        "train-images-idx3": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
    "fashion_mnist": {
        "train-images-idx3": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
}

CELEBA_CROP = 148
CELEBA_SIDE = 64
CELEBA_ATTRIBUTES = ("Male", "Smiling")


def open_mnist(name: str, params: ImageParams) -> ImageSource:
    """Open MNIST or Fashion-MNIST, images (28, 28, 1): four gzipped IDX files (LeCun 1998)."""
    from torchvision import datasets  # here, since importing it takes seconds

    loader: Any = {"mnist": datasets.MNIST, "fashion_mnist": datasets.FashionMNIST}[name]
    home = resolve_path(params.raw) / loader.__name__ / "raw"
    stems = UNPACKED_SHA256[name]
    folder = _find_folder((home, SYSTEM_FOLDERS.get(name, home)), stems)
    if folder is None:
        folder = home
        files = ", ".join(f"{loader.__name__}/raw/{stem}-ubyte.gz" for stem in stems)
        _load(name, loader, params, files)
    arrays = {
        stem: _read_checked(_find_file(folder, stem) or folder / f"{stem}-ubyte.gz", sha256)
        for stem, sha256 in stems.items()
    }
    parts = {}
    for part_name, prefix in (("train", "train"), ("test", "t10k")):
        images = arrays[f"{prefix}-images-idx3"][..., None]
        parts[part_name] = _make_image_set(images, arrays[f"{prefix}-labels-idx1"])
    return ImageSource(parts, f"torchvision {loader.__name__}, files of {folder}")


def _find_folder(folders: Iterable[Path], stems: Iterable[str]) -> Path | None:
    """Return the first folder that holds a file of every stem."""
    for folder in folders:
        if all(_find_file(folder, stem) for stem in stems):
            return folder
    return None


def _find_file(folder: Path, stem: str) -> Path | None:
    """Find a published file in a folder: packed, or as gunzip or another program unpacked it."""
    names = (f"{stem}-ubyte.gz", f"{stem}-ubyte", f"{stem.replace('-idx', '.idx')}-ubyte")
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_checked(file: Path, sha256: str) -> npt.NDArray[Any]:
    """Read the array of a published IDX file. Raises GenlabError for any other content."""
    try:
        data = unpack(file.read_bytes())
    except IDX_ERRORS as error:
        raise _damaged_error(file) from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise _damaged_error(file)
    return parse_idx(data)


def open_cifar10(name: str, params: ImageParams) -> ImageSource:
    """Open CIFAR-10, images (32, 32, 3); torchvision checks every MD5 before it unpickles."""
    from torchvision.datasets import CIFAR10

    parts = {}
    for part_name in ("train", "test"):
        loaded = _load(name, CIFAR10, params, CIFAR10.filename, train=part_name == "train")
        parts[part_name] = _make_image_set(loaded.data, np.array(loaded.targets))
    folder = resolve_path(params.raw) / CIFAR10.base_folder
    return ImageSource(parts, f"torchvision CIFAR10, files of {folder}")


def open_celeba(name: str, params: ImageParams) -> ImageSource:
    """Open CelebA, images (64, 64, 3): the aligned photographs, centre crop of 148, resized.

    The official train and valid parts are `train`, grouped by person, so that no person is in two
    splits. Labels: attribute Male + 2 x attribute Smiling.
    """
    from torchvision.datasets import CelebA
    from torchvision.datasets.utils import check_integrity, extract_archive

    folder = resolve_path(params.raw) / CelebA.base_folder
    photographs = folder / "img_align_celeba"
    archive = photographs.with_suffix(".zip")
    # torchvision unpacks an archive only as part of a download.
    if archive.is_file() and not photographs.is_dir():
        if not check_integrity(archive, CelebA.file_list[0][1]):
            raise _damaged_error(archive)
        extract_archive(archive)
    files = ", ".join(f"{CelebA.base_folder}/{file}" for _, _, file in CelebA.file_list)
    official = {
        split: _load(name, CelebA, params, files, split=split)
        for split in ("train", "valid", "test")
    }
    parts = {
        "train": _read_celeba([official["train"], official["valid"]], photographs),
        "test": _read_celeba([official["test"]], photographs),
    }
    return ImageSource(parts, f"torchvision CelebA, files of {folder}")


def _read_celeba(datasets: list[Any], photographs: Path) -> ImageSet:
    """Join torchvision's CelebA datasets; photographs are read when they are needed."""
    columns = [datasets[0].attr_names.index(name) for name in CELEBA_ATTRIBUTES]
    attributes = np.concatenate([dataset.attr[:, columns].numpy() for dataset in datasets])
    persons = np.concatenate([dataset.identity[:, 0].numpy() for dataset in datasets])
    files = [photographs / name for dataset in datasets for name in dataset.filename]
    return ImageSet(
        shape=(CELEBA_SIDE, CELEBA_SIDE, 3),
        labels=(attributes @ np.array([1, 2])).astype(np.int64),
        groups=persons.astype(np.int64),
        read=lambda indices: np.stack([_read_face(files[index]) for index in indices]),
    )


def _read_face(file: Path) -> Images:
    """Read one photograph, cropped and resized: uint8 (64, 64, 3)."""
    from torchvision.transforms.functional import center_crop

    try:
        picture = decode(file.read_bytes(), file.name)
    except (OSError, UnreadablePictureError) as error:
        raise _damaged_error(file) from error
    image = Image.fromarray(picture.pixels.squeeze()).convert("RGB")
    cropped: Image.Image = center_crop(image, [CELEBA_CROP, CELEBA_CROP])
    return np.asarray(cropped.resize((CELEBA_SIDE, CELEBA_SIDE), Image.Resampling.BILINEAR))


def _make_image_set(images: Images, labels: npt.NDArray[Any]) -> ImageSet:
    """Make an image set of arrays in memory, each image a group by itself."""
    groups = np.arange(len(labels))
    return ImageSet(images.shape[1:], labels.astype(np.int64), groups, images.__getitem__)


def _damaged_error(path: Path) -> GenlabError:
    fix = f"put the original in its place, or remove {path.parent} to have it looked for elsewhere"
    message = f"{path}: missing, damaged or not the published file; {fix}"
    return GenlabError(message, path=path, fix=fix)


def _load(name: str, loader: Any, params: ImageParams, files: str, **options: Any) -> Any:
    """Construct torchvision's dataset `loader` on `params.raw`, where it looks for `files`.

    With `params.download` it unpacks archives that are there, and downloads what is not. Raises a
    GenlabError where it finds nothing, or files of other checksums.
    """
    folder = resolve_path(params.raw)
    folder.mkdir(parents=True, exist_ok=True)
    try:
        return loader(str(folder), download=params.download, **options)
    except Exception as error:  # torchvision, urllib and gdown each raise their own
        fix = f"put {files} into {params.raw} and set images.download to true"
        if name in SYSTEM_FOLDERS:
            fix += f", or install the Debian package dataset-{name.replace('_', '-')}"
        reason = " ".join(str(error).split())[-160:]
        message = f"no sound copy of {name} here (... {reason}): {fix}"
        raise GenlabError(message, key="images.download", path=params.raw, fix=fix) from error
