"""The sandbox of generated models: one job after the other, each in a new folder."""

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
PATIENCE, WAITING = 4.0, 30.0  # wall seconds per CPU second, and beyond: others may use the cores
GPU = {"address_space": 1 << 46, "memory_bytes": 16 * GIB, "processes": 256}  # its driver's needs
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
Left = TypeVar("Left", bound=BaseModel)


class ModelSandbox(Worker):
    """A warm worker of jobs on generated models; each job is a fresh fork of it.

    A job sees the interpreter, the guest package, the likelihoods and its folder. The workspace
    holds that folder alone. Root's guests may not write to it; an ordinary user's may, and what
    they leave there goes with the workspace. device: cpu or cuda, whose nodes enter the sandbox;
    a GenlabError is raised where it does not start inside, which is no fault of a model.

    Seconds are CPU time, which the kernel counts and which is the same beside other jobs; a job is
    one process, so that nothing else computes for it. With cuda they are wall time, since a CPU
    that waits for its GPU says nothing about the work.
    """

    def __init__(self, mode: str, device: str) -> None:
        nodes = sorted(map(str, Path("/dev").glob("nvidia*"))) if device == "cuda" else []
        self.device, self.more = device, GPU if nodes else {}
        readable = (GUEST, DISTRIBUTIONS)
        workspace = make_workspace()
        try:
            sandbox = Sandbox(workspace, mode=mode, readable=readable, devices=nodes)
        except GenlabError:  # no mode works here
            workspace.rmdir()
            raise
        super().__init__(sandbox, preload=(*PRELOAD, str(RUN)))
        self.stamp = 0  # of the workspace: when it last changed
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
        """Run a job of the guest; what it leaves is read before the next one.

        Returns the seconds that it used. Raises EvaluationError if it fails, or uses more.
        """
        self.renew()
        (self.folder / "model.py").write_text(job["source"], encoding="utf-8")
        np.savez(self.folder / "inputs.npz", allow_pickle=False, **inputs)
        if weights:
            (self.folder / "kept.safetensors").write_bytes(weights)
        path = self.folder / "job.json"
        message = {**job, "folder": str(self.folder), "device": self.device}
        path.write_text(json.dumps(message), encoding="utf-8")
        on_cpu = self.device == "cpu"
        wall = PATIENCE * seconds + WAITING if on_cpu else seconds
        cpu = math.ceil(seconds) if on_cpu else max(60.0, CORES * seconds)
        limits = Limits(wall_seconds=wall, cpu_seconds=cpu, forks=not on_cpu, **self.more)
        done = self.run(RUN, [str(path)], env=ENVIRONMENT, limits=limits)
        if reason := describe_failure(done):
            raise EvaluationError(reason)
        if self.is_touched():
            raise EvaluationError("the model changed the workspace around its folder")
        return done.cpu_seconds if on_cpu else done.seconds

    def answer(
        self, job: Mapping[str, Any], what: str, weights: bytes, inputs: Array
    ) -> list[Tensor]:
        """What the model with these weights answers.

        what: logits, encode (mean and logvar) or decode. Each answer has a row per input and is
        finite, else EvaluationError is raised.
        """
        asked = {**job, "do": "answer", "what": what}
        self.perform(asked, ANSWER_SECONDS, weights, inputs=inputs)
        answers = read_safetensors(self.read("answers.safetensors", 512 * MIB))
        for name in ANSWERS[what]:
            value = answers.get(name)
            if value is None or value.shape[:1] != (len(inputs),) or not value.is_floating_point():
                raise EvaluationError(f"the answers hold no {name} of {len(inputs)} items")
        return [answers[name] for name in ANSWERS[what]]

    def read(self, name: str, limit: int) -> bytes:
        """A file that the last job left. Raises EvaluationError where it is none."""
        try:
            return read_back(self.folder, name, limit=limit)
        except (GenlabError, OSError) as error:
            raise EvaluationError(f"{NO_RESULT}: {error}") from error

    def read_json(self, name: str, kind: type[Left]) -> Left:
        """A JSON file that the last job left, as a `kind`."""
        try:
            return kind.model_validate_json(self.read(name, 4 * MIB))
        except ValueError as error:
            raise EvaluationError(f"{NO_RESULT}: {name}: {error}") from error

    def renew(self) -> None:
        """Make an empty folder for the next job, which can see nothing of an earlier one."""
        workspace = self.sandbox.workspace
        if self.is_touched():
            self.close()  # the guard holds the old workspace
            remove_tree(workspace)
            self.sandbox.workspace = workspace = make_workspace()
        else:
            remove_tree(self.folder)
        self.folder = Path(tempfile.mkdtemp(dir=workspace))
        self.stamp = workspace.stat().st_ctime_ns

    def is_touched(self) -> bool:
        """Whether a job changed the workspace around its folder; no guest can set this time."""
        return self.stamp != self.sandbox.workspace.stat().st_ctime_ns

    def __exit__(self, *_: object) -> None:
        self.close()
        remove_tree(self.sandbox.workspace)


_idle: defaultdict[tuple[str, str], list[ModelSandbox]] = defaultdict(list)


@contextmanager
def borrow_sandbox(
    mode: str, device: str, cancelled: Event | None = None
) -> Iterator[ModelSandbox]:
    """Hold a sandbox that nobody else uses; the next one who asks finds it warm.

    Its imports take longer than many a job, and no job can reach them. cancelled: see `Worker`.
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
        else:  # it was not used, or something went wrong
            sandbox.__exit__()


@atexit.register
def end_idle_sandboxes() -> None:
    """End those that nobody holds, with their folders."""
    for idle in _idle.values():
        while idle:
            idle.pop().__exit__()


def make_workspace() -> Path:
    """A folder to make jobs' folders in, which other users may enter and not list."""
    workspace = Path(tempfile.mkdtemp(prefix="genlab-judge-")).resolve()
    workspace.chmod(0o711)
    return workspace


def read_safetensors(data: bytes) -> dict[str, Tensor]:
    """Tensors of a file that a guest wrote; EvaluationError where one is not of finite numbers."""
    try:
        found = load(data)
        broken = [name for name, value in found.items() if not bool(value.isfinite().all())]
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise EvaluationError(f"the result is not a safetensors file: {error}") from error
    if broken:
        raise EvaluationError(f"{broken[0]} is not finite (nan or inf)")
    return found


def describe_failure(done: JobResult) -> str:
    """Why a job brought nothing; empty where it ended well."""
    lines = [line for line in done.output.splitlines() if line.strip()]
    last = lines[-1] if lines else "no message"
    if done.exit_code == BROKEN and done.stopped_by in (None, "memory"):
        return last
    if done.stopped_by is not None:
        used = f"{done.seconds:.0f} seconds, {done.cpu_seconds:.0f} of CPU time"
        return f"stopped after {used}: {STOPPED[done.stopped_by]}"
    return f"exit code {done.exit_code}: {last}" if done.exit_code else ""
