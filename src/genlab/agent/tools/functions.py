"""The tools for a language model: schemas of OpenAI's function calling, and calls by name."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from genlab.agent import tools
from genlab.core.errors import GenlabError, describe_os_error, violations
from genlab.core.text import printable

MAX_RESULT = 20_000  # characters


def function_schemas() -> list[dict[str, Any]]:
    """All tools in the format of OpenAI's function calling, from signatures and docstrings."""
    return [_schema(name) for name in tools.TOOLS]


def call(name: str, arguments: Mapping[str, Any]) -> str:
    """Call a tool with a language model's arguments; returns its result, or `error: ...`.

    Results are text or JSON of at most MAX_RESULT characters.
    """
    try:
        result = _call(name, arguments)
    except GenlabError as error:
        return printable(f"error: {error}")[:MAX_RESULT]
    except OSError as error:
        return printable(f"error: {describe_os_error(error)}")[:MAX_RESULT]
    text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
    text = printable("done" if result is None else text)
    cut = f"\n[... cut at {MAX_RESULT} characters]"
    return text if len(text) <= MAX_RESULT else text[:MAX_RESULT] + cut


def _call(name: str, arguments: Mapping[str, Any]) -> Any:
    if name not in tools.TOOLS:
        raise GenlabError(f"no tool is called {name[:60]!r}; name one of {', '.join(tools.TOOLS)}")
    model = _arguments(name)
    try:
        checked = model.model_validate(dict(arguments))
    except ValidationError as error:
        line = violations(error, model.model_fields)[0][1]
        raise GenlabError(f"{name}: {line}") from error
    function, values = tools.TOOLS[name], []
    for parameter in inspect.signature(function).parameters.values():
        value = getattr(checked, parameter.name)
        values += value if parameter.kind is parameter.VAR_POSITIONAL else [value]
    return function(*values)


@cache
def _arguments(name: str) -> type[BaseModel]:
    """A model of a tool's arguments; `*args` is a list."""
    function: Callable[..., Any] = tools.TOOLS[name]
    types, fields = get_type_hints(function), dict[str, Any]()
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            fields[parameter.name] = (list[types[parameter.name]], [])  # type: ignore[misc]
        else:
            default = ... if parameter.default is parameter.empty else parameter.default
            fields[parameter.name] = (types[parameter.name], default)
    config = ConfigDict(extra="forbid", protected_namespaces=())
    return create_model(name, __config__=config, **fields)


def _schema(name: str) -> dict[str, Any]:
    parameters = _arguments(name).model_json_schema()
    del parameters["title"]
    for each in parameters["properties"].values():
        each.pop("title", None)
    description = " ".join(str(inspect.getdoc(tools.TOOLS[name])).split())
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}
