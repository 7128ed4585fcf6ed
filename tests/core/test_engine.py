"""Device, seeds and provenance."""

import os
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.params import load_params

FILE = Path(__file__).resolve().parents[2] / "params.yaml"


def test_auto_takes_what_is_there() -> None:
    expected = "cuda" if torch.cuda.is_available() else None
    expected = expected or ("mps" if torch.backends.mps.is_available() else "cpu")
    assert engine.device("auto").type == expected
    assert engine.device("cpu") == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has CUDA")
def test_an_absent_device_is_one_line() -> None:
    for name in ("cuda", "tpu"):
        with pytest.raises(GenlabError) as error:
            engine.device(name)
        assert error.value.key == "device"


def test_the_same_seed_draws_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    before = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()

    def draw(seed: int) -> tuple[float, ...]:
        generator = engine.deterministic(seed, threads=1)
        return (generator.random(), random.random(), np.random.rand(), torch.rand(1).item())

    try:
        first = draw(3)
        assert draw(3) == first
        assert not set(draw(4)) & set(first)
        assert torch.are_deterministic_algorithms_enabled()
        assert os.environ["OMP_NUM_THREADS"] == "1"  # for child processes
    finally:
        torch.use_deterministic_algorithms(before[0])
        torch.set_num_threads(before[1])


def _git(folder: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Test", "-c", "user.email=test@example.org"]
    done = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_provenance_names_the_commit_and_whether_it_was_dirty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = tmp_path / "data.bin"
    data.write_bytes(b"abc")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    params = load_params(FILE)
    outside = engine.provenance(params, data)
    assert (outside["commit"], outside["dirty"]) == (None, None)
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "one"]):
        _git(tmp_path, *command)
    found = engine.provenance(params, data)
    assert found["commit"] == _git(tmp_path, "rev-parse", "HEAD")
    assert found["dirty"] is False
    assert found["params"] == params.digest()
    assert found["data"].startswith("ba7816bf")
    data.write_bytes(b"abcd")
    assert engine.provenance(params, data)["dirty"] is True
