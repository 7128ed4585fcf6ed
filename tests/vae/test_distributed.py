"""Training by several processes gives the weights of one, even after a worker was killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import tiny
import torch
import torch.distributed as dist
from stage_runs import ROOT, TIMEOUT, run_stage

from genlab.core.errors import GenlabError
from genlab.core.io import sha256
from genlab.vae.training import distributed

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny.write_dataset(tmp_path)
    return tmp_path


def start(folder: Path, output: str, **params: Any) -> subprocess.Popen[bytes]:
    """Start training by two processes in `folder`."""
    tiny.write_params(folder, **params)
    stage = [str(ROOT / "stages/train.py"), "--data-path", str(folder), "--output", output]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    command = [*TORCHRUN, "--nproc-per-node", "2", *stage]
    log = (folder / f"{output}.log").open("wb")
    return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)


@pytest.mark.slow
def test_two_processes_train_as_one_with_two_threads(folder: Path) -> None:
    tiny.write_params(folder, threads=2)
    alone = run_stage(folder, "train", "--data-path", str(folder), "--output", "alone")
    assert not alone.status, alone.stderr
    process = start(folder, "together", threads=1)
    assert process.wait(TIMEOUT) == 0, (folder / "together.log").read_text()
    expected = json.loads((folder / "alone/training.json").read_text())
    summary = json.loads((folder / "together/training.json").read_text())
    assert summary["best_epoch"] == expected["best_epoch"]
    assert summary["series"]["loss"] == pytest.approx(expected["series"]["loss"], rel=1e-4)
    assert (folder / "together.log").read_text().count("best epoch") == 1


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds the workers in /proc")
def test_a_killed_worker_ends_with_the_same_bytes_when_run_again(folder: Path) -> None:
    checkpoint = "model.safetensors"
    uninterrupted = start(folder, "uninterrupted", epochs=12)
    assert uninterrupted.wait(TIMEOUT) == 0, (folder / "uninterrupted.log").read_text()
    process = start(folder, "killed", epochs=12)
    deadline = time.monotonic() + TIMEOUT
    while not list(folder.glob("data/.making/*/state.pt")) and time.monotonic() < deadline:
        time.sleep(0.01)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    assert process.wait(TIMEOUT) != 0
    again = start(folder, "killed", epochs=12)
    assert again.wait(TIMEOUT) == 0, (folder / "killed.log").read_text()
    expected = sha256(folder / "uninterrupted" / checkpoint)
    assert sha256(folder / "killed" / checkpoint) == expected


def test_every_process_gets_as_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "world_size", lambda: 3)
    distributed.require_divisible(30)
    with pytest.raises(
        GenlabError, match="batch_size must be a multiple of the 3 processes, got 32"
    ):
        distributed.require_divisible(32)


def test_nccl_connects_gpus_each_with_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = Mock()
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", calls.set_device)
    monkeypatch.setattr(dist, "init_process_group", calls.init_process_group)
    monkeypatch.setattr(dist, "destroy_process_group", calls.destroy_process_group)
    with distributed.process_group("cuda"):
        calls.init_process_group.assert_called_once_with("nccl")
    calls.set_device.assert_called_once_with(1)
    calls.destroy_process_group.assert_called_once_with()
