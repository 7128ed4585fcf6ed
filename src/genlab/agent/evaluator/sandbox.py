"""The sandbox of generated models: it runs one job at a time, each in a new folder."""

import atexit
import json
import math
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor

from genlab import distributions
from genlab.agent.evaluator import guest
from genlab.agent.evaluator.guest.run import ANSWERS, BROKEN
from genlab.agent.evaluator.results import EvaluationError
from genlab.core.errors import GenlabError
from genlab.sandbox.limits import GIB, MIB, JobResult, Limits
from genlab.sandbox.readback import read_back, remove_tree
from genlab.sandbox.runner import Sandbox
from genlab.sandbox.worker import Worker

GUEST = Path(guest.__file__).parent
DISTRIBUTIONS = Path(distributions.__file__).parent
# The first optimiser of a process imports torch._dynamo, which takes as long as torch itself.
PRELOAD = ("torch", "torch._dynamo", "torchinfo", "numpy", "safetensors.torch")
RUN = GUEST / "run.py"
CORES = 8  # that a training on a GPU may keep busy before its CPU time is up
# Limit on wall seconds, as a factor and a margin on CPU seconds: others may use the cores too.
WALL_FACTOR = 4.0
WALL_MARGIN = 30.0
GPU_LIMITS = {"address_space": 1 << 46, "memory_bytes": 16 * GIB, "processes": 256}  # its driver's
ENVIRONMENT = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}  # without it cuBLAS is not deterministic
ANSWER_SECONDS = 300.0
START_SECONDS = 120.0  # for a device's driver
NO_RESULT = "the model ended without a result"
STOPPED = {
    "time": "it ran out of time",
    "memory": "it used more memory than it may",
    "output": "it printed too much output",
    "files": "it wrote too many files or bytes",
    "signal": "its process died of a signal",
}
Array = npt.NDArray[Any]
FileModel = TypeVar("FileModel", bound=BaseModel)


class ModelSandbox(Worker):
    """A warm worker that runs jobs on generated models; each job is a fresh fork of it.

    A job sees the interpreter, the guest package, the likelihoods and its folder, which is all that
    the workspace holds. Guests started by root may not write to the workspace itself; those of an
    ordinary user may, and the workspace is then deleted with what they left there.

    device: cpu or cuda, whose device nodes enter the sandbox. Raises a GenlabError where cuda does
    not start inside, which is no fault of a model.

    A job's seconds are CPU time, which the kernel counts and which other jobs do not change; a job
    is one process, so that nothing else computes for it. On cuda they are wall time, since the CPU
    only waits for the GPU.
    """

    def __init__(self, mode: str, device: str) -> None:
        nodes = sorted(map(str, Path("/dev").glob("nvidia*"))) if device == "cuda" else []
        self.device = device
        self.device_limits = GPU_LIMITS if nodes else {}
        readable = (GUEST, DISTRIBUTIONS)
        workspace = make_workspace()
        try:
            sandbox = Sandbox(workspace, mode=mode, readable=readable, devices=nodes)
        except GenlabError:  # no mode works here
            workspace.rmdir()
            raise
        super().__init__(sandbox, preload=(*PRELOAD, str(RUN)))
        self.changed_at = 0  # when the workspace last changed, in nanoseconds
        if device != "cpu":
            try:
                self.perform({"do": "start", "source": ""}, START_SECONDS)
            except EvaluationError as error:
                self.__exit__()
                text = f"agent.device: {device} does not start in the sandbox: {error.reason}"
                raise GenlabError(f"{text}; choose cpu", key="agent.device") from error

    def perform(
        self, job: Mapping[str, Any], seconds: float, weights: bytes = b"", **inputs: Array
    ) -> float:
        """Run a job of the guest; its files can be read until the next one.

        seconds: limit of the job. inputs: arrays of its inputs.npz. Returns the seconds that it
        used. Raises EvaluationError if it fails, or uses more.
        """
        self.renew()
        (self.folder / "model.py").write_text(job["source"], encoding="utf-8")
        np.savez(self.folder / "inputs.npz", allow_pickle=False, **inputs)
        if weights:
            (self.folder / "stored.safetensors").write_bytes(weights)
        path = self.folder / "job.json"
        message = {**job, "folder": str(self.folder), "device": self.device}
        path.write_text(json.dumps(message), encoding="utf-8")
        on_cpu = self.device == "cpu"
        wall = WALL_FACTOR * seconds + WALL_MARGIN if on_cpu else seconds
        cpu = math.ceil(seconds) if on_cpu else max(60.0, CORES * seconds)
        limits = Limits(wall_seconds=wall, cpu_seconds=cpu, forks=not on_cpu, **self.device_limits)
        result = self.run(RUN, [str(path)], env=ENVIRONMENT, limits=limits)
        if reason := describe_failure(result):
            raise EvaluationError(reason)
        if self.is_touched():
            raise EvaluationError("the model changed the workspace around its folder")
        return result.cpu_seconds if on_cpu else result.seconds

    def answer(
        self, job: Mapping[str, Any], what: str, weights: bytes, inputs: Array
    ) -> list[Tensor]:
        """Return the answers of the model with these weights.

        what: logits, encode (mean and logvar) or decode. Each answer has a row per input and is
        finite, else EvaluationError is raised.
        """
        answer_job = {**job, "do": "answer", "what": what}
        self.perform(answer_job, ANSWER_SECONDS, weights, inputs=inputs)
        answers = read_safetensors(self.read("answers.safetensors", 512 * MIB))
        for name in ANSWERS[what]:
            value = answers.get(name)
            if value is None or value.shape[:1] != (len(inputs),) or not value.is_floating_point():
                raise EvaluationError(f"the answers hold no {name} of {len(inputs)} items")
        return [answers[name] for name in ANSWERS[what]]

    def read(self, name: str, limit: int) -> bytes:
        """Read a file that the last job wrote. Raises EvaluationError where it is missing."""
        try:
            return read_back(self.folder, name, limit=limit)
        except (GenlabError, OSError) as error:
            raise EvaluationError(f"{NO_RESULT}: {error}") from error

    def read_json(self, name: str, model: type[FileModel]) -> FileModel:
        """Read a JSON file that the last job wrote, as an object of the pydantic class `model`."""
        try:
            return model.model_validate_json(self.read(name, 4 * MIB))
        except ValueError as error:
            raise EvaluationError(f"{NO_RESULT}: {name}: {error}") from error

    def renew(self) -> None:
        """Make an empty folder for the next job, which sees nothing of the jobs before it."""
        workspace = self.sandbox.workspace
        if self.is_touched():
            self.close()  # the guard holds the old workspace
            remove_tree(workspace)
            self.sandbox.workspace = workspace = make_workspace()
        else:
            remove_tree(self.folder)
        self.folder = Path(tempfile.mkdtemp(dir=workspace))
        self.changed_at = workspace.stat().st_ctime_ns

    def is_touched(self) -> bool:
        """Whether a job changed the workspace around its folder; no guest can set this time."""
        return self.changed_at != self.sandbox.workspace.stat().st_ctime_ns

    def __exit__(self, *_: object) -> None:
        self.close()
        remove_tree(self.sandbox.workspace)


_idle: defaultdict[tuple[str, str], list[ModelSandbox]] = defaultdict(list)


@contextmanager
def borrow_sandbox(
    mode: str, device: str, cancelled: Event | None = None
) -> Iterator[ModelSandbox]:
    """Hold a sandbox that nobody else uses, and keep it warm for the next borrower.

    Its imports take longer than many a job, and no job can change them. cancelled: see `Worker`.
    """
    idle = _idle[mode, device]
    try:
        sandbox = idle.pop()
    except IndexError:
        sandbox = ModelSandbox(mode, device)
    sandbox.cancelled = cancelled or Event()
    try:
        yield sandbox
    finally:
        if sandbox.clean:
            sandbox.renew()
            idle.append(sandbox)
        else:  # it has run no job, or one changed what the guard shares
            sandbox.__exit__()


@atexit.register
def end_idle_sandboxes() -> None:
    """End the sandboxes that nobody holds, and delete their folders."""
    for idle in _idle.values():
        while idle:
            idle.pop().__exit__()


def make_workspace() -> Path:
    """Make a workspace for jobs' folders, which other users may enter but not list."""
    workspace = Path(tempfile.mkdtemp(prefix="genlab-judge-")).resolve()
    workspace.chmod(0o711)
    return workspace


def read_safetensors(data: bytes) -> dict[str, Tensor]:
    """Read tensors that a guest saved. Raises EvaluationError where one is not finite."""
    try:
        tensors = load(data)
        broken = [name for name, value in tensors.items() if not bool(value.isfinite().all())]
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise EvaluationError(f"the result is not a safetensors file: {error}") from error
    if broken:
        raise EvaluationError(f"{broken[0]} is not finite (nan or inf)")
    return tensors


def describe_failure(result: JobResult) -> str:
    """Say why a job failed; empty where it ended well."""
    lines = [line for line in result.output.splitlines() if line.strip()]
    last_line = lines[-1] if lines else "no message"
    if result.exit_code == BROKEN and result.stopped_by in (None, "memory"):
        return last_line
    if result.stopped_by is not None:
        used = f"{result.seconds:.0f} seconds, {result.cpu_seconds:.0f} of CPU time"
        return f"stopped after {used}: {STOPPED[result.stopped_by]}"
    return f"exit code {result.exit_code}: {last_line}" if result.exit_code else ""
