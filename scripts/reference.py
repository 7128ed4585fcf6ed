"""mkdocs hook: generate the reference of parameters, metrics and commands from the code."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_origin

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic.fields import FieldInfo

ROOT = Path(__file__).resolve().parent.parent
BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    pages = {
        "reference/parameters.md": parameters(),
        "reference/metrics.md": metrics(),
        "reference/cli.md": commands(),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def parameters() -> str:
    """Every parameter of params.yaml with type, range and meaning."""
    from genlab.core.params import Params

    lines = [
        "# Parameters",
        "",
        "Generated from the models in `genlab.core.params`. Change a value in `params.yaml`, or",
        "for one experiment with `dvc exp run -S KEY=VALUE`. An unknown key, a wrong type or a",
        "value out of range is one error line and exit code 2.",
    ]
    sections: dict[str, list[str]] = {"Top level": []}
    for section, name, field in _fields(Params):
        row = f"| `{name}` | {_values(field)} | {field.description or ''} |"
        sections.setdefault(section, []).append(row)
    for section, rows in sections.items():
        lines += [
            "",
            f"## {section}",
            "",
            "| key | values | meaning |",
            "| --- | --- | --- |",
            *rows,
        ]
    return "\n".join(lines) + "\n"


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, str, FieldInfo]]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield from _fields(kind, f"{prefix}{name}.")
        else:
            yield prefix.rstrip(".") or "Top level", prefix + name, field


def _values(field: FieldInfo) -> str:
    """Type and range of a field; a choice lists its options."""
    options = get_args(field.annotation)
    if options and all(isinstance(option, str) for option in options):
        return ", ".join(f"`{option}`" for option in options)
    bounds = [
        f"{sign} {getattr(rule, name):g}"
        for rule in field.metadata
        for name, sign in BOUNDS.items()
        if getattr(rule, name, None) is not None
    ]
    origin = get_origin(field.annotation) or field.annotation
    name = getattr(origin, "__name__", str(origin))
    return ", ".join([name, *bounds])


def metrics() -> str:
    """The descriptions of the numbers in metrics/."""
    from genlab.evaluation.evaluators import summary

    lines = [
        "# Metrics",
        "",
        "Generated from `genlab.evaluation.evaluators.summary`, which writes `metrics/`.",
    ]
    for dataset, model in (("Grids", summary.GridSummary), ("Images", summary.ImageSummary)):
        lines += ["", f"## {dataset}", "", "| metric | range | meaning |", "| --- | --- | --- |"]
        for name, field in model.model_fields.items():
            lines.append(f"| `{name}` | {_values(field)} | {field.description} |")
    return "\n".join(lines) + "\n"


def commands() -> str:
    """Every command with its help text and options."""
    from typer.main import get_command

    from genlab import cli

    lines = ["# Commands", "", "Generated from the commands. `make help` lists the make targets."]
    for name in [*cli.COMMANDS, "doctor"]:  # the first ones are stubs until they are loaded
        lazy = name in cli.COMMANDS
        command = cli.load_command(name) if lazy else get_command(cli.app).commands[name]
        lines += _command(command, f"genlab {name}")
    return "\n".join(lines) + "\n"


def _command(command: Any, path: str) -> Iterator[str]:
    """Markdown of a click command and its sub-commands."""
    text = (command.help or "").replace("\b", "").split("\f")[0].strip()
    yield from ["", f"## {path}", "", "```text", text, "```"]
    options = [p for p in command.params if getattr(p, "help", None) and not p.hidden]
    if options:
        yield from ["", "| option | meaning |", "| --- | --- |"]
        for option in options:
            names = ", ".join([*option.opts, *option.secondary_opts])
            meaning = option.help.replace("|", "\\|").replace("\n", " ")
            yield f"| `{names}` | {meaning} |"
    for name, child in sorted(getattr(command, "commands", {}).items()):
        if not child.hidden:
            yield from _command(child, f"{path} {name}")
