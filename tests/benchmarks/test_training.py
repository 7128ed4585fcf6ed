"""The profile of a training step covers all of its time, and undoes its patches."""

from pathlib import Path

import pytest
import tiny
import torch
from benchmarks.training import split_time

from genlab.vae.training.trainer import Trainer


@pytest.mark.parametrize("alone", [False, True])
def test_the_time_of_a_step_is_split_into_its_parts(tmp_path: Path, alone: bool) -> None:
    changes = {"causal_channels": 4, "ema": 0.9}
    task = tiny.image_task(tiny.images(16), **changes)
    params = tiny.image_params(**changes)
    trainer = Trainer(params, task, tiny.images(4, 1), tmp_path / "state")
    if alone:
        trainer.step.freeze_autoencoder()
    x = task.load_batch(torch.arange(8))
    generator = torch.Generator().manual_seed(0)
    grad = torch.autograd.grad
    head = trainer.model.head
    times = split_time(trainer, lambda: trainer.step(x, 1.0, generator), 3)
    always = {"other", "encoder", "prior", "backward", "clip", "optimiser", "average"}
    assert always <= set(times)
    assert ({"decoder", "likelihood", "causal head"} <= set(times)) != alone
    assert all(seconds >= 0 for seconds in times.values())
    assert times["backward"] > 0
    assert torch.autograd.grad is grad
    assert head is not None
    assert "forward" not in vars(head)
