"""Parse answers of language models: JSON, repaired if it is almost valid, and function calls."""

import json
import math
import re
from collections.abc import Collection, Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

import json_repair
from pydantic import BaseModel, ValidationError

from genlab.core.errors import list_violations
from genlab.core.text import make_printable, map_strings
from genlab.llm.dialects import (
    find_fenced,
    normalize_name,
    parse_text_calls,
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
    """Call of a function by the model.

    Arguments that cannot be parsed are {}, with the reason in `error`.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    error: str = ""


class MalformedError(Exception):
    """The answer does not contain what the prompt asks for; the model reads the message."""


class NoObjectError(MalformedError):
    """The answer does not contain the JSON object that the prompt asks for."""


def parse(text: str, schema: type[Schema]) -> Schema:
    """Parse the JSON object in `text` and validate it against `schema`. Raises `MalformedError`.

    For a schema with a field `code`, an answer may be just the code, in a fence.
    """
    names: set[str | None] = set()
    for key, field in schema.model_fields.items():
        names.update((key, field.alias))
    try:
        value = read_object(text)
        if names.isdisjoint(value):  # it would fit a schema in which every field has a default
            raise NoObjectError(f"it has no JSON object with fields of {schema.__name__}")
    except NoObjectError:
        code = find_fenced(text) if "code" in names else None
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
    """Parse the JSON object in `text`, the last of several, with printable strings.

    NaN and infinity, which JSON lacks, are refused. Raises `MalformedError`.
    """
    text = strip_thoughts(text)
    fenced = None if text.lstrip().startswith("{") else FENCE.search(text)
    if fenced:
        text = fenced[1]
    else:
        start = max(0, text.find("{"))
        text = text[start : text.rfind("}") + 1] or text
    value = None
    try:
        value = json.loads(text, strict=False)  # with line breaks in strings
    except (ValueError, RecursionError):
        with suppress(ValueError, RecursionError):
            value = json_repair.loads(text) if len(text) <= MAX_REPAIR else None
    items = value if isinstance(value, list) else [value]
    objects = [item for item in items if isinstance(item, dict)]
    if not objects:
        raise NoObjectError("it has no JSON object")
    return _clean(objects[-1])


def _clean(value: dict[str, Any]) -> dict[str, Any]:
    """Make the strings of an object printable. Raises `MalformedError` where it is no JSON."""
    _check(value, MAX_DEPTH)
    clean: dict[str, Any] = map_strings(value, make_printable)
    return clean


def _check(value: Any, levels: int) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedError(f"it has {value}, which is no number of JSON")
    children: Iterable[Any] = ()
    if isinstance(value, dict):
        children = value.values()
    elif isinstance(value, list):
        children = value
    if children and not levels:
        raise MalformedError(f"it is nested more than {MAX_DEPTH} deep")
    for child in children:
        _check(child, levels - 1)


def read_calls(calls: Any, text: str = "", names: Collection[str] = ()) -> tuple[ToolCall, ...]:
    """Parse the calls in the field `tool_calls` of a message, or else in its text.

    names: of the functions that may be called. Entries that are no calls are ignored.
    """
    parsed = []
    if not calls:
        calls = parse_text_calls(text)
    for number, call in enumerate(calls if isinstance(calls, list) else (), 1):
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            continue
        arguments = dict[str, Any]()
        error = ""
        value = function.get("arguments") or {}
        if isinstance(value, list) and len(value) == 1:  # of vLLM, with some parsers
            (value,) = value
        try:
            arguments = _clean(value) if isinstance(value, dict) else read_object(str(value))
        except MalformedError as fault:
            error = str(fault)
        id = make_printable(str(call.get("id") or f"call_{number}"))
        name = normalize_name(make_printable(function["name"]), names)
        parsed.append(ToolCall(id, name, arguments, error))
    return tuple(parsed)
