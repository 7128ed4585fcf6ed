"""The tools for a language model: schemas for OpenAI's function calling, and calls by name."""

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
    """Describe all tools in the format of OpenAI's function calling.

    Descriptions are the tools' docstrings. task: whose model_config and eval_config are described.
    """
    details = {"model_config": config_schema(task), "eval_config": recipe_schema(task)}
    functions = []
    for name, tool in TOOLS.items():
        parameters = _arguments(name).model_json_schema()
        del parameters["title"]
        for argument, schema in parameters["properties"].items():
            schema = schema | details.get(argument, {})
            schema.pop("title", None)
            parameters["properties"][argument] = schema
        description = " ".join(str(inspect.getdoc(tool)).split())
        function = {"name": name, "description": description, "parameters": parameters}
        functions.append({"type": "function", "function": function})
    return functions


def call(name: str, arguments: Mapping[str, Any]) -> str:
    """Call a tool with a language model's arguments; returns text or JSON, or `error: ...`.

    A result of more than MAX_RESULT characters is cut, with a mark. Raises a SetupError: only the
    user can correct it.
    """
    try:
        result = _call(name, arguments)
        if result is None:
            text = "done"
        elif isinstance(result, str):
            text = result
        else:
            text = json.dumps(result, ensure_ascii=False)
    except SetupError:
        raise
    except GenlabError as error:
        text = f"error: {error}"
    except OSError as error:
        text = f"error: {describe_os_error(error)}"
    text = make_printable(text)
    if len(text) > MAX_RESULT:
        return f"{text[:MAX_RESULT]}\n[... cut at {MAX_RESULT} characters]"
    return text


def run(name: str, arguments: Mapping[str, Any]) -> Any:
    """Call a tool outside of a run; `args` is a list for *args. Raises a GenlabError."""
    try:
        return _call(name, arguments)
    except BudgetSpentError as error:
        fix = f"raise the limit in params.yaml, or remove {JOURNAL} of the workspace"
        raise GenlabError(f"{error.reason}; {fix}") from error


def _call(name: str, arguments: Mapping[str, Any]) -> Any:
    if name not in TOOLS:
        raise GenlabError(f"no tool is called {name[:60]!r}; name one of {', '.join(TOOLS)}")
    model = _arguments(name)
    parameters = [str(field.alias) for field in model.model_fields.values()]
    try:
        validated = model.model_validate(dict(arguments))
    except ValidationError as error:
        raise GenlabError(f"{name}: {list_violations(error, parameters)[0][1]}") from error
    values = [value for _, value in validated]
    variable = values.pop() if "args" in parameters else []  # *args comes last in a signature
    return TOOLS[name](*values, *variable)


@cache
def _arguments(name: str) -> type[BaseModel]:
    """Make a pydantic model of a tool's arguments, by alias; *args is a list."""
    types = get_type_hints(TOOLS[name])
    fields = dict[str, Any]()
    for parameter in inspect.signature(TOOLS[name]).parameters.values():
        annotation = types[parameter.name]
        default = ... if parameter.default is parameter.empty else parameter.default
        if parameter.kind is parameter.VAR_POSITIONAL:
            annotation = list[annotation]  # type: ignore[valid-type]
            default = []
        # A field may not have the name of a method of BaseModel, hence the underscore.
        fields[f"{parameter.name}_"] = (annotation, Field(default, alias=parameter.name))
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)
