"""Train a generated model in the sandbox, and judge what it answers.

Training and answering are two jobs: the first sees training items and leaves weights, the second
gets these weights and items without labels. Metrics are computed here, from logits or from codes
and decoded parameters (`generative`). The loss curve is the guest's word, and decides nothing.

A training may use so many seconds of CPU time, or of wall time on a GPU. The guest ends it in time
by its own clock, and what the kernel has counted is compared with the limit: a model that stops the
clock fails.

Not protected: a model's file runs in the process that trains it, so it could train itself on the
training items for longer than asked, up to that limit.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from threading import Event
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from pydantic import BaseModel, Field, FiniteFloat
from safetensors.torch import save

from genlab.agent.architecture.training import Training
from genlab.agent.evaluator import classification
from genlab.agent.evaluator.datasets import Data, DataSplit, Items
from genlab.agent.evaluator.generative import GenerativeJudge
from genlab.agent.evaluator.results import EvaluationError, ModelSummary, SeedResult, TrainingBudget
from genlab.agent.evaluator.sandbox import NO_RESULT, borrow_sandbox, read_safetensors
from genlab.core import engine
from genlab.core.stats import Interval
from genlab.sandbox.limits import MIB

__all__ = ["EvaluationError", "ModelJudge", "TrainingBudget"]

PROBED = 500  # training items behind train_loss
BOOTSTRAP = 500
WIDTH = 2 * 1.96  # standard errors in an interval of 95 %
CHECKED = 8  # training items that a model is checked with
TOLERANCE = 1.0  # seconds beyond the limit, for the last step and for saving the weights
TOLERATED = 0.1  # of the limit, beyond that
DRIVER_SECONDS = 30.0  # beyond the limit on a GPU, which starts within a training
INSPECT_SECONDS = 60.0
COLLAPSED = "after its training it answers all items alike: try a lower lr, or a normalisation"
COMPONENTS = 4  # mixture components per pixel that a template decodes to
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class TrainingReport(BaseModel):
    """What a training leaves beside the weights."""

    examples: int
    curve: Annotated[list[FiniteFloat], Field(min_length=1, max_length=50)]


class Measurement(NamedTuple):
    """Metrics on a part with standard errors over its items, and the loss on training items."""

    metrics: dict[str, Any]
    errors: dict[str, float]
    recall: list[float]
    train_loss: float


class ModelJudge(ExitStack):
    """Evaluate generated models on `data`; close it when done.

    task: classify or generate. device: auto, cpu or cuda. frechet: whether generative models get a
    Fréchet distance, whose features are learnt once per machine. cancelled: see `Worker`.
    """

    def __init__(
        self,
        data: Data,
        task: str,
        budget: TrainingBudget,
        *,
        mode: str = "auto",
        device: str = "cpu",
        frechet: bool = True,
        cancelled: Event | None = None,
    ) -> None:
        super().__init__()
        self.data, self.task, self.budget = data, task, budget
        place = engine.select_device(device).type
        self.sandbox = self.enter_context(borrow_sandbox(mode, place, cancelled))
        self.generative: GenerativeJudge | None = None
        if task == "generate":
            decoding = self.enter_context(borrow_sandbox(mode, place, cancelled))
            self.generative = GenerativeJudge(data, self.sandbox, decoding, frechet=frechet)

    @property
    def outputs(self) -> int:
        """Outputs that a template gives: classes, or channels of decoded parameters."""
        if self.generative is None:
            return self.data.classes
        return COMPONENTS * self.generative.per_component

    def inspect(self, source: str, class_name: str, size: Sequence[int] = ()) -> ModelSummary:
        """Build the model and describe it; what breaks is the summary's `failure`.

        It has to answer two batch sizes in the right shape, to train some steps with finite
        gradients, to use its input, to keep its size, to answer alike when its weights are loaded
        again (`guest.checks`), and to have few enough parameters. For another `size` (channels,
        height, width) of its input it has to answer with a tensor.
        """
        job = self._job("describe", source, class_name) | {"check": not size}
        if size:
            job |= {"shape": size, "classes": None}
        try:
            rows = np.linspace(0, len(self.data.train) - 1, CHECKED).astype(np.int64)
            self.sandbox.perform(job, INSPECT_SECONDS, items=self.data.train.items[rows])
            found = self.sandbox.read_json("summary.json", ModelSummary)
        except EvaluationError as error:
            return ModelSummary(failure=error.reason)
        limit = math.inf if size else self.budget.max_parameters
        if found.parameters is None or found.failure:
            return ModelSummary(failure=f"{NO_RESULT} that describes it")
        if found.parameters > limit:
            return ModelSummary(failure=f"{found.parameters:,} parameters, more than {limit:,}")
        return found

    def evaluate(
        self,
        source: str,
        class_name: str,
        training: Training,
        seed: int,
        examples: int | None = None,
    ) -> tuple[SeedResult, bytes]:
        """Train on one seed and measure; returns the result and the weights as safetensors.

        examples: that the training sees, those of the budget if None.
        Raises EvaluationError where the model breaks, or its answers cannot be measured.
        """
        budget, train = self.budget, self.data.train
        examples = examples or budget.examples
        job = self._job("train", source, class_name, seed) | asdict(budget)
        job["examples"] = examples
        job["training"] = training.model_dump(mode="json")
        labels = np.maximum(train.labels, 0)  # generative models need none
        on_cpu = self.sandbox.device == "cpu"
        more = TOLERANCE + TOLERATED * budget.seconds if on_cpu else DRIVER_SECONDS
        most = budget.seconds + more
        # The limit of the sandbox, in whole seconds, is there for what does not end.
        seconds = self.sandbox.perform(job, most + 1, items=train.items, labels=labels)
        if seconds > most:
            kind = "CPU time" if on_cpu else "wall time"
            allowed = f"at most {budget.seconds:g} s are allowed"
            raise EvaluationError(f"it trained {seconds:.3g} s of {kind}, {allowed}")
        trained = self.sandbox.read_json("trained.json", TrainingReport)
        size = min(training.batch_size, examples)
        cut = self._is_cut(trained.examples, examples // size * size, seconds)
        data = self.sandbox.read("weights.safetensors", 16 * MIB + 32 * budget.max_parameters)
        weights = self._count_weights(data)
        probe = train.take(np.arange(min(PROBED, len(train))))
        job = self._job("answer", source, class_name, seed)
        measured = self._measure(job, weights, self.data.validation, probe)
        result = SeedResult(
            seed, measured.metrics, measured.train_loss, seconds, trained.curve, cut,
            measured.errors, measured.recall,
        )  # fmt: skip
        return result, weights

    def test(
        self, source: str, class_name: str, weights: bytes, test: DataSplit, seed: int = 0
    ) -> dict[str, Any]:
        """`seed`, `metrics` and `errors` of kept weights on a part, as in a SeedResult."""
        measured = self._measure(self._job("answer", source, class_name, seed), weights, test)
        return {"seed": seed, "metrics": measured.metrics, "errors": measured.errors}

    def draw(self, source: str, class_name: str, weights: bytes, count: int) -> Items:
        """Draw images of a generative model: uint8 (count, height, width, channels)."""
        if self.generative is None:
            raise ValueError("a classifier draws nothing")
        job = self._job("answer", source, class_name)
        _, _, latents = self.generative.elbo_terms(job, weights, self.data.validation.items[:2])
        return self.generative.draw(job, weights, latents, count)

    def _job(self, action: str, source: str, class_name: str, seed: int = 0) -> dict[str, Any]:
        return {
            "do": action,
            "source": source,
            "class_name": class_name,
            "task": self.task,
            "shape": self.data.shape,
            "classes": self.data.classes,
            "components": self.generative.per_component if self.generative else 0,
            "scale": self.data.scale,
            "seed": seed,
        }

    def _is_cut(self, examples: int, expected: int, seconds: float) -> bool:
        """Whether the clock ended the training. Raises EvaluationError where nothing did."""
        if 0 < examples < expected and seconds >= self.budget.seconds:
            return True
        if examples != expected:
            seen = f"{examples} of {expected} examples"
            raise EvaluationError(f"the training ended after {seen}, before its time limit")
        return False

    def _count_weights(self, data: bytes) -> bytes:
        """Count what is saved, out of the model's reach, and save that alone again.

        Tied weights count once. Buffers count as parameters do, since a model may hold anything in
        them; statistics of normalisation and what names and shapes of tensors hold are free up to a
        quarter of the limit.
        """
        counts, known, limit = [0, 0], set[bytes](), self.budget.max_parameters
        tensors = read_safetensors(data)
        for name, value in tensors.items():
            counts[1] += math.ceil(len(f"{name} {value.dtype} {[*value.shape]}".encode()) / 4)
            content = value.contiguous().flatten().view(torch.uint8).numpy().tobytes()
            if content not in known:
                known.add(content)
                counts[name.endswith(STATISTICS) and value.ndim < 2] += math.ceil(len(content) / 4)
        count = counts[0] + max(0, counts[1] - limit // 4)
        if count > limit:
            held = f"the weights hold {count:,} numbers in parameters and buffers"
            raise EvaluationError(f"{held}, more than {limit:,}")
        return save(tensors)

    def _measure(
        self, job: dict[str, Any], weights: bytes, part: DataSplit, probe: DataSplit | None = None
    ) -> Measurement:
        """Metrics on a part, and the loss on `probe`; without it nan."""
        items = np.concatenate([probe.items, part.items]) if probe else part.items
        split, loss = len(items) - len(part), math.nan
        if self.generative is not None:
            found, loss = self.generative.measure(job, weights, items, part)
        else:
            (answer,) = self.sandbox.answer(job, "logits", weights, items)
            if answer.shape[1:] != (self.data.classes,):
                raise EvaluationError(f"logits are {tuple(answer.shape)}")
            logits = answer.double().numpy()
            found = classification.measure(logits[split:], part.labels, bootstrap=BOOTSTRAP)
            if probe:
                if not np.ptp(logits, axis=0).any():
                    raise EvaluationError(COLLAPSED)
                loss = classification.measure(logits[:split], probe.labels)["val_loss"]
        intervals = found.pop("intervals")
        recall = found.pop("recall", [])
        return Measurement(found, standard_errors(intervals), recall, loss)


def standard_errors(intervals: Mapping[str, Interval]) -> dict[str, float]:
    """Standard errors by the width of 95 % intervals."""
    return {name: (found["high"] - found["low"]) / WIDTH for name, found in intervals.items()}
