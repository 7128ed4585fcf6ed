"""Train a generated model in the sandbox, and judge what it answers.

Training and answering are two jobs: the first sees training items and leaves weights, the second
gets these weights and the items without labels. Metrics are computed here, from logits or from
codes and decoded parameters (`generative`). The loss curve alone is the guest's word; it is shown,
and decides nothing.

Not protected: a model's file runs in the process that trains it, so it could train itself on the
training items for longer than asked, up to the time limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.agent.evaluator import classification
from genlab.agent.evaluator.datasets import Data, Part
from genlab.agent.evaluator.generative import GenerativeJudge
from genlab.agent.evaluator.room import EvaluationError, Room, read_safetensors
from genlab.core import engine
from genlab.core.errors import GenlabError
from genlab.core.text import printable
from genlab.sandbox.limits import MIB

if TYPE_CHECKING:
    from genlab.agent.architecture.training import Training

__all__ = ["Budget", "EvaluationError", "Judge", "SeedResult", "Summary"]

TASKS = ("classify", "generate")
PROBED = 1000  # training items behind train_loss
GRACE = 30.0  # seconds beyond the time limit, for building the model and saving it
INSPECT_SECONDS = 60.0
COMPONENTS = 4  # mixture components per pixel that a template decodes to
CURVE = 50
MOST_SIDE, MOST_CELLS = 4096, 1 << 24
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


@dataclass(frozen=True)
class Budget:
    """What each training may use: examples seen, parameters, seconds."""

    examples: int
    max_parameters: int
    seconds: float


@dataclass(frozen=True)
class SeedResult:
    """One training.

    metrics: on the validation part. train_loss: nats per item, or bits per dimension, of training
    items after training. seconds: of the training job. curve: training loss over at most CURVE
    equal parts, reported by the guest. cut: whether the clock ended the training.
    """

    seed: int
    metrics: dict[str, float]
    train_loss: float
    seconds: float
    curve: list[float]
    cut: bool


@dataclass(frozen=True)
class Summary:
    """A model as it was built; where `failure` is set, nothing else is.

    multiply_adds: per item, None where torchinfo cannot follow the model. output: shape for a batch
    of two. layers: name, kind, output and parameters of each that has none below it.
    """

    parameters: int | None = None
    trainable: int | None = None
    multiply_adds: int | None = None
    output: tuple[int, ...] = ()
    layers: list[dict[str, Any]] = field(default_factory=list)
    table: str = ""
    failure: str = ""

    def to_json(self) -> dict[str, Any]:
        """As summary.json holds it."""
        return {**asdict(self), "output": list(self.output)}


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")


class _Layer(_Strict):
    name: str = Field(max_length=300)
    kind: str = Field(max_length=300)
    output: list[int] = Field(max_length=20)
    parameters: int = Field(ge=0)


class _Described(_Strict):
    """What the guest may leave in summary.json."""

    parameters: int = Field(ge=0)
    trainable: int = Field(ge=0)
    multiply_adds: int | None = Field(ge=0)
    output: list[int] = Field(max_length=20)
    layers: list[_Layer] = Field(max_length=200)
    table: str = Field(max_length=30_000)


class _Trained(_Strict):
    """What the guest may leave in trained.json."""

    examples: int = Field(ge=0)
    curve: list[float] = Field(max_length=CURVE)


class Judge(AbstractContextManager["Judge"]):
    """Evaluate generated models on `data`; close it when done.

    task: classify or generate. device: auto, cpu or cuda; the GPU's nodes enter the sandbox.
    threads: of the guest, fixed, so that the same training gives the same weights. frechet:
    whether generative models get a Fréchet distance, whose features are learnt once per machine.
    """

    def __init__(
        self,
        data: Data,
        task: str,
        budget: Budget,
        *,
        mode: str = "auto",
        device: str = "cpu",
        threads: int = 1,
        frechet: bool = True,
    ) -> None:
        if task not in TASKS:
            raise GenlabError(f"task must be one of {', '.join(TASKS)}, got {task!r}", key="task")
        self.data, self.task, self.budget, self.threads = data, task, budget, threads
        self.device = engine.device(device).type
        self._open = ExitStack()
        self.room = self._open.enter_context(Room(mode=mode, device=self.device))
        self.generative: GenerativeJudge | None = None
        if task == "generate":
            decoding = self._open.enter_context(Room(mode=mode, device=self.device))
            self.generative = GenerativeJudge(data, self.room, decoding, frechet=frechet)

    @property
    def outputs(self) -> int:
        """Outputs that a template gives: classes, or channels of decoded parameters."""
        per_component = 1 if self.generative is None else self.generative.per_component
        return self.data.classes if self.generative is None else COMPONENTS * per_component

    def inspect(
        self,
        source: str,
        class_name: str,
        input_size: Sequence[int] | None = None,
        *,
        check: bool = True,
    ) -> Summary:
        """Build the model and describe it; what breaks is the summary's `failure`.

        input_size: (channels, height, width), perhaps after a batch size. check: whether it also
        has to answer two batch sizes in the right shape, to train one step with finite gradients
        and to respect the limit on parameters.
        """
        shape = self.data.shape if input_size is None else parse_size(input_size)
        job = {**self._job("describe", class_name, 0), "shape": shape, "check": check}
        try:
            self.room.run(
                {**job, "classes": self.data.classes if check else None},
                source,
                seconds=INSPECT_SECONDS,
                likelihoods=self.task == "generate",
            )
            found = _Described.model_validate(self.room.read_json("summary.json", 4 * MIB))
        except EvaluationError as error:
            return Summary(failure=error.reason)
        except ValidationError:
            return Summary(failure="the model ended without a result that describes it")
        finally:
            self.room.empty()
        if check and found.parameters > self.budget.max_parameters:
            limit = f"{self.budget.max_parameters:,}"
            return Summary(failure=f"{found.parameters:,} parameters, more than {limit}")
        values = found.model_dump()
        for layer in values["layers"]:
            layer |= {key: printable(layer[key]) for key in ("name", "kind")}
        table = printable(found.table)
        return Summary(**{**values, "output": tuple(found.output), "table": table})

    def evaluate(
        self, source: str, class_name: str, training: Training, seed: int
    ) -> tuple[SeedResult, bytes]:
        """Train on one seed and measure; returns the result and the weights as safetensors.

        Raises EvaluationError where the model breaks, or answers with what cannot be measured.
        """
        asked = training.model_dump(mode="json")
        started = time.monotonic()
        self.room.run(
            {
                **self._job("train", class_name, seed),
                "examples": self.budget.examples,
                "seconds": self.budget.seconds,
                "training": asked,
            },
            source,
            seconds=self.budget.seconds + GRACE,
            arrays={
                "train.npz": {"items": self.data.train.items, "labels": self.data.train.labels}
            },
            likelihoods=self.task == "generate",
        )
        seconds = time.monotonic() - started
        try:
            trained = _Trained.model_validate(self.room.read_json("trained.json", MIB))
        except ValidationError as error:
            raise EvaluationError("the training ended without a result that is one") from error
        if not all(map(math.isfinite, trained.curve)):
            raise EvaluationError("the training loss is not finite")
        cut = self._is_cut(trained.examples, asked["batch_size"], seconds)
        weights = self.room.read("weights.safetensors", 16 * MIB + 32 * self.budget.max_parameters)
        self._check_weights(weights)
        probe = self.data.train.take(np.arange(min(PROBED, len(self.data.train))))
        part = self.data.validation
        metrics, loss = self._measure(source, class_name, weights, part, seed, probe)
        return SeedResult(seed, metrics, loss, seconds, trained.curve, cut), weights

    def test(
        self, source: str, class_name: str, weights: bytes, test: Part, seed: int = 0
    ) -> dict[str, float | list[float]]:
        """Metrics of kept weights on a part; NAME_interval is [low, high] of NAME, at 95 %."""
        metrics, _ = self._measure(source, class_name, weights, test, seed, intervals=True)
        return metrics

    def close(self) -> None:
        """End the sandboxes."""
        self._open.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _job(self, action: str, class_name: str, seed: int) -> dict[str, Any]:
        return {
            "do": action,
            "class_name": class_name,
            "task": self.task,
            "shape": self.data.shape,
            "classes": self.data.classes,
            "components": self.generative.per_component if self.generative else 0,
            "scale": self.data.scale,
            "seed": seed,
            "threads": self.threads,
        }

    def _is_cut(self, examples: int, batch_size: int, seconds: float) -> bool:
        """Whether the clock ended the training. Raises EvaluationError where nothing did."""
        size = min(batch_size, self.budget.examples)
        expected = self.budget.examples // size * size
        if examples == expected:
            return False
        if 0 < examples < expected and seconds >= self.budget.seconds:
            return True
        raise EvaluationError(
            f"the training ended after {examples} of {expected} examples, before its time limit"
        )

    def _check_weights(self, weights: bytes) -> None:
        """Count what is saved, out of the model's reach; tied weights count once.

        Buffers count as parameters do, since a model may hold anything in them; statistics of
        normalisation are free up to a quarter of the limit.
        """
        counts = {True: 0, False: 0}
        known: set[bytes] = set()
        for name, value in read_safetensors(weights).items():
            if not bool(value.isfinite().all()):
                raise EvaluationError(f"the weights {name} are not finite after training")
            content = value.contiguous().flatten().view(torch.uint8).numpy().tobytes()
            if content not in known:
                known.add(content)
                counts[name.endswith(STATISTICS) and value.ndim <= 1] += math.ceil(len(content) / 4)
        limit = self.budget.max_parameters
        count = counts[False] + max(0, counts[True] - limit // 4)
        if count > limit:
            held = f"the weights hold {count:,} numbers in parameters and buffers"
            raise EvaluationError(f"{held}, more than {limit:,}")

    def _measure(
        self,
        source: str,
        class_name: str,
        weights: bytes,
        part: Part,
        seed: int,
        probe: Part | None = None,
        *,
        intervals: bool = False,
    ) -> tuple[dict[str, Any], float]:
        """Metrics on a part, and the loss on training items; nan without `probe`."""
        job = self._job("answer", class_name, seed)
        if self.generative is not None:
            return self.generative.measure(job, source, weights, part, probe, intervals=intervals)
        items = part.items if probe is None else np.concatenate([probe.items, part.items])
        answers = self.room.answer(
            {**job, "what": "logits"}, source, weights, {"items.npy": items}, limit=256 * MIB
        )
        try:
            given = answers.get("logits")
            logits = classification.check_logits(given, len(items), self.data.classes)
        except ValueError as error:
            raise EvaluationError(f"the answers cannot be measured: {error}") from error
        split = 0 if probe is None else len(probe)
        loss = classification.loss(logits[:split], probe.labels) if probe else math.nan
        measure = classification.measure_with_intervals if intervals else classification.measure
        return measure(logits[split:], part.labels), loss


def parse_size(given: Sequence[int]) -> tuple[int, int, int]:
    """Channels, height and width. Raises GenlabError where that is no size of images."""
    fix = "give channels, height, width, such as (1, 28, 28)"
    sides = tuple(given) if isinstance(given, Sequence) and not isinstance(given, str) else ()
    whole = all(isinstance(side, int) and not isinstance(side, bool) for side in sides)
    if len(sides) not in (3, 4) or not whole:
        raise GenlabError(f"input_size must be 3 whole numbers, got {repr(given)[:60]}; {fix}")
    channels, height, width = sides[-3:]
    if not all(1 <= side <= MOST_SIDE for side in sides) or math.prod(sides[-3:]) > MOST_CELLS:
        raise GenlabError(f"input_size: {repr(given)[:60]} is too large or below 1; {fix}")
    return channels, height, width
