"""Registry of image tools: built-in, from installed packages, and from `tools.yaml`."""

import functools
import math
import re
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points, packages_distributions, version
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from genlab.benchmark.plugins.base import ImageTool, Needs, one_line
from genlab.benchmark.plugins.comfyui import ComfyTool
from genlab.benchmark.plugins.command import CommandTool
from genlab.benchmark.plugins.configured import ConfiguredTool
from genlab.benchmark.plugins.http import HttpTool
from genlab.benchmark.plugins.openai_images import DALLE3, GPT, OpenAITool
from genlab.benchmark.store.schema import Contender
from genlab.benchmark.tools.controls import CONTROLS
from genlab.benchmark.tools.local import LOCAL
from genlab.core.config_yaml import read_config
from genlab.core.errors import GenlabError, did_you_mean, to_genlab_error
from genlab.core.io import write_text
from genlab.llm.redaction import redact

GROUP = "genlab.image_tools"
TOOLS_FILE = Path("runs/tools.yaml")
INIT = "genlab benchmark tools --init"
BUILT_IN: tuple[ImageTool, ...] = (LOCAL, GPT, DALLE3, *CONTROLS)
KINDS = (OpenAITool, HttpTool, CommandTool, ComfyTool)
SECRET = frozenset({"key_env", "headers"})  # fields never quoted: somebody may have pasted a key
_TOOL_ID = re.compile(r"[a-z0-9][a-z0-9_]{0,47}")  # also the name of a folder


class ToolsFile(BaseModel):
    """The content of `tools.yaml`; validated with the file's folder as context."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    tools: list[
        Annotated[OpenAITool | HttpTool | CommandTool | ComfyTool, Field(discriminator="kind")]
    ]


def load_tools(config: Path | None = None) -> dict[str, ImageTool]:
    """Load all tools by id: built-in, installed, and those of a YAML file.

    config: the YAML file; None: `runs/tools.yaml`, if it exists. Raises a `GenlabError` that
    names the package or file of a tool that breaks the interface, and of a duplicate id.
    """
    tools = {tool.tool_id: tool for tool in BUILT_IN}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        package = point.dist.name if point.dist is not None else ""
        if package != "genlab":  # an installation may be old
            origin = f"image tool {point.name!r} ({point.value}) of package {package}"
            _add(tools, origin, _load(point, origin))
    if config is not None or TOOLS_FILE.exists():
        path = config or TOOLS_FILE
        for tool in read_tools(path):
            if tools.get(tool.tool_id) in (GPT, DALLE3):  # an entry replaces it
                del tools[tool.tool_id]
            _add(tools, str(path), tool)
    return tools


def choose_tools(tools: Mapping[str, ImageTool], names: Sequence[str]) -> list[ImageTool]:
    """Return the tools of these ids, each once. Raises a `GenlabError` for an unknown id."""
    for name in names:
        if name not in tools:
            fix = f"{did_you_mean(name, tools)}; list them with: genlab benchmark tools"
            raise GenlabError(f"no image tool is called {name!r}{fix}")
    return [tools[name] for name in dict.fromkeys(names)]


def make_contenders(
    tools: Sequence[ImageTool], options: Mapping[str, Mapping[str, Any]]
) -> list[Contender]:
    """Make contenders of tools with options by tool id; of a list, one for each value.

    A repeated value counts once. Raises a `GenlabError` for an option that a tool does not accept.
    """
    contenders = {}
    for tool in tools:
        tool_options = options.get(tool.tool_id, {})
        lists = [value if isinstance(value, list) else [value] for value in tool_options.values()]
        for values in product(*lists):
            chosen = convert_options(tool, dict(zip(tool_options, values, strict=True)))
            model = chosen.get("model") or getattr(tool, "model", None)
            if callable(model):
                model = model(chosen)
            contender = Contender(
                tool_id=tool.tool_id,
                options=chosen,
                title=tool.title,
                model=str(model or ""),
                version=tool_version(tool),
            )
            contenders[contender.contender_id] = contender
    return [*contenders.values()]


def tool_version(tool: ImageTool) -> str:
    """Return the tool's `version`, else that of its installed package, else ""."""
    version_of_tool = getattr(tool, "version", "")
    if version_of_tool:
        return str(version_of_tool)
    package = type(tool).__module__.partition(".")[0]
    return " ".join(f"{p} {version(p)}" for p in _installed().get(package, ()))


_installed = functools.cache(packages_distributions)  # which reads the file lists of all packages


def convert_options(tool: ImageTool, options: Mapping[str, Any]) -> dict[str, Any]:
    """Check the options of a tool, and convert text to numbers where the tool expects them.

    Raises a `GenlabError`: a misspelt option would silently cost money with its default.
    """
    accepted = tool.needs.options
    if accepted is None:
        return dict(options)
    converted = dict(options)
    for name, value in options.items():
        if name not in accepted:
            fix = did_you_mean(name, accepted) or f"; it accepts {', '.join(accepted) or 'none'}"
            raise GenlabError(f"{tool.tool_id} has no option {name[:60]!r}{fix}")
        choices = accepted[name].choices
        if choices and str(value) not in choices:
            raise GenlabError(
                f"option {name} of {tool.tool_id} must be {' or '.join(choices)},"
                f" got {str(value)[:60]!r}"
            )
        kind = accepted[name].kind
        try:
            converted[name] = kind(value) if isinstance(value, str) else value
            if isinstance(converted[name], float) and not math.isfinite(converted[name]):
                raise ValueError("no number of JSON")
        except ValueError as error:
            fault = f"must be {kind.__name__} as its default, and finite, got {str(value)[:60]!r}"
            raise GenlabError(f"option {name} of {tool.tool_id} {fault}") from error
    return converted


def read_tools(path: Path) -> list[ConfiguredTool]:
    """Read the tools of a YAML file. Raises a `GenlabError` that names file, entry, key and fix."""
    if not path.exists():
        raise GenlabError(f"{path} is missing; write a sample with: {INIT}", path=path)
    try:
        return [*ToolsFile.model_validate(read_config(path), context=path.parent).tools]
    except (ValidationError, GenlabError) as error:
        keys = {field.alias or key for kind in KINDS for key, field in kind.model_fields.items()}
        fault = error if isinstance(error, GenlabError) else to_genlab_error(error, path, keys)
        line = str(fault)
        key_path = (fault.key or "").split(".")
        is_one_field = len(key_path) >= 4
        if not is_one_field or SECRET.intersection(key_path):
            line = re.sub(r"(column \d+): .*|, got .*", r"\1", line)
        raise GenlabError(redact(line), key=fault.key, path=path, fix=fault.fix) from error


def write_sample(path: Path = TOOLS_FILE) -> None:
    """Write a commented `tools.yaml`. Raises a `GenlabError` where the file exists."""
    if path.exists():
        raise GenlabError(f"{path} exists; remove it first, or edit it", path=path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, files("genlab.benchmark.plugins").joinpath("sample.yaml").read_text("utf-8"))


def _add(tools: dict[str, ImageTool], origin: str, tool: ImageTool) -> None:
    if tool.tool_id in tools:
        fault = f"a tool {tool.tool_id!r} exists already; give this one another id"
        raise GenlabError(f"{origin}: {fault}")
    tools[tool.tool_id] = tool


def _load(point: EntryPoint, origin: str) -> ImageTool:
    """Load the tool of an installed package. Raises a `GenlabError` for a broken interface."""
    try:
        tool: object = point.load()()
        if not isinstance(tool, ImageTool) or not isinstance(tool.needs, Needs):
            members = ("tool_id", "title", "needs", "unavailable", "swap")
            absent = next((name for name in members if not hasattr(tool, name)), "needs")
            raise TypeError(f"{absent} is missing or of another type; see plugins.base.ImageTool")
        if not _TOOL_ID.fullmatch(tool.tool_id):
            raise ValueError(f"a tool_id is a-z, 0-9 and _, at most 48, got {tool.tool_id[:60]!r}")
        return tool
    except Exception as error:  # third-party code raises anything
        reason = f"{type(error).__name__}: {one_line(str(error))}"
        raise GenlabError(
            f"{origin} is no usable image tool ({reason}); correct or uninstall it"
        ) from error
