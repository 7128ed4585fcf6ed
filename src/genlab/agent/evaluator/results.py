"""What a judge allows a model, and what it finds of it."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from genlab.core.text import make_printable

LONGEST = 400  # characters of a reason
Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, AfterValidator(make_printable)]


class EvaluationError(Exception):
    """Why a model has no numbers: `reason`, one printable line."""

    def __init__(self, reason: str) -> None:
        self.reason = " ".join(make_printable(reason).split())[:LONGEST]
        super().__init__(self.reason)


@dataclass(frozen=True)
class TrainingBudget:
    """What each training may use: examples seen, parameters, seconds as SeedResult counts them."""

    examples: int
    max_parameters: int
    seconds: float


@dataclass(frozen=True)
class SeedResult:
    """One training.

    seconds: CPU time of its process, with the building of the model, as the kernel counted it; on a
    GPU wall time. Records of version 0.2 hold wall time. curve: training loss over at most 50
    equal parts, as the guest reports it.
    """

    seed: int
    metrics: dict[str, float]  # on the validation part
    train_loss: float  # nats per item, or bits per dimension, of training items after training
    seconds: float
    curve: list[float]
    cut: bool  # whether its seconds were up before its examples
    errors: dict[str, float] = field(default_factory=dict)  # standard errors over items
    recall: list[float] = field(default_factory=list)  # of each class, of a classifier


class LayerSummary(TypedDict):
    """A layer without layers below it."""

    name: Text
    kind: Text
    output: list[int]
    parameters: int


class ModelSummary(BaseModel, frozen=True):
    """A model as it was built; where `failure` is set, nothing else is."""

    parameters: Count | None = None
    trainable: Count | None = None
    multiply_adds: Count | None = None  # per item; None where torchinfo cannot follow
    output: tuple[int, ...] = ()  # shape for a batch of two
    layers: Annotated[list[LayerSummary], Field(max_length=200)] = []
    failure: Text = ""
