"""Answers of language models: JSON, repaired where it is nearly that, and calls of functions."""

import json
import math
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import json_repair
from pydantic import BaseModel, ValidationError

from genlab.core.errors import list_violations
from genlab.core.text import make_printable, map_strings
from genlab.llm.dialects import (
    find_fenced,
    list_text_calls,
    name_function,
    strip_fence,
    strip_thoughts,
)
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


class NoObjectError(MalformedError):
    """An answer without the JSON object that was asked for."""


def parse(text: str, schema: type[Schema]) -> Schema:
    """Read the JSON object in `text`, which has to fit `schema`. Raises `MalformedError`.

    Of a schema with a field `code`, an answer may be the code alone, in a fence.
    """
    named = {name for key, field in schema.model_fields.items() for name in (key, field.alias)}
    try:
        value = read_object(text)
        if named.isdisjoint(value):  # it would fit a schema in which everything has a default
            raise NoObjectError(f"it has no JSON object with fields of {schema.__name__}")
    except NoObjectError:
        code = find_fenced(text) if "code" in named else None
        if code is None:
            raise
        value = {"code": code}
    if isinstance(value.get("code"), str):
        value["code"] = strip_fence(value["code"])
    try:
        return schema.model_validate(value)
    except ValidationError as error:
        rules = "; ".join(line for _, line in list_violations(error)[:5])
        raise MalformedError(excerpt(rules, length=600)) from error


def read_object(text: str) -> dict[str, Any]:
    """The JSON object in `text`, the last of several, with printable strings.

    NaN and infinity, which JSON lacks, are refused. Raises `MalformedError`.
    """
    text = strip_thoughts(text)
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
        raise NoObjectError("it has no JSON object")
    return _clean(found[-1])


def _clean(value: dict[str, Any]) -> dict[str, Any]:
    """An object with printable strings. Raises `MalformedError` for one that is no JSON."""
    _check(value, MAX_DEPTH)
    clean: dict[str, Any] = map_strings(value, make_printable)
    return clean


def _check(value: Any, levels: int) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedError(f"it has {value}, which is no number of JSON")
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if parts and not levels:
        raise MalformedError(f"it is nested more than {MAX_DEPTH} deep")
    for part in parts:
        _check(part, levels - 1)


def read_calls(calls: Any, text: str = "", names: Collection[str] = ()) -> tuple[ToolCall, ...]:
    """The calls in the field `tool_calls` of a message, or else in its text.

    names: of the functions that may be called. What is no call is left out.
    """
    found = []
    if not calls:
        calls = list_text_calls(text)
    for number, call in enumerate(calls if isinstance(calls, list) else (), 1):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            continue
        arguments, error = dict[str, Any](), ""
        stated = function.get("arguments") or {}
        if isinstance(stated, list) and len(stated) == 1:  # of vLLM, with some parsers
            (stated,) = stated
        try:
            arguments = _clean(stated) if isinstance(stated, dict) else read_object(str(stated))
        except MalformedError as fault:
            error = str(fault)
        id = make_printable(str(call.get("id") or f"call_{number}"))
        name = name_function(make_printable(function["name"]), names)
        found.append(ToolCall(id, name, arguments, error))
    return tuple(found)
