"""A sandboxed folder in which one job runs after the other, each in an empty folder."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors import SafetensorError
from safetensors.torch import load as load_tensors

from genlab.agent.evaluator import guest
from genlab.agent.evaluator.guest.run import BROKEN
from genlab.core.errors import GenlabError
from genlab.core.io import write_text
from genlab.core.text import printable
from genlab.sandbox.limits import GIB, Finished, Limits
from genlab.sandbox.readback import read_back, remove_tree
from genlab.sandbox.runner import Sandbox
from genlab.sandbox.worker import Worker

GUEST = Path(guest.__file__).parent
DISTRIBUTIONS = GUEST.parents[2] / "distributions"
COPIED = ("__init__.py", "likelihoods.py", "discretized_logistic.py", "gaussian.py")
# The first optimiser of a process imports torch._dynamo, which takes as long as torch itself.
PRELOAD = ("torch", "torch._dynamo", "torchinfo", "numpy", "safetensors.torch")
CORES = 8  # that a long training may keep busy before its CPU time is up
ANSWER_SECONDS = 300.0
LONGEST = 400  # characters of a reason
GPU_ADDRESS_SPACE = 1 << 46  # bytes that a GPU's driver reserves, and does not use
STOPPED = {
    "time": "it ran out of time",
    "memory": "it used more memory than it may",
    "output": "it printed too much output",
    "files": "it wrote too many files or bytes",
    "signal": "its process died of a signal",
}


class EvaluationError(Exception):
    """Why a model has no numbers: `reason`, one printable line."""

    def __init__(self, reason: str) -> None:
        self.reason = " ".join(printable(reason).split())[:LONGEST]
        super().__init__(self.reason)


class Room(AbstractContextManager["Room"]):
    """A sandbox with a warm worker and a folder that is emptied before and after each job.

    A job sees the interpreter, the guest package and this folder; its process is a fresh fork.
    """

    def __init__(self, *, mode: str = "auto", device: str = "cpu") -> None:
        self.device = device
        self.folder = Path(tempfile.mkdtemp(prefix="genlab-room-")).resolve()
        self.sandbox = Sandbox(
            self.folder, mode=mode, readable=(GUEST,), devices=find_devices(device)
        )
        self.worker = Worker(self.sandbox, preload=PRELOAD)

    def run(
        self,
        job: Mapping[str, Any],
        source: str,
        *,
        seconds: float,
        arrays: Mapping[str, Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any]] | None = None,
        weights: bytes = b"",
        likelihoods: bool = False,
    ) -> Finished:
        """Run a job of the guest on the model file `source`; raises EvaluationError if it fails.

        arrays: files for the job, .npz of several arrays or .npy of one. likelihoods: whether it
        gets copies of genlab.distributions. Read what it leaves before the next job.
        """
        self.empty()
        model = self.folder / "model.py"
        write_text(model, source)
        for name, content in (arrays or {}).items():
            if isinstance(content, Mapping):
                np.savez(self.folder / name, **content)  # type: ignore[arg-type]
            else:
                np.save(self.folder / name, content)
        if weights:
            (self.folder / "kept.safetensors").write_bytes(weights)
        if likelihoods:
            self._copy_likelihoods()
        places = {"model": str(model), "folder": str(self.folder), "device": self.device}
        kept = str(self.folder / "kept.safetensors") if weights else ""
        write_text(self.folder / "job.json", json.dumps({**job, **places, "weights": kept}))
        limits = Limits(wall_seconds=seconds, cpu_seconds=max(60.0, CORES * seconds))
        if self.device != "cpu":
            limits = Limits(
                wall_seconds=seconds,
                cpu_seconds=max(60.0, CORES * seconds),
                address_space=GPU_ADDRESS_SPACE,
                memory_bytes=16 * GIB,
                processes=256,
            )
        done = self.worker.run(
            GUEST / "run.py",
            [str(self.folder / "job.json")],
            env={"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
            limits=limits,
        )
        if reason := describe_failure(done):
            self.empty()
            raise EvaluationError(reason)
        return done

    def answer(
        self,
        job: Mapping[str, Any],
        source: str,
        weights: bytes,
        arrays: Mapping[str, npt.NDArray[Any]],
        *,
        limit: int,
    ) -> dict[str, torch.Tensor]:
        """What the model with these weights answers, in an answer of at most `limit` bytes."""
        try:
            self.run(job, source, seconds=ANSWER_SECONDS, arrays=arrays, weights=weights)
            return read_safetensors(self.read("answers.safetensors", limit))
        finally:
            self.empty()

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file that the last job left. Raises EvaluationError where it cannot be."""
        try:
            return read_back(self.folder, name, limit=limit)
        except (GenlabError, OSError) as error:
            raise EvaluationError(f"the model ended without a result: {error}") from error

    def read_json(self, name: str, limit: int) -> Any:
        """A JSON file that the last job left."""
        try:
            return json.loads(self.read(name, limit))
        except (ValueError, RecursionError) as error:
            raise EvaluationError(f"the result is not JSON: {error}") from error

    def empty(self) -> None:
        """Remove what the last job left; the folder itself stays, since the worker holds it."""
        for each in self.folder.iterdir():
            if each.is_dir() and not each.is_symlink():
                remove_tree(each)
            else:
                each.unlink(missing_ok=True)

    def close(self) -> None:
        self.worker.close()
        remove_tree(self.folder)

    def __exit__(self, *_: object) -> None:
        self.close()

    def _copy_likelihoods(self) -> None:
        """Copies of our own files, which the guest may import: genlab itself is not there."""
        package = self.folder / "genlab" / "distributions"
        package.mkdir(parents=True)
        (package.parent / "__init__.py").touch()
        for name in COPIED:
            shutil.copyfile(DISTRIBUTIONS / name, package / name)


def read_safetensors(data: bytes) -> dict[str, torch.Tensor]:
    """Tensors of a safetensors file that a guest wrote. Raises EvaluationError for another file."""
    try:
        return load_tensors(data)
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise EvaluationError(f"the result is not a safetensors file: {error}") from error


def describe_failure(done: Finished) -> str:
    """Why a job brought nothing; empty where it ended well."""
    lines = [line for line in printable(done.output).splitlines() if line.strip()]
    last = lines[-1].strip() if lines else ""
    if done.exit_code == BROKEN and last and done.stopped_by in (None, "memory"):
        return last
    if done.stopped_by is not None:
        why = STOPPED.get(done.stopped_by, done.stopped_by)
        return f"stopped after {done.seconds:.0f} seconds: {why}"
    if done.exit_code:
        return f"exit code {done.exit_code}: {last or 'no message'}"
    return ""


def find_devices(device: str) -> list[str]:
    """The device nodes that a guest needs for torch's `device`: none for the CPU."""
    if device == "cpu":
        return []
    if device != "cuda":
        raise GenlabError(
            f"device {device} cannot enter the sandbox; use cpu or cuda", key="device"
        )
    nodes = sorted(path for path in Path("/dev").glob("nvidia*") if path.is_char_device())
    return [str(path) for path in nodes if os.access(path, os.R_OK | os.W_OK)]
