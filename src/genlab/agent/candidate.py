"""What is tried: an architecture, and how it is trained; and what both have to fit into."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

from genlab.agent.space import Input, ModelConfig

Optimiser = Literal["adamw", "adam", "sgd"]
OPTIMISERS: tuple[Optimiser, ...] = get_args(Optimiser)
LR, BATCH = (1e-4, 3e-2), (16, 256)
RATES = (1e-4, 3e-4, 1e-3, 2e-3, 5e-3, 1e-2, 3e-2)
BATCHES = (16, 32, 64, 128, 256)


class Training(BaseModel):
    """How an attempt is trained, within the budget that every attempt has."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    lr: float = Field(2e-3, description=f"peak learning rate, {LR[0]:g} to {LR[1]:g}")
    batch_size: int = Field(64, description=f"{BATCH[0]} to {BATCH[1]}")
    optimiser: Optimiser = "adamw"


@dataclass(frozen=True)
class Candidate:
    """An architecture and its training: together they are tried once."""

    config: ModelConfig
    training: Training = field(default_factory=Training)

    @property
    def digest(self) -> str:
        """Tells one candidate from another, whatever its class is called."""
        told = {
            "architecture": self.config.model_dump(mode="json", exclude={"name"}),
            "training": self.training.model_dump(mode="json"),
        }
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Constraints:
    """What candidates have to fit into.

    epochs, subset: of every evaluation. No attempt has more or fewer, or they could not be
    compared.
    """

    shape: Input
    classes: int
    most_parameters: int
    epochs: int
    subset: int


def held(calls: Mapping[str, Any], constraints: Constraints, edits: list[str]) -> Training:
    """The training that the `calls` of a proposal ask for, held against the run's own settings.

    What is not the planner's to choose is overruled, and what is out of range moved; each is told.
    """
    _settled(calls.get("input_size"), list(constraints.shape), "calls.input_size", edits)
    asked = calls.get("eval_config")
    if not isinstance(asked, Mapping):
        if asked is not None:
            edits.append(f"calls.eval_config: {str(asked)[:40]!r} is no set of fields, left out")
        asked = {}
    for name, value in (("epochs", constraints.epochs), ("subset", constraints.subset)):
        _settled(asked.get(name), value, f"calls.eval_config.{name}", edits)
    for name in sorted(map(str, set(asked) - _KNOWN)):
        edits.append(f"calls.eval_config.{name[:40]}: not the planner's to set, left out")
    return _trained(asked, edits)


_KNOWN = {*Training.model_fields, "optimizer", "epochs", "subset"}


def _settled(given: Any, value: Any, where: str, edits: list[str]) -> None:
    if given is not None and given != value:
        edits.append(f"{where}: {str(given)[:40]} was overruled, every attempt has {value}")


def _trained(proposed: Mapping[str, Any], edits: list[str]) -> Training:
    usual = Training()
    lr, batch = proposed.get("lr", usual.lr), proposed.get("batch_size", usual.batch_size)
    optimiser = proposed.get("optimiser", proposed.get("optimizer", usual.optimiser))
    where = "calls.eval_config"
    if optimiser not in OPTIMISERS:
        known = ", ".join(OPTIMISERS)
        edits.append(f"{where}.optimiser: {str(optimiser)[:20]!r} is none of {known}")
        optimiser = usual.optimiser
    return Training(
        lr=_within(lr, LR, usual.lr, f"{where}.lr", edits),
        batch_size=round(_within(batch, BATCH, usual.batch_size, f"{where}.batch_size", edits)),
        optimiser=optimiser,
    )


def _within(
    given: Any, limits: tuple[float, float], usual: float, where: str, edits: list[str]
) -> float:
    number = isinstance(given, int | float) and not isinstance(given, bool) and given == given
    found = min(max(float(given), limits[0]), limits[1]) if number else float(usual)
    if not number or found != given:
        edits.append(f"{where}: {str(given)[:20]} became {found:g}")
    return found
