"""Accepted draws are distributed like real images."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from genlab.core.errors import GenlabError
from genlab.vae.sampling import rejection

SIDE = 8


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejection, "WIDTH", 4)
    monkeypatch.setattr(rejection, "HIDDEN", 8)
    monkeypatch.setattr(rejection, "CODE_WIDTH", 8)
    monkeypatch.setattr(rejection, "DROPOUT", 0.0)
    monkeypatch.setattr(rejection, "LR", 5e-3)


def _draw(count: int, generator: torch.Generator) -> Tensor:
    """Latents of bright and dark images, equally often."""
    bright = (torch.rand(count, 1, generator=generator) < 0.5).float()
    return bright + 0.01 * torch.randn(count, 1, generator=generator)


def _show(z: Tensor) -> Tensor:
    return (50 + 150 * z.round()).to(torch.uint8)[:, :, None, None].expand(-1, 1, SIDE, SIDE)


def _real(bright: float, count: int = 1000) -> np.ndarray[Any, Any]:
    levels = np.where(np.arange(count) % 100 < 100 * bright, 200, 50).astype(np.uint8)
    return np.tile(levels[:, None, None, None], (1, SIDE, SIDE, 1))


def _fit(real: np.ndarray[Any, Any]) -> Any:
    codes = torch.from_numpy(real[:, 0, 0] > 128).float()
    codes = codes + 0.01 * torch.randn(codes.shape, generator=torch.Generator().manual_seed(5))
    return rejection.fit_rejection(_draw, _show, real, codes, 0)


@pytest.mark.parametrize(
    ("bright", "acceptance", "accuracy"),
    [
        (0.9, 0.5 + 0.5 / 9, 0.7),  # of the dark half, a ninth is accepted
        (0.5, 0.9, 0.5),  # nearly all, since the draws are right
    ],
)
def test_accepted_draws_are_distributed_like_the_real_images(
    bright: float, acceptance: float, accuracy: float
) -> None:
    draw, facts = _fit(_real(bright))
    z = draw(2000, torch.Generator().manual_seed(1))
    assert z.shape == (2000, 1)
    assert float(z.mean()) == pytest.approx(bright, abs=0.1 * 0.5 / bright)
    assert facts["acceptance"] == pytest.approx(acceptance, abs=0.08 if bright > 0.5 else 0.1)
    assert facts["classifier_accuracy"] == pytest.approx(accuracy, abs=0.08)


def test_blur_alone_does_not_tell_draws_from_real_images() -> None:
    rng = np.random.default_rng(0)
    real = _real(0.5)
    grain = rng.integers(-15, 16, real.shape)
    grain[:, 1::2, 1::2] = 0
    for dy, dx in ((0, 0), (0, 1), (1, 0)):  # so that it sums to nothing over 2 x 2 pixels
        grain[:, 1::2, 1::2] -= grain[:, dy::2, dx::2]
    _, facts = _fit((real + grain).astype(np.uint8))
    assert facts["classifier_accuracy"] < 0.65


def test_a_model_that_diverged_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejection, "LR", 1e30)
    with pytest.raises(GenlabError, match="not finite"):
        _fit(_real(0.5, 200))
