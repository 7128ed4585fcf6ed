"""Train a generated model in the sandbox, and measure its answers outside of it.

Training and answering are two jobs: the first sees training items and leaves weights, the second
gets these weights and items without labels. Metrics are computed here, from logits or from codes
and decoded parameters (`generative`). The loss curve is reported by untrusted code and decides
nothing.

The budget limits the CPU seconds of a training, on a GPU its wall seconds. The guest stops the
training by its own clock; the seconds that the kernel counted are then compared with the limit, so
that a model which stops the clock fails.

Not protected: a model's file runs in the process that trains it, so it could train itself on the
training items for longer than the recipe says, up to that limit.
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
from genlab.agent.evaluator.generative import GenerativeEvaluator
from genlab.agent.evaluator.results import EvaluationError, ModelSummary, SeedResult, TrainingBudget
from genlab.agent.evaluator.sandbox import NO_RESULT, borrow_sandbox, read_safetensors
from genlab.core import engine
from genlab.core.stats import Interval
from genlab.sandbox.limits import MIB

__all__ = ["EvaluationError", "ModelEvaluator", "TrainingBudget"]

PROBE_ITEMS = 500  # training items behind train_loss
BOOTSTRAP = 500
WIDTH = 2 * 1.96  # standard errors in an interval of 95 %
CHECK_ITEMS = 8  # training items that a model is checked with
TOLERANCE = 1.0  # seconds beyond the limit, for the last step and for saving the weights
TOLERANCE_SHARE = 0.1  # of the limit, in addition
DRIVER_SECONDS = 30.0  # beyond the limit on a GPU, which starts within a training
INSPECT_SECONDS = 60.0
COLLAPSED = "after its training it answers all items alike: try a lower lr, or a normalisation"
COMPONENTS = 4  # mixture components per pixel that a template decodes to
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class TrainingReport(BaseModel):
    """Report of the guest on a training: trained.json, beside the weights."""

    examples: int
    curve: Annotated[list[FiniteFloat], Field(min_length=1, max_length=50)]


class Measurement(NamedTuple):
    """Metrics on a split with standard errors over its items, and the loss on training items."""

    metrics: dict[str, Any]
    errors: dict[str, float]
    recall: list[float]
    train_loss: float


class ModelEvaluator(ExitStack):
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
        self.data = data
        self.task = task
        self.budget = budget
        device_type = engine.select_device(device).type
        self.sandbox = self.enter_context(borrow_sandbox(mode, device_type, cancelled))
        self.generative: GenerativeEvaluator | None = None
        if task == "generate":
            decoding = self.enter_context(borrow_sandbox(mode, device_type, cancelled))
            self.generative = GenerativeEvaluator(data, self.sandbox, decoding, frechet=frechet)

    @property
    def outputs(self) -> int:
        """Outputs of a model from the template: classes, or channels of decoded parameters."""
        if self.generative is None:
            return self.data.classes
        return COMPONENTS * self.generative.per_component

    def inspect(self, source: str, class_name: str, size: Sequence[int] = ()) -> ModelSummary:
        """Build the model, check it and describe it; a fault is the summary's `failure`.

        The model has to answer two batch sizes in the right shape, to train some steps with finite
        gradients, to depend on its input, to keep its size, to give the same answers when its
        weights are loaded again (`guest.checks`), and to respect the limit on parameters. With
        another input `size` (channels, height, width) it only has to answer with a tensor.
        """
        job = self._job("describe", source, class_name) | {"check": not size}
        if size:
            job |= {"shape": size, "classes": None}
        try:
            rows = np.linspace(0, len(self.data.train) - 1, CHECK_ITEMS).astype(np.int64)
            self.sandbox.perform(job, INSPECT_SECONDS, items=self.data.train.items[rows])
            summary = self.sandbox.read_json("summary.json", ModelSummary)
        except EvaluationError as error:
            return ModelSummary(failure=error.reason)
        limit = math.inf if size else self.budget.max_parameters
        if summary.parameters is None or summary.failure:
            return ModelSummary(failure=f"{NO_RESULT} that describes it")
        if summary.parameters > limit:
            return ModelSummary(failure=f"{summary.parameters:,} parameters, more than {limit:,}")
        return summary

    def evaluate(
        self,
        source: str,
        class_name: str,
        training: Training,
        seed: int,
        examples: int | None = None,
    ) -> tuple[SeedResult, bytes]:
        """Train on one seed and measure; return the result and the weights as safetensors.

        examples: number of training examples; None stands for the budget's.
        Raises EvaluationError where the model breaks, or its answers cannot be measured.
        """
        budget = self.budget
        train = self.data.train
        examples = examples or budget.examples
        job = self._job("train", source, class_name, seed) | asdict(budget)
        job["examples"] = examples
        job["training"] = training.model_dump(mode="json")
        labels = np.maximum(train.labels, 0)  # generative models need none
        on_cpu = self.sandbox.device == "cpu"
        tolerance = TOLERANCE + TOLERANCE_SHARE * budget.seconds if on_cpu else DRIVER_SECONDS
        max_seconds = budget.seconds + tolerance
        # The sandbox's own limit, in whole seconds, ends trainings that do not end by themselves.
        seconds = self.sandbox.perform(job, max_seconds + 1, items=train.items, labels=labels)
        if seconds > max_seconds:
            kind = "CPU time" if on_cpu else "wall time"
            allowed = f"at most {budget.seconds:g} s are allowed"
            raise EvaluationError(f"it trained {seconds:.3g} s of {kind}, {allowed}")
        report = self.sandbox.read_json("trained.json", TrainingReport)
        batch_size = min(training.batch_size, examples)
        cut = self._is_cut(report.examples, examples // batch_size * batch_size, seconds)
        saved = self.sandbox.read("weights.safetensors", 16 * MIB + 32 * budget.max_parameters)
        weights = self._check_weights(saved)
        probe = train.take(np.arange(min(PROBE_ITEMS, len(train))))
        job = self._job("answer", source, class_name, seed)
        measurement = self._measure(job, weights, self.data.validation, probe)
        result = SeedResult(
            seed=seed,
            metrics=measurement.metrics,
            train_loss=measurement.train_loss,
            seconds=seconds,
            curve=report.curve,
            cut=cut,
            errors=measurement.errors,
            recall=measurement.recall,
        )
        return result, weights

    def test(
        self, source: str, class_name: str, weights: bytes, test: DataSplit, seed: int = 0
    ) -> dict[str, Any]:
        """Measure stored weights on a split; return `seed`, `metrics`, `errors` of a SeedResult."""
        measurement = self._measure(self._job("answer", source, class_name, seed), weights, test)
        return {"seed": seed, "metrics": measurement.metrics, "errors": measurement.errors}

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
            progress = f"{examples} of {expected} examples"
            raise EvaluationError(f"the training ended after {progress}, before its time limit")
        return False

    def _check_weights(self, saved: bytes) -> bytes:
        """Check the size of saved weights, out of the model's reach; return the tensors alone.

        Tied weights count once. Buffers count as parameters do, since a model may hold anything in
        them. Statistics of normalisation layers, and the names and shapes of tensors, are free up
        to a quarter of the limit.
        """
        limit = self.budget.max_parameters
        tensors = read_safetensors(saved)
        contents = set[bytes]()
        counted = 0
        free = 0
        for name, value in tensors.items():
            free += math.ceil(len(f"{name} {value.dtype} {[*value.shape]}".encode()) / 4)
            content = value.contiguous().flatten().view(torch.uint8).numpy().tobytes()
            if content in contents:
                continue
            contents.add(content)
            numbers = math.ceil(len(content) / 4)
            if name.endswith(STATISTICS) and value.ndim < 2:
                free += numbers
            else:
                counted += numbers
        count = counted + max(0, free - limit // 4)
        if count > limit:
            excess = f"the weights hold {count:,} numbers in parameters and buffers"
            raise EvaluationError(f"{excess}, more than {limit:,}")
        return save(tensors)

    def _measure(
        self, job: dict[str, Any], weights: bytes, split: DataSplit, probe: DataSplit | None = None
    ) -> Measurement:
        """Measure on a split; `train_loss` is the loss on `probe`, nan without it."""
        items = np.concatenate([probe.items, split.items]) if probe else split.items
        start = len(items) - len(split)
        loss = math.nan
        if self.generative is not None:
            metrics, loss = self.generative.measure(job, weights, items, split)
        else:
            (answer,) = self.sandbox.answer(job, "logits", weights, items)
            if answer.shape[1:] != (self.data.classes,):
                raise EvaluationError(f"logits are {tuple(answer.shape)}")
            logits = answer.double().numpy()
            metrics = classification.measure(logits[start:], split.labels, bootstrap=BOOTSTRAP)
            if probe:
                if not np.ptp(logits, axis=0).any():
                    raise EvaluationError(COLLAPSED)
                loss = classification.measure(logits[:start], probe.labels)["val_loss"]
        intervals = metrics.pop("intervals")
        recall = metrics.pop("recall", [])
        return Measurement(metrics, standard_errors(intervals), recall, loss)


def standard_errors(intervals: Mapping[str, Interval]) -> dict[str, float]:
    """Derive the standard error of each metric from the width of its 95 % interval."""
    return {
        name: (interval["high"] - interval["low"]) / WIDTH for name, interval in intervals.items()
    }
