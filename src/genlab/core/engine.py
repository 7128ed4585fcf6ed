"""The machine that a run uses: device, seeds, threads, and the provenance of results."""

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
    """Return the torch device called `name`; `auto` is cuda if available, else mps, else cpu.

    Raises a `GenlabError` for a device that this machine or this build of torch lacks.
    """
    available = ["cpu"]
    if torch.backends.mps.is_available():
        available.insert(0, "mps")
    if torch.cuda.is_available():
        available.insert(0, "cuda")
    if name == "auto":
        return torch.device(available[0])
    if name not in available:
        choices = ", ".join(["auto", *available])
        raise GenlabError(f"device must be one of {choices} here, got {name!r}", key="device")
    return torch.device(name)


def make_deterministic(seed: int, threads: int = 1) -> np.random.Generator:
    """Seed all random generators, make torch deterministic, and set the number of threads.

    Returns a numpy generator of the same seed. The last digits of a floating-point sum depend on
    the number of threads, which nothing but `torch_threads` changes afterwards.
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
    """Let torch's operators use `threads` threads inside the context."""
    previous = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(previous)


def describe_machine() -> dict[str, Any]:
    """Describe this machine: CPU, cores, memory in GiB, GPU, platform, versions."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _find_cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def collect_provenance(params: Params, data_path: str | Path) -> dict[str, Any]:
    """Describe where a result comes from: commit, command, params, data, versions and machine.

    `commit` and `dirty` are None outside a git repository. `command` is the command line of this
    process; like the machine, it is recorded and nothing depends on it. `data` is the SHA-256 of
    the file `data_path`.
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


def _find_cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")  # Linux; platform.processor() is empty there
    text = cpuinfo.read_text(encoding="utf-8") if cpuinfo.is_file() else ""
    match = re.search(r"^model name\s*: (.*)$", text, re.MULTILINE)
    return match[1] if match else platform.processor() or platform.machine()
