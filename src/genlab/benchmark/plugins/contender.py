"""Contenders from tools: model, version and options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import packages_distributions, version
from itertools import product
from typing import Any

from genlab.benchmark.plugins.base import ImageTool
from genlab.benchmark.store.schema import Contender
from genlab.core.errors import GenlabError, did_you_mean


def contender_of(tool: ImageTool, options: Mapping[str, Any]) -> Contender:
    """The contender that `tool` is with these options. Raises a `GenlabError` for unknown ones."""
    return Contender(
        tool_id=tool.tool_id,
        title=tool.title,
        model=model_of(tool, options),
        options=checked_options(tool, options),
        version=version_of(tool),
    )


def make_contenders(
    tools: Sequence[ImageTool], options: Mapping[str, Mapping[str, Any]]
) -> list[Contender]:
    """Contenders of tools with options by tool id; a list of values makes one contender of each."""
    contenders = []
    for tool in tools:
        given = options.get(tool.tool_id, {})
        lists = [value if isinstance(value, list) else [value] for value in given.values()]
        contenders += [
            contender_of(tool, dict(zip(given, values, strict=True))) for values in product(*lists)
        ]
    return contenders


def version_of(tool: ImageTool) -> str:
    """The tool's `version`, or that of its installed package; "" without either."""
    if own := getattr(tool, "version", ""):
        return str(own)
    package = type(tool).__module__.partition(".")[0]
    return " ".join(f"{p} {version(p)}" for p in packages_distributions().get(package, ()))


def model_of(tool: ImageTool, options: Mapping[str, Any]) -> str:
    """The model that the tool uses with these options; "" where it names none."""
    model = getattr(tool, "model", None)
    return str(options.get("model") or (model(options) if callable(model) else model) or "")


def checked_options(tool: ImageTool, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options if `tool` accepts all of them.

    Raises a `GenlabError`: a misspelt option would be paid for with its default.
    """
    known = tool.needs.options
    for name, value in options.items() if known is not None else ():
        assert known is not None
        if name not in known:
            accepted = f"; it accepts {', '.join(known)}" if known else "; it accepts none"
            fix = did_you_mean(name, known) or accepted
            raise GenlabError(f"{tool.tool_id} has no option {name[:60]!r}{fix}")
        if known[name].choices and str(value) not in known[name].choices:
            raise GenlabError(
                f"option {name} of {tool.tool_id} must be {' or '.join(known[name].choices)},"
                f" got {str(value)[:60]!r}"
            )
    return dict(options)
