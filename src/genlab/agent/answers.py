"""Answers in a schema: how they are asked for, and read whatever surrounds them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

import openai
from pydantic import BaseModel, ValidationError

from genlab.agent.messages import Message
from genlab.agent.redact import excerpt

MAX_TEXT = 1 << 17  # characters of an answer in which JSON is looked for
MAX_STARTS = 32  # places in it at which JSON may begin: together they bound a hostile answer's cost
MAX_DEPTH = 40  # levels of lists and objects in an answer


class MalformedError(ValueError):
    """An answer that does not hold what the schema asks for."""


_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.DOTALL)


def parse(text: str, schema: type[BaseModel]) -> BaseModel:
    """Read an answer that may be fenced, wrapped in prose or have trailing commas.

    Of several JSON values in it, the first that fits `schema` is taken. NaN and infinity are
    refused, since JSON has neither. Raises `MalformedError` with a line for the model to read.
    """
    if len(text) > MAX_TEXT:
        raise MalformedError(f"it is longer than {MAX_TEXT} characters")
    if text.lstrip().startswith("<think>"):  # a reasoning model's thoughts are no answer
        text = text.rpartition("</think>")[2]
    misfits: list[ValidationError] = []
    for value in _values(text):
        if _is_deeper(value, MAX_DEPTH):
            raise MalformedError(f"it is nested more than {MAX_DEPTH} deep")
        try:
            parsed = schema.model_validate(value)
        except ValidationError as error:
            misfits.append(error)
            continue
        if not _finite(parsed.model_dump()):
            raise MalformedError("it holds NaN or an infinite number")
        return parsed
    if not misfits:
        raise MalformedError("it holds no JSON that can be read")
    raise MalformedError(_told(min(misfits, key=ValidationError.error_count)))


def _values(text: str) -> Iterator[Any]:
    fenced = _FENCE.findall(text)
    starts = [match.start() for match in islice(re.finditer(r"\{", text), MAX_STARTS)]
    for whole in (text, *fenced[:MAX_STARTS]):
        yield from _decoded(whole.strip(), to_the_end=True)
    for start in starts:
        yield from _decoded(text[start:], to_the_end=False)


def _decoded(text: str, *, to_the_end: bool) -> Iterator[Any]:
    """The JSON value at the start of `text`, if there is one; else the same without its commas."""
    for variant in (text, _without_trailing_commas):
        try:
            source = variant if isinstance(variant, str) else variant(text)
            value, end = _DECODER.raw_decode(source)
        except (ValueError, RecursionError):
            continue
        if not to_the_end or end == len(source):
            yield value
        return


def _without_trailing_commas(text: str) -> str:
    return _STRING_OR_COMMA.sub(lambda hit: "" if hit[0] == "," else hit[0], text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not finite")
    return value


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=_number)


def _is_deeper(value: object, most: int) -> bool:
    """Whether it nests deeper than `most`: what is read of it walks it by calling itself."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return bool(parts) and (most == 0 or any(_is_deeper(part, most - 1) for part in parts))


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(_finite(item) for item in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return all(_finite(item) for item in value)
    return True


def _told(error: ValidationError) -> str:
    lines = []
    for fault in error.errors(include_url=False, include_context=False)[:5]:
        place = ".".join(str(part) for part in fault["loc"]) or "the answer"
        lines.append(f"{place}: {fault['msg']}, got {excerpt(repr(fault['input']), length=60)}")
    return excerpt("; ".join(lines), length=600)


def response_format(schema: type[BaseModel]) -> dict[str, Any]:
    """The field of a request that asks for an answer in `schema`."""
    tool = openai.pydantic_function_tool(schema)["function"]
    shape = _without_defaults(tool["parameters"])
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", schema.__name__)[:64]
    return {
        "type": "json_schema",
        # An endpoint that is strict refuses objects with free keys, such as a tool's arguments.
        "json_schema": {"name": name, "schema": shape, "strict": _closed(shape)},
    }


def _without_defaults(node: Any, *, names: bool = False) -> Any:
    """A schema without `default`, which strict endpoints refuse: every field is required there.

    names: whether the keys of `node` are fields' names, of which one may be `default`.
    """
    if isinstance(node, Mapping):
        return {
            key: _without_defaults(item, names=not names and key in ("properties", "$defs"))
            for key, item in node.items()
            if names or key != "default"
        }
    return [_without_defaults(item) for item in node] if isinstance(node, list) else node


def _closed(node: object) -> bool:
    if isinstance(node, Mapping):
        if node.get("type") == "object" and node.get("additionalProperties") is not False:
            return False
        return all(_closed(item) for item in node.values())
    return all(_closed(item) for item in node) if isinstance(node, list) else True


def instruction(schema: type[BaseModel]) -> Message:
    """The same in words, for an endpoint that lacks the field."""
    shape = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    text = f"Answer with one JSON object and nothing else. It must fit this JSON schema: {shape}"
    return {"role": "system", "content": text}
