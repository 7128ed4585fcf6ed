"""The machine a run stands on: device, seeds, threads, and where a result came from."""

from __future__ import annotations

import os
import platform
import random
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
import torch

from genlab.core.errors import GenlabError
from genlab.core.io import sha256
from genlab.core.params import Params

PACKAGES = ("genlab", "numpy", "scipy", "torch", "torchvision", "dvc")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def device(name: str) -> torch.device:
    """The torch device called `name`; `auto` takes cuda, else mps, else cpu.

    Raises a `GenlabError` for a device that this machine or this torch has not got.
    """
    present: dict[str, Callable[[], bool]] = {
        "cuda": torch.cuda.is_available,
        "mps": torch.backends.mps.is_available,
        "cpu": lambda: True,
    }
    if name == "auto":
        return torch.device(next(kind for kind, is_here in present.items() if is_here()))
    if name not in present:
        raise GenlabError(f"device must be one of auto, {', '.join(present)}, got {name!r}")
    if not present[name]():
        raise GenlabError(f"device {name} is not available here; set device to auto or cpu")
    return torch.device(name)


def deterministic(seed: int, threads: int = 1) -> np.random.Generator:
    """Seed every generator, ask torch for deterministic algorithms, and set the thread count.

    Returns a numpy generator of the same seed. The number of threads is part of what makes a
    floating-point sum the same, so it is set here and nowhere else.
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


def machine() -> dict[str, Any]:
    """What the numbers of a run were measured on: CPU, cores, memory in GiB, GPU, versions."""
    return {
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        "memory_gib": _memory_gib(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def machine_line() -> str:
    """`machine()` in words, for tables."""
    here = machine()
    return (
        f"{here['cpu']}, {here['cores']} cores, {here['memory_gib']} GiB,"
        f" GPU {here['gpu'] or 'none'}, torch {here['torch']}"
    )


def provenance(params: Params, data_path: str | Path) -> dict[str, Any]:
    """Where a result comes from: commit, command, params, data, versions and machine.

    `commit` and `dirty` are None outside a git repository. `data` is the SHA-256 of the file
    `data_path`.
    """
    return {
        "commit": _git("rev-parse", "HEAD"),
        "dirty": _dirty(),
        "command": " ".join(["python", *sys.argv]),
        "params": params.digest(),
        "data": sha256(data_path),
        "versions": _versions(),
        "machine": machine(),
    }


def _dirty() -> bool | None:
    status = _git("status", "--porcelain", "--untracked-files=no")
    return None if status is None else bool(status)


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, check=True, timeout=60
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()


def _versions() -> dict[str, str]:
    found: dict[str, str] = {}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.machine()


def _memory_gib() -> float | None:
    try:
        size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None
    return round(size / 2**30, 1)
