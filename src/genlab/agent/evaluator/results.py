"""The budget of a training, and the results that the evaluator reports of a model."""

from dataclasses import dataclass, field
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field
from typing_extensions import TypedDict

from genlab.core.text import make_printable

MAX_REASON = 400  # characters
Count = Annotated[int, Field(ge=0)]
Text = Annotated[str, AfterValidator(make_printable)]


class EvaluationError(Exception):
    """A model that cannot be evaluated; `reason` is one printable line."""

    def __init__(self, reason: str) -> None:
        self.reason = " ".join(make_printable(reason).split())[:MAX_REASON]
        super().__init__(self.reason)


@dataclass(frozen=True)
class TrainingBudget:
    """Limits of each training: examples seen, parameters, and seconds as SeedResult counts them."""

    examples: int
    max_parameters: int
    seconds: float


@dataclass(frozen=True)
class SeedResult:
    """Result of one training.

    seconds: CPU time of its process as the kernel counted it, the building of the model included;
    on a GPU wall time. Records of version 0.2 hold wall time. curve: training loss over at most 50
    equal parts, as the guest reports it.
    """

    seed: int
    metrics: dict[str, float]  # on the validation split
    train_loss: float  # nats per item, or bits per dimension, of training items after training
    seconds: float
    curve: list[float]
    cut: bool  # whether its seconds were up before its examples
    errors: dict[str, float] = field(default_factory=dict)  # standard errors over items
    recall: list[float] = field(default_factory=list)  # of each class, of a classifier


class LayerSummary(TypedDict):
    """A layer that holds no other layers."""

    name: Text
    kind: Text
    output: list[int]
    parameters: int


class ModelSummary(BaseModel, frozen=True):
    """Description of a model as it was built; where `failure` is set, nothing else is."""

    parameters: Count | None = None
    trainable: Count | None = None
    multiply_adds: Count | None = None  # per item; None where torchinfo cannot follow
    output: tuple[int, ...] = ()  # shape for a batch of two
    layers: Annotated[list[LayerSummary], Field(max_length=200)] = []
    failure: Text = ""
