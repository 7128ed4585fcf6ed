"""The extractor: what it learns, that it repeats, its file, and Inception's absence."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch
from safetensors.torch import save_file

from genlab.evaluation.metrics import features as module
from genlab.evaluation.metrics.features import (
    FEATURES,
    Classifier,
    Layout,
    Network,
    train_classifier,
)

Images = npt.NDArray[np.uint8]
SIDE = 16


def _bars(n: int, seed: int, channels: int = 1) -> tuple[Images, npt.NDArray[np.int64]]:
    """Noisy images with one bright bar; its direction (two of them) is the class."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 90, (n, SIDE, SIDE, channels), dtype=np.uint8)
    labels = rng.integers(0, 2, n)
    for image, label, place in zip(images, labels, rng.integers(3, SIDE - 3, n), strict=True):
        view = image if label else image.swapaxes(0, 1)
        view[place : place + 2, 2:-2] = 250
    return images, labels


def _corners(n: int, seed: int, colour: tuple[int, ...] = (250,)) -> Images:
    """Noisy images with one bright corner, always the same: a turn moves it."""
    rng = np.random.default_rng(seed)
    images = rng.integers(0, 90, (n, SIDE, SIDE, len(colour)), dtype=np.uint8)
    images[:, 1:7, 1:5] = colour
    return images


def _train(images: Images, labels: npt.ArrayLike | None, seed: int = 0) -> Classifier:
    return train_classifier(images, labels, seed=seed, examples=1600, progress=False)


@pytest.fixture(scope="module")
def bars() -> Classifier:
    return _train(*_bars(400, 0))


def test_it_learns_labels(bars: Classifier) -> None:
    assert bars.layout == Layout(SIDE, 1, 2, "labels")
    assert bars.accuracy(*_bars(200, 1)) > 0.95
    untrained = Classifier(Network(bars.layout))
    assert untrained.accuracy(*_bars(200, 1)) < 0.8


def test_features_tell_the_classes_apart(bars: Classifier) -> None:
    images, labels = _bars(200, 1)
    found = bars.features(images)
    assert found.shape == (200, FEATURES)
    one, other = found[labels == 0], found[labels == 1]
    between = np.linalg.norm(one.mean(0) - other.mean(0))
    assert between > np.linalg.norm(one.std(0))


@pytest.mark.parametrize("labels", [None, np.zeros(400, np.int64)], ids=["none", "all equal"])
def test_without_labels_it_learns_which_way_is_up(labels: npt.ArrayLike | None) -> None:
    classifier = _train(_corners(400, 0), labels)
    assert classifier.layout.task == "rotation"
    assert classifier.accuracy(_corners(100, 1)) > 0.95


def test_without_labels_features_still_tell_colours_apart() -> None:
    red, blue = ((250, 20, 20), (20, 20, 250))
    both = np.concatenate([_corners(200, 0, red), _corners(200, 1, blue)])
    classifier = _train(both, None)
    one, other = (classifier.features(_corners(100, 2, colour)) for colour in (red, blue))
    assert np.linalg.norm(one.mean(0) - other.mean(0)) > np.linalg.norm(one.std(0))


def test_the_same_seed_gives_the_same_weights_and_leaves_torchs_generator_alone() -> None:
    images, labels = _bars(64, 0)
    state = torch.random.get_rng_state()
    one = train_classifier(images, labels, seed=3, examples=256, progress=False)
    torch.rand(7)
    two = train_classifier(images, labels, seed=3, examples=256, progress=False)
    other = train_classifier(images, labels, seed=4, examples=256, progress=False)
    assert one.digest == two.digest != other.digest
    torch.random.set_rng_state(state)
    train_classifier(images, labels, seed=3, examples=256, progress=False)
    assert torch.equal(torch.random.get_rng_state(), state)


@pytest.mark.parametrize(("side", "channels"), [(8, 1), (28, 1), (32, 3), (64, 3)])
def test_every_side_of_the_data_sets_gives_as_many_features(side: int, channels: int) -> None:
    images = np.zeros((3, side, side, channels), np.uint8)
    classifier = Classifier(Network(Layout(side, channels, 10, "labels")))
    assert classifier.features(images).shape == (3, FEATURES)


def test_the_file_brings_back_the_same_classifier(bars: Classifier, tmp_path: Path) -> None:
    bars.save(tmp_path / "one")
    again = Classifier.load(tmp_path / "one")
    again.save(tmp_path / "two")
    images, _ = _bars(20, 1)
    assert again.digest == bars.digest
    assert np.array_equal(again.features(images), bars.features(images))
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


SPOILS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-50]),
    "text": lambda path: path.write_text("weights\n" * 40),
    "weights of something else": lambda path: save_file({"w": torch.zeros(3)}, path),
}


@pytest.mark.parametrize("name", SPOILS)
def test_a_damaged_file_is_refused_and_the_cache_replaces_it(
    bars: Classifier, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "user_cache_path", lambda _: tmp_path)
    monkeypatch.setattr(module, "train_classifier", lambda *_, **__: bars)
    images, labels = _bars(20, 1)
    settings = {"source": "checksum", "seed": 0, "examples": 10}
    module.cached_classifier("bars", images, labels, **settings)
    (path,) = (tmp_path / "features").iterdir()
    SPOILS[name](path)
    with pytest.raises((OSError, ValueError)):
        Classifier.load(path)
    assert module.cached_classifier("bars", images, labels, **settings).digest == bars.digest
    assert Classifier.load(path).digest == bars.digest
