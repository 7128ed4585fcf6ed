"""The tools for a language model: schemas of OpenAI's function calling, and calls by name."""

import inspect
import json
from collections.abc import Mapping
from functools import cache
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from genlab.agent.architecture.schema import config_schema
from genlab.agent.architecture.training import recipe_schema
from genlab.agent.library.toolbox import JOURNAL
from genlab.agent.tools import TOOLS
from genlab.core.errors import GenlabError, describe_os_error, list_violations
from genlab.core.text import make_printable
from genlab.llm.chat import BudgetSpentError, SetupError

MAX_RESULT = 20_000  # characters


def function_schemas(task: str = "classify") -> list[dict[str, Any]]:
    """All tools in the format of OpenAI's function calling, from signatures and docstrings.

    model_config and eval_config are described as those of `task`.
    """
    details = {"model_config": config_schema(task), "eval_config": recipe_schema(task)}
    found = []
    for name, tool in TOOLS.items():
        parameters = _arguments(name).model_json_schema()
        del parameters["title"]
        for argument, schema in parameters["properties"].items():
            detailed = schema | details.get(argument, {})
            parameters["properties"][argument] = {k: v for k, v in detailed.items() if k != "title"}
        description = " ".join(str(inspect.getdoc(tool)).split())
        function = {"name": name, "description": description, "parameters": parameters}
        found.append({"type": "function", "function": function})
    return found


def call(name: str, arguments: Mapping[str, Any]) -> str:
    """Call a tool with a language model's arguments; returns text or JSON, or `error: ...`.

    A result of more than MAX_RESULT characters is cut, with a mark.
    """
    try:
        result = _call(name, arguments)
        text = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        text = "done" if result is None else text
    except SetupError:
        raise
    except GenlabError as error:
        text = f"error: {error}"
    except OSError as error:
        text = f"error: {describe_os_error(error)}"
    text = make_printable(text)
    mark = f"\n[... cut at {MAX_RESULT} characters]"
    return text if len(text) <= MAX_RESULT else text[:MAX_RESULT] + mark


def run(name: str, arguments: Mapping[str, Any]) -> Any:
    """Call a tool outside of a run; `args` holds what stands for *args. Raises a GenlabError."""
    try:
        return _call(name, arguments)
    except BudgetSpentError as error:
        fix = f"raise the limit in params.yaml, or remove {JOURNAL} of the workspace"
        raise GenlabError(f"{error.reason}; {fix}") from error


def _call(name: str, arguments: Mapping[str, Any]) -> Any:
    if name not in TOOLS:
        raise GenlabError(f"no tool is called {name[:60]!r}; name one of {', '.join(TOOLS)}")
    model = _arguments(name)
    known = [str(field.alias) for field in model.model_fields.values()]
    try:
        checked = model.model_validate(dict(arguments))
    except ValidationError as error:
        raise GenlabError(f"{name}: {list_violations(error, known)[0][1]}") from error
    values = [value for _, value in checked]
    several = values.pop() if "args" in known else []  # what stands for *args is the last one
    return TOOLS[name](*values, *several)


@cache
def _arguments(name: str) -> type[BaseModel]:
    """A model of a tool's arguments by alias; *args is a list."""
    types, fields = get_type_hints(TOOLS[name]), dict[str, Any]()
    for parameter in inspect.signature(TOOLS[name]).parameters.values():
        kind, default = types[parameter.name], parameter.default
        if parameter.kind is parameter.VAR_POSITIONAL:
            kind, default = list[kind], []  # type: ignore[valid-type]
        required = ... if default is parameter.empty else default
        fields[f"{parameter.name}_"] = (kind, Field(required, alias=parameter.name))
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
