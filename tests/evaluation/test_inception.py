"""Distances in a second extractor's features: what is measured, and what is left out and why."""

import sys

import numpy as np
import numpy.typing as npt
import pytest

from genlab.evaluation.metrics import inception

RNG = np.random.default_rng(0)
SHAPE = (300, 8, 8, 1)


def _rows(images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Means of the rows: features that a shift of grey moves."""
    return images.mean(axis=(2, 3)).astype(np.float32)


def _noise(low: int, high: int) -> npt.NDArray[np.uint8]:
    return RNG.integers(low, high, SHAPE, dtype=np.uint8)


def test_each_set_is_held_against_the_test_images_beside_their_floor() -> None:
    shown = {"samples": _noise(100, 256), "reconstruction": _noise(0, 156)}
    found = inception.distances(_rows, _noise(0, 156), _noise(0, 156), shown, seed=0)
    far, near, floor = (
        found[name]["frechet_distance"] for name in ("samples", "reconstruction", "floor")
    )
    assert far > 8 * 99**2  # eight rows, a hundred levels apart
    assert near < 0.05 * far
    assert floor < 0.05 * far
    for name in ("samples", "reconstruction", "floor"):
        assert found[name]["n"] == SHAPE[0]
        interval = found[name]["intervals"]["frechet_distance"]
        assert interval["low"] <= found[name]["frechet_distance"] <= interval["high"]


def test_without_its_package_it_is_left_out_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)
    monkeypatch.setitem(sys.modules, "torch_fidelity.feature_extractor_inceptionv3", None)
    assert inception.inception_extractor() is None
    assert "left out" in (said := capsys.readouterr().err)
    assert "torch-fidelity" in said
