"""Train a stranger's model for a while in the sandbox, and mark what it hands in.

The sandbox shows it the items, the labels it may train on, and nothing to mark itself with. What it
claims (a printed number, a file of scores) is not read: accuracy and losses are computed here from
its logits, and the seconds are those of the clock here.
"""

from __future__ import annotations

import json
import math
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors

from genlab.agent import guest
from genlab.agent.exam import READERS, Exam, Marks, Part, exam, final_part, mark
from genlab.core.errors import GenlabError
from genlab.core.io import write_text
from genlab.sandbox.limits import Finished, Limits
from genlab.sandbox.readback import read_back
from genlab.sandbox.runner import Sandbox
from genlab.sandbox.worker import Worker

MODEL, JOB, INPUT, KEPT = "model.py", "job.json", "input.npz", "kept.safetensors"
WEIGHTS = "weights.safetensors"
# The first optimiser of a process imports torch._dynamo, which takes as long as torch itself.
PRELOAD = ("torch", "torch._dynamo", "torchinfo", "numpy", "safetensors.torch")
PROBED = 1000  # training items behind train_loss
GRACE = 30.0  # seconds beyond the time limit, for building the model and answering
CORES = 8  # that a long training may keep busy before its CPU time is up
LONGEST = 300  # characters of a failure's reason


class EvalConfig(BaseModel):
    """How long and on what a model is tried; the same for all attempts of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dataset: str = Field("fashion_mnist", description=", ".join(READERS))
    num_classes: int | None = Field(None, ge=2, le=1000, description="checked, where given")
    epochs: int = Field(2, ge=1, le=1000)
    batch_size: int = Field(64, ge=1, le=4096)
    lr: float = Field(2e-3, gt=0, le=1)
    optimiser: Literal["adamw", "adam", "sgd"] = "adamw"
    weight_decay: float = Field(0.01, ge=0, le=1)
    subset: int = Field(5000, ge=1, description="training items")
    validation: int = Field(2000, ge=10, description="items that it is marked on")
    time_limit: float = Field(60.0, gt=0, le=86_400, description="seconds of training a seed")
    seeds: tuple[int, ...] = Field((0,), min_length=1, max_length=100)
    device: str = Field("cpu", description="cpu, or cuda where its nodes are handed in")


def eval_config(given: Mapping[str, Any]) -> EvalConfig:
    """A config from plain values. Raises a GenlabError of one line for the first fault."""
    words = dict(given)
    if "optimizer" in words:
        words["optimiser"] = words.pop("optimizer")
    try:
        found = EvalConfig.model_validate(words)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        shown = repr(first["input"])[:40]
        raise GenlabError(f"eval_config: {place}: {first['msg']}, got {shown}; mend it") from error
    if found.dataset not in READERS:
        raise GenlabError(
            f"eval_config: dataset must be one of {', '.join(READERS)}, got {found.dataset!r}"
        )
    return found


class NoMarksError(Exception):
    """Why a model has no marks, in a line."""


@dataclass(frozen=True)
class SeedMarks:
    """One training: marks where it decides, nats on training items, seconds by our own clock."""

    seed: int
    validation: Marks
    train_loss: float
    seconds: float


@dataclass(frozen=True)
class Evaluation:
    """What is known of a model after all seeds; `failure` says in a line why there is no number."""

    config: EvalConfig
    seeds: list[SeedMarks] = field(default_factory=list)
    seconds: float = 0.0
    failure: str = ""
    weights: bytes = b""  # of the first seed, safetensors

    def summary(self) -> dict[str, Any]:
        """The numbers as results.json and the registry hold them; means over seeds."""
        if self.failure or not self.seeds:
            return {"seconds": self.seconds, "failure": self.failure}
        return {
            "accuracy": float(np.mean([each.validation.accuracy for each in self.seeds])),
            "val_loss": float(np.mean([each.validation.loss for each in self.seeds])),
            "train_loss": float(np.mean([each.train_loss for each in self.seeds])),
            "seconds": self.seconds,
            "n": self.seeds[0].validation.n,
            "seeds": [asdict(each) for each in self.seeds],
        }


class Evaluator(AbstractContextManager["Evaluator"]):
    """A warm worker that evaluates one model after the other; close it when done.

    data: the folder that holds the folders of the datasets. Its room is a temporary folder: no
    attempt sees another's, nor the workspace with its registry.
    """

    def __init__(self, data: Path, *, mode: str = "auto", devices: tuple[Path, ...] = ()) -> None:
        self.data = data
        self.room = Path(tempfile.mkdtemp(prefix="genlab-room-"))
        self.sandbox = Sandbox(
            self.room, mode=mode, readable=(Path(guest.__file__),), devices=devices
        )
        self.worker = Worker(self.sandbox, preload=PRELOAD)
        self._exams: dict[tuple[str, int, int], Exam] = {}

    def exam(self, config: EvalConfig) -> Exam:
        """The exam of `config`, read once. Raises GenlabError where num_classes is another."""
        key = (config.dataset, config.subset, config.validation)
        if key not in self._exams:
            self._exams[key] = exam(config.dataset, self.data, config.subset, config.validation, 0)
        found = self._exams[key]
        if config.num_classes not in (None, found.classes):
            raise GenlabError(
                f"eval_config: num_classes is {config.num_classes}, {config.dataset} has"
                f" {found.classes}; correct it or leave it out"
            )
        return found

    def evaluate(self, source: str, class_name: str, config: EvalConfig) -> Evaluation:
        """Train on each seed and mark the validation part. Never raises for what the model does."""
        asked = self.exam(config)
        started = time.monotonic()
        found: list[SeedMarks] = []
        weights = b""
        for seed in config.seeds:
            done, seconds = self._run(source, class_name, config, asked, asked.validation, seed)
            try:
                found.append(self._marked(done, asked, asked.validation, seed, seconds))
                weights = weights or read_back(self.room, WEIGHTS)
            except (NoMarksError, GenlabError) as error:
                return Evaluation(config, found, time.monotonic() - started, str(error))
        return Evaluation(config, found, time.monotonic() - started, "", weights)

    def final(self, source: str, class_name: str, config: EvalConfig, weights: bytes) -> Marks:
        """Marks of kept weights on the test part, which is opened here alone.

        Raises NoMarksError where the model gives no answers that can be marked.
        """
        asked, test = self.exam(config), final_part(config.dataset, self.data)
        done, _ = self._run(source, class_name, config, asked, test, 0, weights)
        return self._marked(done, asked, test, 0, 0.0).validation

    def _run(
        self,
        source: str,
        class_name: str,
        config: EvalConfig,
        asked: Exam,
        part: Part,
        seed: int,
        weights: bytes = b"",
    ) -> tuple[Finished, float]:
        """One job in an empty room; how it ended, and how many seconds it took."""
        emptied(self.room)
        write_text(self.room / MODEL, source)
        try:
            np.savez(
                self.room / INPUT,
                train=asked.train.items,
                labels=asked.train.labels,
                train_probe=asked.train.items[:PROBED],
                answer=part.items,
            )
        except OSError as error:  # of a full disk, numpy does not say which
            raise OSError(error.errno, error.strerror, str(self.room)) from error
        if weights:
            (self.room / KEPT).write_bytes(weights)
        job = {
            "model": str(self.room / MODEL),
            "class_name": class_name,
            "input": str(self.room / INPUT),
            "output": str(self.room),
            "scale": asked.scale,
            "seconds": config.time_limit,
            "seed": seed,
            "weights": str(self.room / KEPT) if weights else "",
            **config.model_dump(
                include={"epochs", "batch_size", "lr", "optimiser", "weight_decay", "device"}
            ),
        }
        write_text(self.room / JOB, json.dumps(job))
        wall = config.time_limit + GRACE
        limits = Limits(wall_seconds=wall, cpu_seconds=max(Limits().cpu_seconds, CORES * wall))
        started = time.monotonic()
        done = self.worker.run(guest.__file__, [str(self.room / JOB)], limits=limits)
        return done, time.monotonic() - started

    def _marked(
        self, done: Finished, asked: Exam, part: Part, seed: int, seconds: float
    ) -> SeedMarks:
        """Marks of what a job left. Raises NoMarksError where that cannot be marked."""
        if reason := failure_of(done):
            raise NoMarksError(" ".join(reason.split())[:LONGEST])
        try:
            logits = load_tensors(read_back(self.room, "logits.safetensors"))
            probed = mark(logits["train_probe"], asked.train.labels[:PROBED])
            marks = mark(logits["answer"], part.labels)
            if not math.isfinite(marks.loss):
                raise ValueError("its loss is not finite")
        except (GenlabError, SafetensorError, ValueError, KeyError) as error:
            reason = f"what it handed in cannot be marked: {error}"
            raise NoMarksError(" ".join(reason.split())[:LONGEST]) from error
        return SeedMarks(seed, marks, probed.loss, seconds)

    def close(self) -> None:
        self.worker.close()
        shutil.rmtree(self.room, ignore_errors=True)

    def __exit__(self, *_: object) -> None:
        self.close()


def emptied(room: Path) -> None:
    """Remove what the last job left; the folder itself stays, since the worker holds it."""
    for each in room.iterdir():
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)


def failure_of(done: Finished) -> str:
    """Why a job brought nothing, in a line; empty where it ended well."""
    if done.stopped_by is not None:
        return f"the sandbox stopped it: {done.stopped_by}, after {done.seconds:.0f} s"
    if done.exit_code == 0:
        return ""
    lines = [line for line in done.output.splitlines() if line.strip()]
    last = lines[-1].strip() if lines else "it said nothing"
    return last if done.exit_code == guest.BROKEN else f"exit code {done.exit_code}: {last}"
