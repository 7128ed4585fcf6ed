"""Marks are computed from logits and labels that stay outside; a fault is reported in a line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch

from genlab.agent.exam import exam, final_part, mark
from genlab.core.errors import GenlabError


def test_parts_are_apart_and_the_seed_decides_them(tmp_path: Path) -> None:
    first, again, other = (exam("dummy", tmp_path, 200, 100, seed) for seed in (0, 0, 1))
    assert (len(first.train), len(first.validation)) == (200, 100)
    assert first.shape == (1, 16, 16)
    assert first.classes == 4
    assert np.array_equal(first.train.items, again.train.items)
    assert not np.array_equal(first.train.items, other.train.items)
    whole = [first.train.items, first.validation.items, final_part("dummy", tmp_path).items]
    seen = [each.tobytes() for part in whole for each in part]
    assert len(set(seen)) == len(seen)


def test_images_come_with_channels_first_and_their_labels(tmp_path: Path) -> None:
    tiny.write_image_dataset(tmp_path / "mnist")
    found = exam("mnist", tmp_path, 30, 10, 0)
    assert found.train.items.shape[1] == 1
    assert found.train.items.dtype == np.uint8
    assert found.train.labels.shape == (30,)


def test_an_unknown_dataset_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(GenlabError, match=r"dataset must be one of .*dummy, got 'imagenet'"):
        exam("imagenet", tmp_path, 10, 10, 0)
    with pytest.raises(GenlabError, match=r"python stages/"):
        exam("fashion_mnist", tmp_path, 10, 10, 0)


def test_marks_are_those_of_torch() -> None:
    logits = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(50) % 4
    found = mark(logits.numpy(), labels.numpy())
    assert found.accuracy == pytest.approx(float((logits.argmax(1) == labels).float().mean()))
    expected = float(torch.nn.functional.cross_entropy(logits, labels))
    assert found.loss == pytest.approx(expected, rel=1e-5)
    assert found.low < found.accuracy < found.high


@pytest.mark.parametrize(
    "logits",
    [np.zeros((50, 2)), np.zeros((49, 4)), np.zeros(50), np.full((50, 4), np.nan)],
)
def test_logits_that_are_none_are_not_marked(logits: Any) -> None:
    with pytest.raises(ValueError, match="logits are"):
        mark(logits, np.arange(50) % 4)
