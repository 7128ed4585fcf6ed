"""What a planner answers with: an attempt that it proposes, and what it makes of one.

Two readings of the same answer. The schema that an endpoint is sent is strict: every field named,
numbers in their ranges, texts and lists bounded; under a grammar even a weak model then says what
can be built, and comes to an end. What is taken is broad: an LLM that keeps to no schema is
understood where it can be, and `space.repaired` moves what it meant to what is allowed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
    create_model,
    model_validator,
)

from genlab.agent.candidate import BATCHES, OPTIMISERS, RATES, Constraints, Training
from genlab.agent.space import CHANNELS, HIDDEN, KERNELS, MAX_HIDDEN_LAYERS, Kind, ModelConfig

Choice = Literal["iterate", "achieved", "stop", "revise"]
MOST_BLOCKS = 6  # that are asked for; `space` allows a few more
MOST_REMARKS = 6
DROPOUTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)


def _object(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A schema of exactly these fields."""
    return {
        "type": "object",
        "properties": dict(fields),
        "required": list(fields),
        "additionalProperties": False,
    }


def _text(most: int) -> dict[str, Any]:
    return {"type": "string", "maxLength": most}


def _texts(most: int) -> dict[str, Any]:
    return {"type": "array", "items": _text(most), "maxItems": MOST_REMARKS}


def _whole(limits: tuple[int, int]) -> dict[str, Any]:
    return {"type": "integer", "minimum": limits[0], "maximum": limits[1]}


def _one_of(*values: str | int | float) -> dict[str, Any]:
    kinds = {str: "string", int: "integer", float: "number"}
    return {"type": kinds[type(values[0])], "enum": list(values)}


ARCHITECTURE = _object(
    {
        "blocks": {
            "type": "array",
            "maxItems": MOST_BLOCKS,
            "items": _object(
                {
                    "kind": _one_of(*get_args(Kind)),
                    "channels": _whole(CHANNELS),
                    "kernel": _one_of(*KERNELS),
                    "halve": {"type": "boolean"},
                }
            ),
        },
        "hidden": {"type": "array", "maxItems": MAX_HIDDEN_LAYERS, "items": _whole(HIDDEN)},
        "dropout": _one_of(*DROPOUTS),
        "norm": _one_of("batch", "none"),
        "activation": _one_of("relu", "gelu", "silu"),
    }
)


def _only(value: list[int] | int) -> dict[str, Any]:
    """What has one possible value: a weak model is not asked for it."""
    if isinstance(value, int):
        return _one_of(value)
    count = {"minItems": len(value), "maxItems": len(value)}
    return {"type": "array", "items": _one_of(*sorted(set(value))), **count, "enum": [value]}


def _calls(constraints: Constraints) -> dict[str, Any]:
    """The arguments of the next tool calls, for a run in `constraints`."""
    of_evaluator = {
        "lr": _one_of(*RATES),
        "batch_size": _one_of(*BATCHES),
        "optimiser": _one_of(*OPTIMISERS),
        "epochs": _only(constraints.epochs),
        "subset": _only(constraints.subset),
    }
    return _object(
        {"input_size": _only(list(constraints.shape)), "eval_config": _object(of_evaluator)}
    )


def _mapping(given: object) -> object:
    """An object, also one that came as a string of JSON; nothing for nothing."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            return {}
    return {} if given is None else given


def _words(given: object) -> object:
    """A text, also of a list or a number."""
    if isinstance(given, list | tuple):
        return " ".join(str(each) for each in given)
    return "" if given is None else str(given)


def _name(given: object) -> object:
    """A name, also one that is a number; none for none."""
    if given is None or str(given).strip().lower() in ("", "none", "null"):
        return None
    return str(given).strip()


def _list(given: object) -> object:
    """A list of texts, also of one text."""
    if given is None:
        return []
    return [str(each) for each in given] if isinstance(given, list | tuple) else [str(given)]


def _choice(given: object) -> object:
    return given.strip().lower() if isinstance(given, str) else given


class Proposal(BaseModel):
    """The next attempt, as a planner words it."""

    model_config = ConfigDict(extra="ignore")

    branch_from: Annotated[str | None, BeforeValidator(_name)] = Field(
        None, description="run_id that this one changes, if any"
    )
    modifications: Annotated[str, BeforeValidator(_words), WithJsonSchema(_text(300))] = Field(
        "", description="what is changed, and why"
    )
    architecture: Annotated[
        dict[str, Any], BeforeValidator(_mapping), WithJsonSchema(ARCHITECTURE)
    ] = Field(default_factory=dict)
    calls: Annotated[dict[str, Any], BeforeValidator(_mapping)] = Field(
        default_factory=dict, description="input_size and eval_config of the tools"
    )

    @model_validator(mode="before")
    @classmethod
    def _unfolded(cls, given: object) -> object:
        """An answer that leaves `architecture` or `calls` out and says their fields itself.

        `training` is what the evaluator's fields were called before.
        """
        if not isinstance(given, Mapping):
            return given
        found = dict(given)
        _fold(found, "architecture", set(ModelConfig.model_fields) - {"name"})
        if "training" in found:
            found.setdefault("eval_config", _mapping(found.pop("training")))
        _fold(found, "eval_config", {*Training.model_fields, "optimizer", "epochs", "subset"})
        _fold(found, "calls", {"input_size", "eval_config"})
        return found


def _fold(found: dict[str, Any], name: str, known: set[str]) -> None:
    """Put the fields `known` of an answer under `name`, unless it has that."""
    if name not in found and known & set(found):
        found[name] = {key: found.pop(key) for key in known & set(found)}


@cache
def proposal_in(constraints: Constraints, starts: tuple[str, ...]) -> type[Proposal]:
    """`Proposal` as an endpoint is sent it: nothing in it that this run cannot do.

    starts: the attempts that it may branch from.
    """
    branch = {"anyOf": [_one_of(*starts), {"type": "null"}]}
    name = Annotated[str | None, BeforeValidator(_name), WithJsonSchema(branch)]
    calls = Annotated[
        dict[str, Any], BeforeValidator(_mapping), WithJsonSchema(_calls(constraints))
    ]
    return create_model(
        "Proposal",
        __base__=Proposal,
        branch_from=(name, None),
        calls=(calls, Field(default_factory=dict)),
    )


class Review(BaseModel):
    """What a planner makes of an attempt."""

    model_config = ConfigDict(extra="ignore")

    assessment: Annotated[str, BeforeValidator(_words), WithJsonSchema(_text(400))] = ""
    strengths: Annotated[list[str], BeforeValidator(_list), WithJsonSchema(_texts(120))] = Field(
        default_factory=list
    )
    weaknesses: Annotated[list[str], BeforeValidator(_list), WithJsonSchema(_texts(120))] = Field(
        default_factory=list
    )
    decision: Annotated[Choice, BeforeValidator(_choice)] = "iterate"
    # Proposed to the person, never taken.
    revised_goal: Annotated[str, BeforeValidator(_words), WithJsonSchema(_text(200))] = ""
