"""Image files and folders: written in chunks, checked when they are opened."""

import json

import numpy as np
import pytest
import tiny

from genlab.core.errors import GenlabError
from genlab.core.io import write_npz
from genlab.datasets import image_files
from genlab.datasets.image_files import LABELS_KIND, load_images, load_labels, write_images

PIXELS = np.random.default_rng(0).integers(0, 256, (200, 4, 5, 3), dtype=np.uint8)


@pytest.fixture
def folder(tmp_path):
    return tiny.write_image_dataset(tmp_path / "mnist", (20, 5, 5))


def test_a_file_holds_what_was_read_and_numpy_opens_it(tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "CHUNK", 64)
    chunks = []
    statistics = write_images(
        tmp_path / "x.npy", 200, (4, 5, 3), lambda rows: chunks.append(rows) or PIXELS[rows]
    )
    assert np.array_equal(np.load(tmp_path / "x.npy"), PIXELS)
    assert [rows.stop - rows.start for rows in chunks] == [64, 64, 64, 8]
    scaled = PIXELS.reshape(-1, 3) / 255
    assert np.allclose(statistics.mean_and_std(), (scaled.mean(0), scaled.std(0)))


def test_hashes_distinguish_images_by_content_alone(tmp_path):
    pixels = np.concatenate([PIXELS[:5], PIXELS[2:3]])
    hashes = write_images(tmp_path / "x.npy", 6, (4, 5, 3), pixels.__getitem__).hashes
    assert hashes[5] == hashes[2]
    assert len(set(hashes)) == 5


def test_a_source_that_fails_leaves_no_file(tmp_path):
    with pytest.raises(ValueError, match="broadcast"):
        write_images(tmp_path / "x.npy", 200, (5, 4, 3), PIXELS.__getitem__)
    assert list(tmp_path.iterdir()) == []


def test_images_are_mapped_and_cannot_be_written_to(folder):
    loaded = load_images(folder, "train", (28, 28, 1))
    assert isinstance(loaded, np.memmap)
    assert loaded.dtype == np.uint8
    with pytest.raises(ValueError, match="read-only"):
        loaded[0] = 0


def _cut(file):
    file.write_bytes(file.read_bytes()[:-1])


def _change(key, value):
    def change(file):
        file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))

    return change


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("train.npy", _cut),
        ("train.npy", lambda file: file.unlink()),
        ("train.npy", lambda file: np.save(file, np.zeros((20, 28, 28, 1)))),
        ("train.npy", lambda file: np.save(file, np.zeros((20, 28, 29, 1), np.uint8))),
        ("manifest.json", lambda file: file.unlink()),
        ("manifest.json", lambda file: file.write_text("{")),
        ("manifest.json", _change("kind", "split_grids")),
        ("manifest.json", _change("version", 2)),
    ],
)
def test_a_damaged_folder_is_one_line_with_the_fix(folder, name, damage):
    damage(folder / name)
    with pytest.raises(GenlabError, match=name) as error:
        load_images(folder, "train")
    assert "python stages/split.py --dataset mnist" in str(error.value)
    assert "\n" not in str(error.value)


def test_images_of_another_shape_or_split_than_asked_for_are_refused(folder):
    with pytest.raises(GenlabError) as error:
        load_images(folder, "train", (32, 32, 3))
    assert error.value.path == folder / "train.npy"
    with pytest.raises(GenlabError, match="'dev'"):
        load_images(folder, "dev")


def test_labels_of_other_images_are_refused(folder):
    write_npz(folder / "labels.npz", {"train": np.zeros(5, np.int64)}, kind=LABELS_KIND)
    with pytest.raises(GenlabError) as error:
        load_labels(folder, "train")
    assert error.value.path == folder / "labels.npz"
