"""Train a generated model in the sandbox and judge what it answers (skeleton)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from genlab.agent.evaluator.datasets import Data, Part

if TYPE_CHECKING:
    from genlab.agent.architecture.training import Training


class EvaluationError(Exception):
    """Why a model has no numbers: `reason`, one printable line."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Budget:
    """What each training may use: examples seen, parameters, seconds."""

    examples: int
    max_parameters: int
    seconds: float


@dataclass(frozen=True)
class SeedResult:
    """One training. curve: training loss over at most 50 equal parts; cut: ended by the clock."""

    seed: int
    metrics: dict[str, float]
    train_loss: float
    seconds: float
    curve: list[float]
    cut: bool


@dataclass(frozen=True)
class Summary:
    """A model as it was built; where `failure` is set, nothing else is."""

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


class Judge(AbstractContextManager["Judge"]):
    """Evaluate generated models on `data`; close it when done."""

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
        self.data, self.task, self.budget = data, task, budget

    def inspect(
        self,
        source: str,
        class_name: str,
        input_size: Sequence[int] | None = None,
        *,
        check: bool = True,
    ) -> Summary:
        """Build the model and describe it; `check`: also whether it can be evaluated."""
        raise NotImplementedError

    def evaluate(
        self, source: str, class_name: str, training: Training, seed: int
    ) -> tuple[SeedResult, bytes]:
        """Train on one seed; returns the result and the weights. Raises EvaluationError."""
        raise NotImplementedError

    def test(
        self, source: str, class_name: str, weights: bytes, test: Part, seed: int = 0
    ) -> dict[str, Any]:
        """Metrics of kept weights on the test part, each with NAME_interval, its 95 % interval."""
        raise NotImplementedError

    def close(self) -> None:
        """End the sandboxes."""

    def __exit__(self, *_: object) -> None:
        self.close()
