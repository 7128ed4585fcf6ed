"""The machine a run stands on: device, seeds, threads, and where a result came from."""

import os
import platform
import random
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from genlab.core import git
from genlab.core.errors import GenlabError
from genlab.core.io import sha256
from genlab.core.params import Params

PACKAGES = ("genlab", "numpy", "scipy", "torch", "torchvision", "dvc")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def select_device(name: str) -> torch.device:
    """The torch device called `name`; `auto` takes cuda, else mps, else cpu.

    Raises a `GenlabError` for a device that this machine or this torch has not got.
    """
    here = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    present = [*filter(here.get, here), "cpu"]
    if name != "auto" and name not in present:
        known = ", ".join(["auto", *present])
        raise GenlabError(f"device must be one of {known} here, got {name!r}", key="device")
    return torch.device(present[0] if name == "auto" else name)


def make_deterministic(seed: int, threads: int = 1) -> np.random.Generator:
    """Seed every generator, ask torch for deterministic algorithms, and set the thread count.

    Returns a numpy generator of the same seed. The number of threads is part of what makes a
    floating-point sum the same: `torch_threads` alone changes it for a while.
    """
    # cuBLAS is deterministic only with this workspace, and only if it is set before its first use.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)  # for the processes that this one starts
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(True)
    # Filling every new tensor costs 5 % of a step and hides nothing here: no code reads memory that
    # it has not written.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    # exp of a very negative log density is a denormal number, on which a CPU is ten times slower.
    torch.set_flush_denormal(True)
    torch.backends.cudnn.benchmark = False
    random.seed(seed)
    np.random.seed(seed)  # libraries that draw from numpy's global generator
    torch.manual_seed(seed)
    return np.random.default_rng(seed)


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Give torch's operators so many threads until the context is left."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def describe_machine() -> dict[str, Any]:
    """What the numbers of a run were measured on: CPU, cores, memory in GiB, GPU, versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def collect_provenance(params: Params, data_path: str | Path) -> dict[str, Any]:
    """Where a result comes from: commit, command, params, data, versions and machine.

    `commit` and `dirty` are None outside a git repository. `data` is the SHA-256 of the file
    `data_path`.
    """
    commit = git.run_git(Path(), "rev-parse", "HEAD")
    changes = git.run_git(Path(), "status", "--porcelain", "--untracked-files=no")
    return {
        "commit": commit and commit.decode().strip(),
        "dirty": None if commit is None else bool(changes),
        "command": " ".join(["python", *sys.argv]),
        "params": params.digest(),
        "data": sha256(data_path),
        "versions": {package: version(package) for package in PACKAGES},
        "machine": describe_machine(),
    }


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")  # Linux; platform.processor() is empty there
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    found = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return found[1] if found else platform.processor() or platform.machine()
