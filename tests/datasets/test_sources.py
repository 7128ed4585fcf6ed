"""Published datasets, read from tiny archives in their true formats, checked, downloaded."""

import gzip
import hashlib
import http.server
import io
import pickle
import shutil
import struct
import tarfile
import threading
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny import params as tiny_params
from torchvision import datasets

from genlab.core.errors import GenlabError
from genlab.core.params import ImageParams
from genlab.datasets import sources
from genlab.datasets.images import ImageSource
from genlab.datasets.sources import open_celeba, open_cifar10, open_mnist

LOADERS = {"mnist": datasets.MNIST, "fashion_mnist": datasets.FashionMNIST}


def _params(raw: Path, download: bool = False) -> ImageParams:
    return tiny_params().images.model_copy(update={"raw": str(raw), "download": download})


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _images(source: ImageSource, name: str) -> np.ndarray:
    images = source.parts[name]
    return images.read(np.arange(len(images.labels)))


def _error(run: Callable[[], object]) -> GenlabError:
    with pytest.raises(GenlabError) as error:
        run()
    return error.value


def _idx_files() -> dict[str, bytes]:
    rng = np.random.default_rng(0)
    files = {}
    for prefix, count in (("train", 7), ("t10k", 3)):
        head = struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28)
        files[f"{prefix}-images-idx3"] = head + rng.bytes(count * 784)
        files[f"{prefix}-labels-idx1"] = struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(
            range(count)
        )
    return files


@pytest.fixture(params=LOADERS)
def idx(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """(name of the dataset, folder of its four archives); the published checksums are theirs."""
    name = request.param
    loader = LOADERS[name]
    files = _idx_files()
    folder = tmp_path / "raw" / loader.__name__ / "raw"
    folder.mkdir(parents=True)
    archives = {f"{stem}-ubyte.gz": gzip.compress(data) for stem, data in files.items()}
    for file, data in archives.items():
        (folder / file).write_bytes(data)
    monkeypatch.setattr(loader, "resources", [(file, _md5(d)) for file, d in archives.items()])
    sums = {stem: hashlib.sha256(data).hexdigest() for stem, data in files.items()}
    monkeypatch.setitem(sources.UNPACKED_SHA256, name, sums)
    monkeypatch.setattr(sources, "SYSTEM_FOLDERS", {})
    monkeypatch.setenv("no_proxy", "*")
    return name, folder


def _check_idx(source: ImageSource) -> None:
    for split, prefix, count in (("train", "train", 7), ("test", "t10k", 3)):
        images = _images(source, split)
        assert images.shape == (count, 28, 28, 1)
        assert images.tobytes() == _idx_files()[f"{prefix}-images-idx3"][16:]
        assert source.parts[split].labels.tolist() == list(range(count))


def test_idx_archives_are_read_in_place_however_they_were_packed(
    idx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, folder = idx
    file = folder / "train-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()), 1, mtime=12345))
    _check_idx(open_mnist(name, _params(tmp_path / "raw")))
    assert len(list(folder.iterdir())) == 4
    monkeypatch.setattr(sources, "SYSTEM_FOLDERS", {name: folder})
    _check_idx(open_mnist(name, _params(tmp_path / "elsewhere")))
    assert not (tmp_path / "elsewhere").exists()


def test_unpacked_files_are_read_too(idx, tmp_path: Path) -> None:
    name, folder = idx
    for number, file in enumerate(sorted(folder.iterdir())):
        stem = file.with_suffix("").name
        unpacked = stem if number % 2 else stem.replace("-idx", ".idx")
        (folder / unpacked).write_bytes(gzip.decompress(file.read_bytes()))
        file.unlink()
    _check_idx(open_mnist(name, _params(tmp_path / "raw")))


def test_a_tilde_is_the_home_folder(idx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _ = idx
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    _check_idx(open_mnist(name, _params(Path("~/raw"))))
    assert not Path("~").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-30],
        lambda data: gzip.compress(gzip.decompress(data)[:-1] + b"x"),
        lambda data: data[:100] + bytes([data[100] ^ 1]) + data[101:],
    ],
)
def test_a_damaged_archive_is_named(idx, tmp_path: Path, damage) -> None:
    name, folder = idx
    file = folder / "train-images-idx3-ubyte.gz"
    file.write_bytes(damage(file.read_bytes()))
    assert _error(lambda: open_mnist(name, _params(tmp_path / "raw"))).path == file


def test_what_is_not_here_is_downloaded_checked_and_kept(
    idx, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, folder = idx
    served = folder.rename(tmp_path / "mirror")
    handler = partial(http.server.SimpleHTTPRequestHandler, directory=str(served))
    opened = partial(open_mnist, name, _params(tmp_path / "raw", download=True))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        address = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setattr(LOADERS[name], "mirrors", [address])
        threading.Thread(target=server.serve_forever).start()
        for damage, fails in ((b" a login page", True), (b"", False)):
            file = served / "train-images-idx3-ubyte.gz"
            content = file.read_bytes()
            file.write_bytes(content + damage)
            if fails:
                assert _error(opened).key == "images.download"
            else:
                _check_idx(opened())
            file.write_bytes(content)
        server.shutdown()
    _check_idx(open_mnist(name, _params(tmp_path / "raw")))


@pytest.mark.parametrize("download", [False, True])
@pytest.mark.parametrize(
    ("name", "opened", "wanted"),
    [
        ("fashion_mnist", open_mnist, "train-images-idx3-ubyte.gz"),
        ("cifar10", open_cifar10, "cifar-10-python.tar.gz"),
        ("celeba", open_celeba, "img_align_celeba.zip"),
    ],
)
def test_what_cannot_be_had_is_one_line_that_says_what_to_put_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, opened, wanted: str, download: bool
) -> None:
    monkeypatch.setattr(sources, "SYSTEM_FOLDERS", {"fashion_mnist": tmp_path / "none"})
    monkeypatch.setattr(datasets.FashionMNIST, "mirrors", ["http://127.0.0.1:9/"])
    monkeypatch.setattr(datasets.CIFAR10, "url", "http://127.0.0.1:9/")
    monkeypatch.setattr(datasets.CelebA, "download", lambda self: 1 / 0)
    error = _error(lambda: opened(name, _params(tmp_path, download)))
    assert (error.key, error.path) == ("images.download", tmp_path)
    assert wanted in str(error.fix)
    assert ("Debian package dataset-fashion-mnist" in str(error.fix)) == (name == "fashion_mnist")


def test_a_folder_that_cannot_be_written_is_no_network_fault(tmp_path: Path) -> None:
    (tmp_path / "raw").write_text("a file")
    with pytest.raises(OSError, match="raw"):
        open_cifar10("cifar10", _params(tmp_path / "raw", download=True))


# CIFAR-10

BATCHES = [f"data_batch_{index}" for index in range(1, 6)]


@pytest.fixture
def cifar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """cifar-10-python.tar.gz with 2 images per batch; its checksums count as published."""
    cls = datasets.CIFAR10
    rng = np.random.default_rng(0)
    folder = tmp_path / "made" / cls.base_folder
    folder.mkdir(parents=True)
    for index, batch in enumerate([*BATCHES, "test_batch"]):
        pixels = rng.integers(0, 256, (2, 3072), dtype=np.uint8)
        pixels[:, :1024] = index  # the red plane comes first
        (folder / batch).write_bytes(pickle.dumps({"data": pixels, "labels": [index, 9]}))
    meta = {"label_names": [str(label) for label in range(10)]}
    (folder / "batches.meta").write_bytes(pickle.dumps(meta))
    sums = {path.name: _md5(path.read_bytes()) for path in folder.iterdir()}
    monkeypatch.setattr(cls, "train_list", [[name, sums[name]] for name in BATCHES])
    monkeypatch.setattr(cls, "test_list", [["test_batch", sums["test_batch"]]])
    monkeypatch.setattr(cls, "meta", {**cls.meta, "md5": sums["batches.meta"]})
    raw = tmp_path / "raw"
    raw.mkdir()
    with tarfile.open(raw / cls.filename, "w:gz") as archive:
        archive.add(folder, cls.base_folder)
    monkeypatch.setattr(cls, "tgz_md5", _md5((raw / cls.filename).read_bytes()))
    return raw


def test_cifar10_is_read_from_its_archive_and_from_its_folder(cifar: Path) -> None:
    for download in (True, False):
        source = open_cifar10("cifar10", _params(cifar, download))
        train = _images(source, "train")
        assert train.shape == (10, 32, 32, 3)
        assert _images(source, "test").shape == (2, 32, 32, 3)
        assert (train[..., 0] == np.repeat(range(5), 2)[:, None, None]).all()
        assert source.parts["train"].labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9]
        (cifar / datasets.CIFAR10.filename).unlink(missing_ok=True)


def test_a_pickle_with_another_checksum_is_never_loaded(cifar: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[Callable[..., object], tuple[str]]:
            return (Path.touch, (cifar / "exploded",))  # type: ignore[return-value]

    shutil.unpack_archive(cifar / datasets.CIFAR10.filename, cifar)
    file = cifar / datasets.CIFAR10.base_folder / "data_batch_3"
    file.write_bytes(pickle.dumps(Bomb()))
    assert _error(lambda: open_cifar10("cifar10", _params(cifar))).path == cifar
    assert not (cifar / "exploded").exists()


# CelebA


def _photograph(index: int) -> bytes:
    """Grey 40 + index at the border, the colour (200, 10 * index, 0) in the middle."""
    image = np.full((218, 178, 3), 40 + index, dtype=np.uint8)
    image[80:140, 60:120] = (200, 10 * index, 0)
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.fixture
def celeba(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`raw`/celeba with five tables and img_align_celeba.zip of 10 photographs of 4 people."""
    folder = tmp_path / "raw" / "celeba"
    folder.mkdir(parents=True)
    names = [f"{index:06d}.jpg" for index in range(1, 11)]
    with zipfile.ZipFile(folder / "img_align_celeba.zip", "w") as archive:
        for index, name in enumerate(names):
            archive.writestr(f"img_align_celeba/{name}", _photograph(index))
    attributes = ["Bald", "Male", "Smiling"]
    tables = {
        "list_eval_partition.txt": [f"{n} {p}" for n, p in zip(names, "0000011222", strict=True)],
        "identity_CelebA.txt": [f"{n} {p}" for n, p in zip(names, "1123213444", strict=True)],
        "list_bbox_celeba.txt": ["10", "image_id x_1 y_1 width height"]
        + [f"{n}    95  71 226 313" for n in names],
        "list_landmarks_align_celeba.txt": ["10", "lefteye_x lefteye_y"]
        + [f"{n} 69  109" for n in names],
        "list_attr_celeba.txt": ["10", " ".join(attributes)]
        + [f"{n} -1 {1 if i % 2 else -1:2d} {1 if i >= 5 else -1:2d}" for i, n in enumerate(names)],
    }
    for name, lines in tables.items():
        (folder / name).write_text("\n".join(lines) + "\n")
    file_list = [
        (key, _md5((folder / name).read_bytes()), name)
        for key, _, name in datasets.CelebA.file_list
    ]
    monkeypatch.setattr(datasets.CelebA, "file_list", file_list)
    return tmp_path / "raw"


def test_celeba_is_cropped_labelled_and_grouped_by_person(celeba: Path) -> None:
    source = open_celeba("celeba", _params(celeba, download=True))
    train = source.parts["train"]
    test = source.parts["test"]
    images = _images(source, "train")
    assert images.shape == (7, 64, 64, 3)
    assert _images(source, "test").shape == (3, 64, 64, 3)
    assert train.labels.tolist() == [0, 1, 0, 1, 0, 3, 2]
    assert test.labels.tolist() == [3, 2, 3]
    assert train.groups.tolist() == [1, 1, 2, 3, 2, 1, 3]
    for index, image in enumerate(images.astype(int)):
        assert np.abs(image[32, 32] - (200, 10 * index, 0)).max() < 12
        assert np.abs(image[2, 2] - (40 + index)).max() < 12
    # 60 pixels of 148 are 26 of 64.
    assert abs((images[0, 32, :, 0] > 120).sum() - 26) <= 1
    archive = celeba / "celeba" / "img_align_celeba.zip"
    archive.unlink()
    assert len(_images(open_celeba("celeba", _params(celeba)), "train")) == 7
    shutil.rmtree(archive.with_suffix(""))
    archive.write_bytes(b"another file")
    assert _error(lambda: open_celeba("celeba", _params(celeba))).path == archive


def test_a_damaged_photograph_is_named(celeba: Path) -> None:
    source = open_celeba("celeba", _params(celeba, download=True))
    file = celeba / "celeba" / "img_align_celeba" / "000002.jpg"
    file.write_bytes(file.read_bytes()[:900])
    assert _error(lambda: _images(source, "train")).path == file
