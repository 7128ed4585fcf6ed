"""Distances in Inception's features: what is measured, and what is left out and why."""

from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import torch

from genlab.evaluation.metrics import inception

SHAPE = (100, 8, 8, 1)


class Rows(torch.nn.Module):
    """Means of the rows: features that a shift of grey moves."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.double().mean(dim=(1, 3))


def _noise(low: int, high: int) -> npt.NDArray[np.uint8]:
    return np.random.default_rng(low).integers(low, high, SHAPE, dtype=np.uint8)


@pytest.fixture
def weights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of weights in torch's hub folder."""
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    path = tmp_path / "checkpoints" / inception.WEIGHTS
    path.parent.mkdir()
    torch.save({}, path)
    return path


def test_each_set_is_compared_with_the_test_images(
    weights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def metric(*_: object, feature_extractor_weights_path: str, **options: bool) -> object:
        assert feature_extractor_weights_path == str(weights)
        return plain(Rows(), **options)

    plain = partial(inception.FrechetInceptionDistance, input_img_size=(3, 8, 8))
    monkeypatch.setattr(inception, "FrechetInceptionDistance", metric)
    shown = {"samples": _noise(100, 256), "reconstruction": _noise(1, 157)}
    found = inception.inception_distances(_noise(0, 156), shown)
    assert found is not None
    assert found["samples"] > 8 * 98**2  # eight rows, a hundred levels apart
    assert found["reconstruction"] < 0.05 * found["samples"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_text("no weights")])
def test_what_is_missing_is_named_and_left_out(
    damage: object, weights: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(weights)  # type: ignore[operator]
    assert inception.inception_distances(_noise(0, 156), {}) is None
    assert str(weights) in capsys.readouterr().err
