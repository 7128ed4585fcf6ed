"""The preset for one GPU: its own params, small and on the CPU, take a step of training."""

import functools
import math
from pathlib import Path
from typing import Any

import pytest
import tiny
import torch

from genlab.core.io import read_yaml
from genlab.core.params import parse_params
from genlab.experiments.definitions import apply_changes
from genlab.vae.training.tasks import make_task
from genlab.vae.training.trainer import Trainer

ROOT = Path(__file__).resolve().parents[2]
DATASET = "fashion_mnist"
SMALLER: dict[str, Any] = {
    "device": "cpu",
    "threads": 1,
    "batch_size": 4,
    "prior_depth": 2,
    "images_model.width": 4,
    "images_model.depth": 1,
    "images_model.prior_width": 12,
    "images_model.causal_channels": 4,
    "images_model.likelihood_components": 2,
    "images_model.epochs": 1,
    "images_model.samples_per_epoch": 4,
}


@pytest.mark.parametrize("compiled", [False, True])
def test_the_preset_takes_a_step_at_a_small_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool
) -> None:
    entry = read_yaml(ROOT / "experiments.yaml")["gpu"]
    assert (entry["manual"], entry["dataset"]) == (True, DATASET)
    changes = {**entry["params"], **SMALLER, "compile": compiled}
    params = parse_params(apply_changes(read_yaml(ROOT / "params.yaml"), changes, "gpu"), "gpu")
    params = params.for_dataset(DATASET)
    assert (params.precision, params.prior_heads) == ("bfloat16", entry["params"]["prior_heads"])
    # The whole graph and its gradient, without the minutes of a C++ compiler
    eager = functools.partial(torch.compile, backend="aot_eager")
    monkeypatch.setattr(torch, "compile", eager)
    task = make_task(params, tiny.images(8), 256)
    trainer = Trainer(params, task, tiny.images(4, 1), tmp_path / "state")
    before = tiny.bits(trainer.model)
    trainer.run(tiny.nothing)
    [values] = trainer.progress.history
    assert math.isfinite(values["train/loss"])
    assert values["skipped_updates"] == 0
    assert tiny.bits(trainer.model)["head.correct.weight"] != before["head.correct.weight"]
