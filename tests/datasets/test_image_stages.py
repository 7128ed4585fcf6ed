"""Image datasets: generated from a source, then split without separating groups."""

import gzip
import hashlib
import json
import struct
from pathlib import Path

import numpy as np
import pytest
import tiny
from PIL import Image
from torchvision import datasets

from genlab.core.errors import GenlabError
from genlab.core.io import sha256
from genlab.datasets import image_stages, sources
from genlab.datasets.image_files import load_images, load_labels
from genlab.datasets.image_stages import generate_images, split_images
from genlab.datasets.sources import ImageSet, Source

RNG = np.random.default_rng(0)
TRAIN = RNG.integers(0, 256, (200, 4, 5, 3), dtype=np.uint8)
TEST = RNG.integers(0, 256, (30, 4, 5, 3), dtype=np.uint8)
INDEX = {image.tobytes(): index for index, image in enumerate(TRAIN)}
NAMES = ("even", "odd")


def generate(monkeypatch, folder, **parts):
    """The folder that stage generate would write for these parts: pixels, and groups or None."""
    source = Source(
        {
            part: ImageSet(pixels.shape[1:], np.arange(len(pixels)) % 2, pixels.__getitem__, groups)
            for part, (pixels, groups) in parts.items()
        },
        "made up",
    )
    monkeypatch.setitem(image_stages.SOURCES, folder.name, lambda name, params: source)
    generate_images(folder.name, NAMES, tiny.params(), folder)
    return folder


@pytest.fixture
def made(tmp_path, monkeypatch):
    folder = tmp_path / "generated" / "mnist"
    return generate(monkeypatch, folder, train=(TRAIN, None), test=(TEST, None))


def test_the_official_test_split_is_kept_and_val_comes_from_train(made, tmp_path):
    folder = tmp_path / "mnist"
    split_images("mnist", tiny.params(), made, folder, seed=0)
    splits = {split: load_images(folder, split) for split in ("train", "val", "test")}
    assert np.array_equal(splits["test"], TEST)
    assert [len(splits[split]) for split in splits] == [180, 20, 30]
    found = {s: [INDEX[image.tobytes()] for image in splits[s]] for s in ("train", "val")}
    assert sorted(found["train"] + found["val"]) == list(range(200))
    for split, indices in found.items():
        assert load_labels(folder, split).tolist() == [index % 2 for index in indices]


def test_the_manifest_and_the_facts_describe_the_files(made, tmp_path):
    folder = tmp_path / "mnist"
    summary = split_images("mnist", tiny.params(), made, folder, seed=3)
    manifest = json.loads((folder / "manifest.json").read_text())
    train = load_images(folder, "train")
    assert manifest["counts"] == summary.counts == {"train": 180, "val": 20, "test": 30}
    assert (manifest["shape"], manifest["seed"]) == ([4, 5, 3], 3)
    assert manifest["generated"]["source"] == "made up"
    assert np.allclose(manifest["channel_mean"], (train / 255).mean((0, 1, 2)))
    assert np.allclose(summary.facts["channel_std"], (train / 255).std((0, 1, 2)))
    for name, expected in manifest["sha256"].items():
        assert sha256(folder / name) == expected
    assert summary.facts["class_counts"]["test"] == {"even": 15, "odd": 15}
    assert set(summary.facts["duplicates"].values()) == {0}
    assert summary.examples.shape == (64, 4, 5, 3)
    assert {image.tobytes() for image in summary.examples} <= {image.tobytes() for image in train}


def test_the_same_seed_writes_the_same_bytes(made, tmp_path):
    sums = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        split_images("mnist", tiny.params(), made, tmp_path / name, seed)
        sums.append([sha256(path) for path in sorted((tmp_path / name).iterdir())])
    assert sums[0] == sums[1] != sums[2]


def test_without_an_official_split_all_three_are_drawn_in_groups(tmp_path, monkeypatch):
    groups = np.arange(200) // 4
    made = generate(monkeypatch, tmp_path / "emoji", all=(TRAIN, groups))
    folder = tmp_path / "split"
    split_images("emoji", tiny.params(), made, folder, seed=0)
    found = {
        split: [INDEX[image.tobytes()] for image in load_images(folder, split)]
        for split in ("train", "val", "test")
    }
    assert sorted(item for items in found.values() for item in items) == list(range(200))
    assert sum(len(set(groups[items])) for items in found.values()) == 50
    assert found["train"] != sorted(found["train"])
    for split, items in found.items():
        assert load_labels(folder, split).tolist() == [item % 2 for item in items]


def test_a_changed_file_is_not_split(made, tmp_path):
    data = bytearray((made / "train.npy").read_bytes())
    data[-1] ^= 1
    (made / "train.npy").write_bytes(data)
    with pytest.raises(GenlabError) as error:
        split_images("mnist", tiny.params(), made, tmp_path / "x", 0)
    assert error.value.path == made / "train.npy"
    assert error.value.fix == "python stages/generate.py --dataset mnist"
    assert not (tmp_path / "x").exists()


def test_the_two_stages_lead_from_archive_to_sheet(tmp_path, monkeypatch, capsys):
    from stages import generate, split

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources, "SYSTEM_FOLDERS", {})
    tiny.write_params(tmp_path)
    folder = tmp_path / "data" / "raw" / "MNIST" / "raw"
    folder.mkdir(parents=True)
    resources = []
    for part, count in (("train", 40), ("t10k", 10)):
        pixels = struct.pack(">4B3I", 0, 0, 8, 3, count, 28, 28) + RNG.bytes(count * 784)
        labels = struct.pack(">4BI", 0, 0, 8, 1, count) + bytes(count)
        for kind, content in (("images-idx3", pixels), ("labels-idx1", labels)):
            packed = gzip.compress(content)
            (folder / f"{part}-{kind}-ubyte.gz").write_bytes(packed)
            resources.append((f"{part}-{kind}-ubyte.gz", hashlib.md5(packed).hexdigest()))
    monkeypatch.setattr(datasets.MNIST, "resources", resources)
    for stage in (generate, split):
        stage.main(["--dataset", "mnist"])
    assert "36 train, 4 val, 10 test" in capsys.readouterr().out
    facts = json.loads(Path("results/mnist/data.json").read_text())
    assert facts["class_counts"]["train"]["0"] == 36
    assert load_images("data/mnist", "val", (28, 28, 1)).shape == (4, 28, 28, 1)
    with Image.open("plots/mnist/data/sheet.png") as sheet:
        assert sheet.width == 1200
