"""Marks are computed from logits and labels that stay outside; what breaks is told in a line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tiny
import torch
from safetensors.numpy import load_file

from genlab.agent import exam as exams
from genlab.agent import guest
from genlab.agent.exam import exam, final_part, mark
from genlab.agent.space import Block, ModelConfig
from genlab.agent.template import source
from genlab.core.errors import GenlabError

CONFIG = ModelConfig(
    blocks=(Block(kind="plain", channels=8, kernel=5, halve=True), Block(kind="plain", channels=8)),
    hidden=(16,),
)


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


def _run(folder: Path, code: str, name: str = "CurrentModel", **changes: Any) -> Any:
    """A job as the evaluator writes it, run by a plain interpreter."""
    found = exam("dummy", folder, 800, 200, 0)
    (folder / "model.py").write_text(code)
    np.savez(
        folder / "input.npz",
        train=found.train.items,
        labels=found.train.labels,
        train_probe=found.train.items[:100],
        answer=found.validation.items,
    )
    job = {
        "model": str(folder / "model.py"), "class_name": name, "input": str(folder / "input.npz"),
        "output": str(folder), "scale": found.scale, "epochs": 4, "batch_size": 32, "lr": 3e-3,
        "optimiser": "adamw", "weight_decay": 0.01, "seconds": 60.0, "seed": 0, "device": "cpu",
        **changes,
    }  # fmt: skip
    (folder / "job.json").write_text(json.dumps(job))
    done = subprocess.run(
        [sys.executable, guest.__file__, str(folder / "job.json")], capture_output=True, text=True
    )
    return found, done


@pytest.mark.slow
def test_a_model_is_trained_and_its_weights_answer_alike(tmp_path: Path) -> None:
    found, done = _run(tmp_path, source(CONFIG, (1, 16, 16), 4))
    assert done.returncode == 0, done.stderr
    logits = load_file(tmp_path / "logits.safetensors")
    marks = mark(logits["answer"], found.validation.labels)
    assert marks.accuracy > 0.7  # chance is a quarter
    assert json.loads((tmp_path / "told.json").read_text()) == {"epochs": 4, "updates": 100}
    (tmp_path / "weights.safetensors").rename(tmp_path / "kept.safetensors")
    again = {"weights": str(tmp_path / "kept.safetensors")}
    _, done = _run(tmp_path, source(CONFIG, (1, 16, 16), 4), **again)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(
        load_file(tmp_path / "logits.safetensors")["answer"], logits["answer"], rtol=1e-4, atol=1e-5
    )


HEAD = "import torch\nfrom torch import nn\n"
BROKEN = {
    "class M(nn.Module):\n    def forward(self, x):\n        return x.reshape(3)\n": (
        "RuntimeError at line 5 of model.py: shape '[3]' is invalid",
    ),
    "M = 3\n": ("there is no nn.Module called M in it",),
    "class M(nn.Module):\n    def __init__(self, width):\n        super().__init__()\n": (
        "TypeError at line", "width",
    ),
    "class M(nn.Module)\n": ("SyntaxError at line", "expected ':'"),
    "class M(nn.Module):\n    def forward(self, x):\n        return x.mean()\n": (
        "forward gives () for 100 images",
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("code", BROKEN)
def test_what_breaks_is_told_in_a_line(code: str, tmp_path: Path) -> None:
    _, done = _run(tmp_path, HEAD + code, "M")
    assert done.returncode == guest.BROKEN
    assert len(done.stderr.strip().splitlines()) == 1
    for words in BROKEN[code]:
        assert words in done.stderr


def test_guest_imports_nothing_of_ours() -> None:
    text = Path(guest.__file__).read_text(encoding="utf-8")
    assert "genlab" not in text
    assert set(exams.READERS) >= {"mnist", "cifar10", "fashion_mnist", "arc_grids", "dummy"}
