"""Answers of language models: JSON in whatever surrounds it, and the schemas that ask for it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import json_repair
from pydantic import BaseModel, ValidationError

from genlab.core.errors import violations
from genlab.core.text import map_strings, printable
from genlab.llm.redaction import excerpt

MAX_TEXT = 1 << 17  # characters of an answer in which JSON is looked for
MAX_REPAIR = 1 << 14  # the same for json_repair, which can take quadratic time
MAX_STARTS = 32  # places in it at which JSON may begin
MAX_DEPTH = 40  # levels of lists and objects in an answer


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


def parse(text: str, schema: type[BaseModel]) -> BaseModel:
    """Read the first JSON object in `text` that fits `schema`.

    NaN and infinity, which JSON lacks, are refused. Raises `MalformedError`.
    """
    fields = {
        name for key, field in schema.model_fields.items() for name in (key, field.alias) if name
    }
    misfits: list[ValidationError] = []
    for value in json_values(text):
        if isinstance(value, dict) and value and fields.isdisjoint(value):
            continue  # a part of an object, or braces in prose
        try:
            return schema.model_validate(value)
        except ValidationError as error:
            misfits.append(error)
    if not misfits:
        raise MalformedError(f"it has no JSON object with fields of {schema.__name__}")
    rules = violations(min(misfits, key=ValidationError.error_count))
    raise MalformedError(excerpt("; ".join(line for _, line in rules[:5]), length=600))


def json_values(text: str) -> Iterator[Any]:
    """JSON values in `text`, likely ones first, with printable strings. Raises MalformedError."""
    for value in _find_values(without_thoughts(text)):
        _check(value, MAX_DEPTH)
        yield map_strings(value, printable)


def _find_values(text: str) -> Iterator[Any]:
    with suppress(ValueError, RecursionError):
        yield json.loads(text, strict=False)  # with line breaks in strings
        return
    found = None
    with suppress(ValueError, RecursionError):
        found = json_repair.loads(text) if len(text) <= MAX_REPAIR else None
    yield from (each for each in (found, *_items(found)) if isinstance(each, dict | list))
    end = 0
    for start in [match.start() for match in islice(re.finditer(r"\{", text), MAX_STARTS)]:
        with suppress(ValueError, RecursionError):
            if start >= end:
                value, end = json.JSONDecoder(strict=False).raw_decode(text, start)
                yield value


def read_calls(calls: Any, text: str, names: Sequence[str]) -> tuple[ToolCall, ...]:
    """The calls of a message: the field `tool_calls`, or one that `text` states as JSON.

    names: the functions that were offered; there is no call where none was.
    """
    if not names:
        return ()
    if not calls:
        with suppress(MalformedError):
            stated = (each for each in json_values(text) if isinstance(each, dict))
            calls = [{"function": each} for each in stated if each.get("name") in names][:1]
    found = []
    for number, call in enumerate(_items(calls), 1):
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            arguments, error = _read_arguments(function)
            id = printable(str(call.get("id") or f"call_{number}"))
            found.append(ToolCall(id, printable(function["name"]), arguments, error))
    return tuple(found)


def _read_arguments(function: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    stated = function.get("arguments", function.get("parameters")) or {}
    text = stated if isinstance(stated, str) else json.dumps(stated)
    try:
        return next(value for value in json_values(text) if isinstance(value, dict)), ""
    except (MalformedError, StopIteration) as error:
        return {}, str(error) or "they are no JSON object"


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _check(value: Any, levels: int) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise MalformedError(f"it has {value}, which is no number of JSON")
    parts = list(value.values()) if isinstance(value, dict) else _items(value)
    if parts and not levels:
        raise MalformedError(f"it is nested more than {MAX_DEPTH} deep")
    for part in parts:
        _check(part, levels - 1)


def response_format(schema: type[BaseModel]) -> dict[str, Any]:
    """The field of a request that asks for an answer in `schema`; strict where all is closed."""
    shape = _without_defaults(schema.model_json_schema())
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", schema.__name__)[:64]
    definition = {"name": name, "schema": shape, "strict": _is_closed(shape)}
    return {"type": "json_schema", "json_schema": definition}


def _without_defaults(node: Any, *, names: bool = False) -> Any:
    """A schema without `default`, which strict endpoints refuse; closed objects need every field.

    names: whether the keys of `node` are fields' names, of which one may be `default`.
    """
    if isinstance(node, list):
        return [_without_defaults(item) for item in node]
    if not isinstance(node, Mapping):
        return node
    shape = {
        key: _without_defaults(item, names=not names and key in ("properties", "$defs"))
        for key, item in node.items()
        if names or key != "default"
    }
    if not names and shape.get("additionalProperties") is False:
        shape["required"] = list(shape.get("properties", ()))
    return shape


def _is_closed(node: Any) -> bool:
    if isinstance(node, Mapping):
        is_open = node.get("type") == "object" and node.get("additionalProperties") is not False
        return not is_open and all(map(_is_closed, node.values()))
    return all(map(_is_closed, node)) if isinstance(node, list) else True
