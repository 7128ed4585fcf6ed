"""Answers of language models: JSON in whatever surrounds it, and the schemas that ask for it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any

import json_repair
from pydantic import BaseModel, ValidationError

from genlab.core.text import map_strings, printable
from genlab.llm.redaction import excerpt

MAX_TEXT = 1 << 17  # characters of an answer in which JSON is looked for
MAX_REPAIR = 1 << 14  # the same for json_repair, which can take quadratic time
MAX_STARTS = 32  # places in it at which JSON may begin
MAX_DEPTH = 40  # levels of lists and objects in an answer


class MalformedError(ValueError):
    """An answer that does not hold what was asked for; the message is for the model to read."""


def without_thoughts(text: str) -> str:
    """The answer after a `<think>…</think>` prefix, whose first tag some servers leave out."""
    head, end, answer = text.partition("</think>")
    thought = head.lstrip().startswith("<think>") or (end and "<think>" not in head)
    return answer if thought else text


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
    rules = min(misfits, key=ValidationError.error_count).errors(
        include_url=False, include_context=False
    )
    lines = [
        f"{'.'.join(map(str, rule['loc'])) or 'the answer'}: {rule['msg']},"
        f" got {excerpt(repr(rule['input']), length=60)}"
        for rule in rules[:5]
    ]
    raise MalformedError(excerpt("; ".join(lines), length=600))


def json_values(text: str) -> Iterator[Any]:
    """JSON values in `text`, likely ones first, with printable strings. Raises MalformedError."""
    text = without_thoughts(text)
    if len(text) > MAX_TEXT:
        raise MalformedError(f"it is longer than {MAX_TEXT} characters")
    try:
        yield _checked(json.loads(text, parse_constant=_refuse))
        return
    except (ValueError, RecursionError) as error:
        if isinstance(error, MalformedError):
            raise
    try:
        found = json_repair.loads(text) if len(text) <= MAX_REPAIR else None
    except (ValueError, RecursionError) as error:
        raise MalformedError("it has no JSON that can be read") from error
    for value in (found, *(found if isinstance(found, list) else ())):
        if isinstance(value, dict | list):
            yield _checked(value)
    end = 0
    for start in [match.start() for match in re.finditer(r"\{", text)][:MAX_STARTS]:
        if start >= end:
            try:
                value, end = _DECODER.raw_decode(text, start)
            except (ValueError, RecursionError):
                continue
            yield _checked(value)


def _refuse(name: str) -> float:
    raise MalformedError(f"it has {name}, which is no number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _checked(value: Any) -> Any:
    _check(value, MAX_DEPTH)
    return map_strings(value, printable)


def _check(value: Any, levels: int) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        _refuse(str(value))
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
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
