"""Goals: a metric of a model on a dataset, the threshold that it has to reach, and constraints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Task = Literal["classify", "generate"]


@dataclass(frozen=True)
class Metric:
    """A measured number that a goal can be about; higher: whether more of it is better."""

    name: str
    higher: bool
    task: Task
    label: str


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", True, "classify", "accuracy"),
        Metric("macro_f1", True, "classify", "macro F1"),
        Metric("val_loss", False, "classify", "validation loss (nats)"),
        Metric("bits_per_dim", False, "generate", "bits per dimension"),
        Metric("frechet_distance", False, "generate", "Fréchet distance"),
    )
}
DATASETS = ("fashion_mnist", "mnist", "cifar10", "arc_grids", "dummy")
UNFIT = {"arc_grids": ("bits_per_dim", "frechet_distance"), "dummy": ("frechet_distance",)}


@dataclass(frozen=True)
class Goal:
    """A metric of a model on a dataset that has to reach a threshold within constraints.

    dataset: one of `DATASETS`, or path:FOLDER. max_seconds: of the training of one seed.
    """

    text: str
    dataset: str
    metric: str
    threshold: float
    max_parameters: int | None = None
    max_seconds: float | None = None

    @property
    def higher(self) -> bool:
        """Whether more of the metric is better."""
        return METRICS[self.metric].higher

    @property
    def task(self) -> Task:
        """What the model does: classify or generate."""
        return METRICS[self.metric].task

    def reached(self, values: Sequence[float]) -> bool:
        """Whether every value, one per seed and at least one, meets the threshold."""
        sign = 1 if self.higher else -1
        return bool(values) and all(sign * value >= sign * self.threshold for value in values)

    @property
    def description(self) -> str:
        """The goal in words: 'accuracy >= 0.9 on fashion_mnist, at most 50,000 parameters'."""
        sign = ">=" if self.higher else "<="
        text = f"{self.metric} {sign} {self.threshold:g} on {self.dataset}"
        if self.max_parameters is not None:
            text += f", at most {self.max_parameters:,} parameters"
        if self.max_seconds is not None:
            text += f", within {self.max_seconds:g} s of training"
        return text
