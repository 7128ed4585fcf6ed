"""Goals: a metric of a model on a dataset, the threshold that it has to reach, and constraints."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from genlab.agent.goals.numbers import find_numbers
from genlab.agent.goals.words import (
    OPTIONS,
    Quantity,
    find_foreign_errors,
    find_paths,
    find_tokens,
    join_tokens,
    read_quantities,
    split_text,
)
from genlab.core.errors import GenlabError
from genlab.core.params.catalogue import DUMMY_DATASET

Task = Literal["classify", "generate"]


class Metric(NamedTuple):
    """A measured number that a goal can be about; higher: whether larger values are better."""

    higher: bool
    task: Task
    label: str


METRICS = {
    "accuracy": Metric(True, "classify", "accuracy"),
    "macro_f1": Metric(True, "classify", "macro F1"),
    "val_loss": Metric(False, "classify", "validation loss (nats)"),
    "bits_per_dim": Metric(False, "generate", "bits per dimension"),
    "frechet_distance": Metric(False, "generate", "Fréchet distance"),
}
SHARES = ("accuracy", "macro_f1", "error_rate")
DATASETS = ("fashion_mnist", "mnist", "cifar10", "arc_grids", DUMMY_DATASET)
STATED = METRICS | {"error_rate": Metric(False, "classify", "error rate")}
"""Metrics that a sentence may state; an error rate becomes an accuracy."""
UNMEASURABLE = {
    "arc_grids": ("bits_per_dim", "frechet_distance"),
    DUMMY_DATASET: ("frechet_distance",),
}


@dataclass(frozen=True)
class Goal:
    """A metric of a model on a dataset that has to reach a threshold within constraints.

    dataset: one of `DATASETS`, a user's own, or path:FOLDER. max_seconds: of the training of one
    seed. quotes: the phrases of `text` that a language model has read the goal from; () where the
    parser has read it.
    """

    text: str
    dataset: str
    metric: str
    threshold: float
    max_parameters: int | None = None
    max_seconds: float | None = None
    quotes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def values(self) -> dict[str, Any]:
        """The fields that attempts are measured by, without the words of the sentence."""
        fields = asdict(self) | {"text": ""}
        del fields["quotes"]
        return fields

    @property
    def higher(self) -> bool:
        """Whether larger values of the metric are better."""
        return METRICS[self.metric].higher

    @property
    def task(self) -> Task:
        """What the model does: classify or generate."""
        return METRICS[self.metric].task

    def score(self, value: float | None) -> float:
        """Map a value of the metric to a score of which more is better; None is the worst."""
        if value is None:
            return -math.inf
        return value if self.higher else -value

    @property
    def description(self) -> str:
        """The goal in words: 'accuracy >= 0.9 on fashion_mnist, at most 50,000 parameters'."""
        sign = ">=" if self.higher else "<="
        words = f"{self.metric} {sign} {write_number(self.threshold)} on {self.dataset}"
        if self.max_parameters is not None:
            words += f", at most {self.max_parameters:,} parameters"
        if self.max_seconds is not None:
            words += f", within {write_number(self.max_seconds)} s of training"
        return words


def write_number(value: float) -> str:
    """Write a number with the fewest digits that keep its value: 3.5005, and 90 for 90.0."""
    return repr(float(value)).removesuffix(".0")


def to_accuracy(error_rate: float) -> float:
    """Convert an error rate to an accuracy without an error of rounding: 0.07 to 0.93."""
    return float(1 - Decimal(repr(error_rate)))


def split_words(goal: Goal) -> tuple[Sequence[str], Sequence[str]]:
    """Split a sentence into phrases that are enforced, and those that only a planner reads."""
    if goal.quotes:
        return goal.quotes, split_text(goal.text, goal.quotes)
    tokens = find_tokens(goal.text)
    enforced = {
        at
        for at, token in enumerate(tokens)
        if token.lastgroup in (goal.dataset, *STATED)
        or goal.dataset in (token[0].lower(), *find_paths([token]))
    }
    enforced -= set(find_foreign_errors(tokens))
    with suppress(GenlabError):  # an older parser has read it
        for quantity in read_quantities(tokens):
            if quantity.unit in OPTIONS or _is_threshold(quantity, goal):
                enforced |= quantity.places
    phrases = join_tokens(goal.text, tokens, enforced)
    return phrases, split_text(goal.text, phrases)


def _is_threshold(quantity: Quantity, goal: Goal) -> bool:
    """Whether a number is the threshold of a goal, perhaps as a percentage or an error rate."""
    if quantity.unit not in ("", "percent"):
        return False
    value = float(quantity.value / 100 if quantity.unit == "percent" else quantity.value)
    return goal.threshold in (value, to_accuracy(value))


def quote_enforced(goal: Goal) -> str:
    """Quote the phrases of a goal's sentence that a run enforces."""
    return ", ".join(f'"{phrase}"' for phrase in split_words(goal)[0])


def quote_unenforced(goal: Goal) -> str:
    """Quote the phrases that a planner reads and nothing enforces; empty where there are none."""
    return ", ".join(f'"{phrase}"' for phrase in split_words(goal)[1])


def explain_error(goal: Goal) -> str:
    """Explain the error rate that a goal's sentence states; empty where it states none."""
    shares = {
        value / (100 if number.is_percentage else 1)
        for number in find_numbers(goal.text)
        for value in number.values
    }
    threshold = Decimal(repr(goal.threshold))
    if goal.metric != "accuracy" or threshold in shares or 1 - threshold not in shares:
        return ""
    error_rate = write_number(to_accuracy(goal.threshold))
    return f"at most {error_rate} is at least {write_number(goal.threshold)}"
