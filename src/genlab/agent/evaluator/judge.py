"""Train a generated model in the sandbox, and judge what it answers.

Training and answering are two jobs: the first sees training items and leaves weights, the second
gets these weights and items without labels. Metrics are computed here, from logits or from codes
and decoded parameters (`generative`). The loss curve is the guest's word, and decides nothing.

Not protected: a model's file runs in the process that trains it, so it could train itself on the
training items for longer than asked, up to the time limit.
"""

import math
import time
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
from genlab.agent.evaluator.datasets import Data, Items, Part
from genlab.agent.evaluator.generative import GenerativeJudge
from genlab.agent.evaluator.results import Budget, EvaluationError, SeedResult, Summary
from genlab.agent.evaluator.sandbox import NO_RESULT, borrow_sandbox, read_safetensors
from genlab.core import engine
from genlab.core.stats import Interval
from genlab.sandbox.limits import MIB

__all__ = ["Budget", "EvaluationError", "Judge"]

PROBED = 500  # training items behind train_loss
BOOTSTRAP = 500
WIDTH = 2 * 1.96  # standard errors in an interval of 95 %
GRACE = 30.0  # seconds beyond the time limit, for building the model and saving it
INSPECT_SECONDS = 60.0
COMPONENTS = 4  # mixture components per pixel that a template decodes to
STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


class Trained(BaseModel):
    """What a training leaves beside the weights."""

    examples: int
    curve: Annotated[list[FiniteFloat], Field(min_length=1, max_length=50)]


class Measurement(NamedTuple):
    """Metrics on a part with standard errors over its items, and the loss on training items."""

    metrics: dict[str, Any]
    errors: dict[str, float]
    recall: list[float]
    train_loss: float


class Judge(ExitStack):
    """Evaluate generated models on `data`; close it when done.

    task: classify or generate. device: auto, cpu or cuda. frechet: whether generative models get a
    Fréchet distance, whose features are learnt once per machine. cancelled: see `Worker`.
    """

    def __init__(
        self,
        data: Data,
        task: str,
        budget: Budget,
        *,
        mode: str = "auto",
        device: str = "cpu",
        frechet: bool = True,
        cancelled: Event | None = None,
    ) -> None:
        super().__init__()
        self.data, self.task, self.budget = data, task, budget
        place = engine.device(device).type
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

    def inspect(self, source: str, class_name: str, size: Sequence[int] = ()) -> Summary:
        """Build the model and describe it; what breaks is the summary's `failure`.

        It has to answer two batch sizes in the right shape, to train one step with finite gradients
        and to have few enough parameters. For another `size` (channels, height, width) of its
        input it has to answer with a tensor.
        """
        job = self._job("describe", source, class_name) | {"check": not size}
        if size:
            job |= {"shape": size, "classes": None}
        try:
            self.sandbox.perform(job, INSPECT_SECONDS)
            found = self.sandbox.read_json("summary.json", Summary)
        except EvaluationError as error:
            return Summary(failure=error.reason)
        limit = math.inf if size else self.budget.max_parameters
        if found.parameters is None or found.failure:
            return Summary(failure=f"{NO_RESULT} that describes it")
        if found.parameters > limit:
            return Summary(failure=f"{found.parameters:,} parameters, more than {limit:,}")
        return found

    def evaluate(
        self, source: str, class_name: str, training: Training, seed: int
    ) -> tuple[SeedResult, bytes]:
        """Train on one seed and measure; returns the result and the weights as safetensors.

        Raises EvaluationError where the model breaks, or its answers cannot be measured.
        """
        budget, train = self.budget, self.data.train
        job = self._job("train", source, class_name, seed) | asdict(budget)
        job["training"] = training.model_dump(mode="json")
        started = time.monotonic()
        seconds = budget.seconds + GRACE
        labels = np.maximum(train.labels, 0)  # generative models need none
        self.sandbox.perform(job, seconds, items=train.items, labels=labels)
        seconds = time.monotonic() - started
        trained = self.sandbox.read_json("trained.json", Trained)
        cut = self._is_cut(trained.examples, training.batch_size, seconds)
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
        self, source: str, class_name: str, weights: bytes, test: Part, seed: int = 0
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

    def _is_cut(self, examples: int, batch_size: int, seconds: float) -> bool:
        """Whether the clock ended the training. Raises EvaluationError where nothing did."""
        size = min(batch_size, self.budget.examples)
        expected = self.budget.examples // size * size
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
        self, job: dict[str, Any], weights: bytes, part: Part, probe: Part | None = None
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
                loss = classification.measure(logits[:split], probe.labels)["val_loss"]
        intervals = found.pop("intervals")
        recall = found.pop("recall", [])
        return Measurement(found, errors_of(intervals), recall, loss)


def errors_of(intervals: Mapping[str, Interval]) -> dict[str, float]:
    """Standard errors by the width of 95 % intervals."""
    return {name: (found["high"] - found["low"]) / WIDTH for name, found in intervals.items()}
