"""Distances in Inception's features: what is measured, and what is left out and why."""

import sys
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from genlab.core.errors import GenlabError
from genlab.evaluation.metrics import inception

RNG = np.random.default_rng(0)
SHAPE = (300, 8, 8, 1)


class Rows:
    """Means of the rows: features that a shift of grey moves."""

    def __call__(self, images: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
        return images.mean(axis=(2, 3)).astype(np.float32)


def _noise(low: int, high: int) -> npt.NDArray[np.uint8]:
    return RNG.integers(low, high, SHAPE, dtype=np.uint8)


def test_each_set_is_compared_with_the_test_images(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inception, "InceptionFeatures", Rows)
    shown = {"samples": _noise(100, 256), "reconstruction": _noise(0, 156)}
    found = inception.inception_distances(_noise(0, 156), _noise(0, 156), shown, seed=0)
    assert found is not None
    far, near, floor = (
        found[name]["frechet_distance"] for name in ("samples", "reconstruction", "floor")
    )
    assert far > 8 * 99**2  # eight rows, a hundred levels apart
    assert max(near, floor) < 0.05 * far
    for name in ("samples", "reconstruction", "floor"):
        assert found[name]["n"] == SHAPE[0]
        interval = found[name]["intervals"]["frechet_distance"]
        assert interval["low"] <= found[name]["frechet_distance"] <= interval["high"]


def test_what_is_missing_is_named_and_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(inception.torch.hub, "get_dir", lambda: str(tmp_path))
    images = _noise(0, 156)
    assert inception.inception_distances(images, images, {}, seed=0) is None
    assert f"left out: {tmp_path}" in capsys.readouterr().err
    weights = tmp_path / "checkpoints" / inception.WEIGHTS
    weights.parent.mkdir()
    weights.write_text("no weights")
    with pytest.raises(GenlabError, match="not Inception weights"):
        inception.InceptionFeatures()
    inception.torch.save({}, weights)
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)
    with pytest.raises(GenlabError, match=r"torch-fidelity|not Inception weights"):
        inception.InceptionFeatures()
