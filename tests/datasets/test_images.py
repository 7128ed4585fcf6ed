"""Image datasets: generated from a source, split without separating groups, loaded and checked."""

import json
from pathlib import Path

import numpy as np
import pytest
import tiny
from PIL import Image
from refusals import refused
from stage_runs import run_stage

from genlab.core.errors import GenlabError
from genlab.core.io import sha256
from genlab.core.params.catalogue import PUBLISHED
from genlab.datasets import images
from genlab.datasets.generating import OPENERS
from genlab.datasets.images import (
    ImageSet,
    ImageSource,
    generate_images,
    load_images,
    load_labels,
)

RNG = np.random.default_rng(0)
TRAIN = RNG.integers(0, 256, (200, 28, 28, 3), dtype=np.uint8)
TEST = RNG.integers(0, 256, (30, 28, 28, 3), dtype=np.uint8)
INDEX = {image.tobytes(): index for index, image in enumerate(TRAIN)}
NAMES = ("even", "odd")
SPLIT = "python stages/split.py --dataset mnist"


def source_of(groups=None, **parts):
    """A source of these parts, uint8 (n, 28, 28, 3) each."""
    return ImageSource(
        {
            name: ImageSet(
                shape=pixels.shape[1:],
                labels=np.arange(len(pixels)) % 2,
                groups=np.arange(len(pixels)) if groups is None else groups,
                read=pixels.__getitem__,
            )
            for name, pixels in parts.items()
        },
        "made up",
    )


@pytest.fixture
def generated(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "CHUNK", 64)
    folder = tmp_path / "generated" / "mnist"
    generate_images("mnist", NAMES, source_of(train=TRAIN, test=TEST), folder)
    return folder


def split_made(generated, folder, seed=0):
    shares = {"val": 0.1, "test": 0.1}
    return images.split_images(PUBLISHED[generated.name], shares, generated, folder, seed)


def test_the_official_test_split_is_kept_and_the_manifest_describes_the_files(generated, tmp_path):
    folder = tmp_path / "mnist"
    summary = split_made(generated, folder, seed=3)
    assert summary.counts == {"train": 180, "val": 20, "test": 30}
    drawn = []
    for name in ("train", "val"):
        indices = [INDEX[image.tobytes()] for image in load_images(folder, name)]
        assert load_labels(folder, name).tolist() == [index % 2 for index in indices]
        drawn += indices
    assert sorted(drawn) == list(range(200))
    assert np.array_equal(load_images(folder, "test"), TEST)
    manifest = json.loads((folder / "manifest.json").read_text())
    train = np.load(folder / "train.npy")
    assert manifest["counts"] == summary.counts
    assert (manifest["shape"], manifest["seed"]) == ([28, 28, 3], 3)
    assert manifest["generated"]["source"] == "made up"
    assert np.allclose(manifest["channel_mean"], (train / 255).mean((0, 1, 2)))
    assert np.allclose(summary.facts["channel_std"], (train / 255).std((0, 1, 2)))
    assert manifest["sha256"] == {
        path.name: sha256(path) for path in folder.iterdir() if path.name != "manifest.json"
    }
    assert summary.facts["class_counts"]["test"] == {"even": 15, "odd": 15}
    assert set(summary.facts["duplicates"].values()) == {0}
    assert {image.tobytes() for image in summary.examples} <= {image.tobytes() for image in train}
    assert len(summary.examples) == 64


def test_the_same_seed_writes_the_same_bytes(generated, tmp_path):
    sums = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        split_made(generated, tmp_path / name, seed)
        sums.append([sha256(path) for path in sorted((tmp_path / name).iterdir())])
    assert sums[0] == sums[1] != sums[2]


def test_without_an_official_split_all_three_are_drawn_in_groups(tmp_path):
    groups = np.arange(200) // 4
    pixels = TRAIN.copy()
    pixels[1] = pixels[0]  # equal images, one group
    generate_images("emoji", NAMES, source_of(groups, all=pixels), tmp_path / "emoji")
    summary = split_made(tmp_path / "emoji", tmp_path / "split")
    assert sum(summary.facts["duplicates"].values()) == 1
    index_of = {image.tobytes(): index for index, image in enumerate(pixels)}
    split_groups = [
        [index_of[image.tobytes()] // 4 for image in load_images(tmp_path / "split", name)]
        for name in ("train", "val", "test")
    ]
    assert sorted(group for drawn in split_groups for group in drawn) == groups.tolist()
    assert sum(len(set(drawn)) for drawn in split_groups) == 50
    assert split_groups[0] != sorted(split_groups[0])


def test_a_part_is_limited_to_images_spread_over_its_order(tmp_path):
    folder = tmp_path / "mnist"
    generate_images("mnist", NAMES, source_of(train=TRAIN, test=TEST), folder, count=40)
    assert np.array_equal(np.load(folder / "train.npy"), TRAIN[::5])
    assert np.array_equal(np.load(folder / "test.npy"), TEST)  # has fewer
    assert split_made(folder, tmp_path / "split").counts == {"train": 36, "val": 4, "test": 30}
    assert json.loads((folder / "manifest.json").read_text())["counts"] == {"train": 40, "test": 30}


def test_a_changed_file_is_not_split(generated, tmp_path):
    data = bytearray((generated / "train.npy").read_bytes())
    data[-1] ^= 1
    (generated / "train.npy").write_bytes(data)
    with pytest.raises(GenlabError) as error:
        split_made(generated, tmp_path / "x")
    assert error.value.path == generated / "train.npy"
    assert error.value.fix == "python stages/generate.py --dataset mnist"
    assert not (tmp_path / "x").exists()


def test_the_two_stages_lead_from_source_to_sheet(tmp_path, monkeypatch):
    source = source_of(train=TRAIN, test=TEST)
    monkeypatch.setitem(OPENERS, "mnist", lambda name, params: source)
    tiny.write_params(tmp_path)
    for stage in ("generate", "split"):
        assert not run_stage(tmp_path, stage, "--dataset", "mnist").status
    facts = json.loads((tmp_path / "results/mnist/data.json").read_text())
    assert facts["class_counts"]["test"]["0"] == 15
    assert load_images(tmp_path / "data/mnist", "val").shape == (20, 28, 28, 3)
    with Image.open(tmp_path / "plots/mnist/data/sheet.png") as sheet:
        assert sheet.width == 1200


@pytest.fixture
def folder(tmp_path):
    return tiny.write_image_dataset(tmp_path / "mnist", (20, 5, 5))


def test_images_are_mapped_and_their_file_cannot_be_written_to(folder):
    loaded = load_images(folder, "train", (28, 28, 1))
    assert isinstance(loaded, np.memmap)
    assert loaded.dtype == np.uint8
    with pytest.raises(ValueError, match="read-only"):
        loaded[0] = 0
    with refused(path=folder / "train.npy"):
        load_images(folder, "train", (32, 32, 3))


def _change(key, value):
    def change(file):
        file.write_text(json.dumps({**json.loads(file.read_text()), key: value}))

    return change


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("train.npy", lambda file: file.write_bytes(file.read_bytes()[:-1])),
        ("train.npy", Path.unlink),
        ("train.npy", lambda file: np.save(file, np.zeros((20, 28, 28, 1)))),
        ("train.npy", lambda file: np.save(file, np.zeros((20, 28, 29, 1), np.uint8))),
        ("manifest.json", _change("kind", "split_grids")),
        ("manifest.json", _change("version", 2)),
        ("labels.npz", Path.unlink),
    ],
)
def test_a_damaged_folder_is_one_line_with_the_fix(folder, name, damage):
    damage(folder / name)
    load = load_labels if name == "labels.npz" else load_images
    with refused(SPLIT, path=folder / name):
        load(folder, "train")
