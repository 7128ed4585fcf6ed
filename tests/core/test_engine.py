"""Seeds and provenance."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from clones import run_in

from genlab.core import engine
from genlab.core.params import load_params

FILE = Path(__file__).resolve().parents[2] / "params.yaml"
BLAS_THREADS = """
import genlab.core.engine, scipy.linalg
from threadpoolctl import threadpool_info
print(*{pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"})
"""


@pytest.fixture
def torch_state():
    """Restore the process's torch settings."""
    deterministic = torch.are_deterministic_algorithms_enabled()
    threads = torch.get_num_threads()
    environment = dict(os.environ)
    yield
    torch.use_deterministic_algorithms(deterministic)
    torch.set_num_threads(threads)
    os.environ.clear()
    os.environ.update(environment)


@pytest.mark.usefixtures("torch_state")
def test_the_same_seed_draws_the_same_numbers() -> None:
    def draw(seed: int) -> tuple[float, ...]:
        generator = engine.make_deterministic(seed)
        return (generator.random(), random.random(), np.random.rand(), torch.rand(1).item())

    first = draw(3)
    assert draw(3) == first
    assert not set(draw(4)) & set(first)


@pytest.mark.usefixtures("torch_state")
def test_determinism_is_asked_of_torch_and_of_child_processes() -> None:
    engine.make_deterministic(0, threads=1)
    assert torch.are_deterministic_algorithms_enabled()
    assert torch.get_num_threads() == 1
    assert os.environ["OMP_NUM_THREADS"] == "1"


def test_numpy_adds_in_one_thread() -> None:
    environment = {k: v for k, v in os.environ.items() if k not in engine.THREAD_VARIABLES}
    command = [sys.executable, "-c", BLAS_THREADS]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "1"


@pytest.mark.usefixtures("outside_any_repository")
def test_provenance_names_the_commit_and_whether_it_was_dirty(tmp_path: Path) -> None:
    params = load_params(FILE)
    data = tmp_path / "data.bin"
    data.write_bytes(b"abc")
    outside = engine.collect_provenance(params, data)
    assert outside["commit"] is outside["dirty"] is None
    run_in(tmp_path, "git", "init", "-q")
    run_in(tmp_path, "git", "add", ".")
    run_in(tmp_path, "git", "commit", "-q", "-m", "one")
    provenance = engine.collect_provenance(params, data)
    assert provenance["commit"] == run_in(tmp_path, "git", "rev-parse", "HEAD").strip()
    assert provenance["dirty"] is False
    assert provenance["params"] == params.digest()
    assert provenance["data"].startswith("ba7816bf")
    data.write_bytes(b"abcd")
    assert engine.collect_provenance(params, data)["dirty"] is True
