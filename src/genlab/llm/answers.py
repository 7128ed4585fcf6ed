"""Answers of language models: JSON, repaired where it is nearly that, and calls of functions."""

import json
import math
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import json_repair
from pydantic import BaseModel, ValidationError

from genlab.core.errors import violations
from genlab.core.text import map_strings, printable
from genlab.llm.redaction import excerpt

Schema = TypeVar("Schema", bound=BaseModel)
MAX_TEXT = 1 << 17  # characters of an answer in which JSON is looked for
MAX_REPAIR = 1 << 14  # the same for json_repair, which can take quadratic time
MAX_DEPTH = 40  # levels of lists and objects in an answer
FENCE = re.compile(r"```(?:json)?\n(.*)```", re.DOTALL)


@dataclass(frozen=True)
class ToolCall:
    """A function that the model calls; unreadable arguments are {} with the reason in `error`."""

    id: str
    name: str
    arguments: dict[str, Any]
    error: str = ""


class MalformedError(Exception):
    """An answer that does not hold what was asked for; the message is for the model to read."""


def without_thoughts(text: str) -> str:
    """The answer after a `<think>…</think>` prefix, whose first tag some servers leave out."""
    head, end, answer = text.partition("</think>")
    stated = head.lstrip().startswith(("{", "[")) or "<think>" in head  # in code, or in prose
    return answer if head.lstrip().startswith("<think>") or (end and not stated) else text


def parse(text: str, schema: type[Schema]) -> Schema:
    """Read the JSON object in `text`, which has to fit `schema`. Raises `MalformedError`."""
    value = read_object(text)
    named = {name for key, field in schema.model_fields.items() for name in (key, field.alias)}
    if named.isdisjoint(value):  # it would fit a schema in which everything has a default
        raise MalformedError(f"it has no JSON object with fields of {schema.__name__}")
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        rules = "; ".join(line for _, line in violations(error)[:5])
        raise MalformedError(excerpt(rules, length=600)) from error


def read_object(text: str) -> dict[str, Any]:
    """The JSON object in `text`, the last of several, with printable strings.

    NaN and infinity, which JSON lacks, are refused. Raises `MalformedError`.
    """
    text = without_thoughts(text)
    fenced = None if text.lstrip().startswith("{") else FENCE.search(text)
    text = fenced[1] if fenced else text[max(0, text.find("{")) : text.rfind("}") + 1] or text
    value = None
    try:
        value = json.loads(text, strict=False)  # with line breaks in strings
    except (ValueError, RecursionError):
        with suppress(ValueError, RecursionError):
            value = json_repair.loads(text) if len(text) <= MAX_REPAIR else None
    several = value if isinstance(value, list) else [value]
    found = [each for each in several if isinstance(each, dict)]
    if not found:
        raise MalformedError("it has no JSON object")
    _check(found[-1], MAX_DEPTH)
    clean: dict[str, Any] = map_strings(found[-1], printable)
    return clean


def _check(value: Any, levels: int) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedError(f"it has {value}, which is no number of JSON")
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if parts and not levels:
        raise MalformedError(f"it is nested more than {MAX_DEPTH} deep")
    for part in parts:
        _check(part, levels - 1)


def read_calls(calls: Any) -> tuple[ToolCall, ...]:
    """The calls in the field `tool_calls` of a message; what is no call is left out."""
    found = []
    for number, call in enumerate(calls if isinstance(calls, list) else (), 1):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            continue
        arguments, error = dict[str, Any](), ""
        try:
            arguments = read_object(str(function.get("arguments") or "{}"))
        except MalformedError as fault:
            error = str(fault)
        id = printable(str(call.get("id") or f"call_{number}"))
        found.append(ToolCall(id, printable(function["name"]), arguments, error))
    return tuple(found)
