"""mkdocs hook: generate the reference from the code, and a page of SECURITY.md."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

import pandas as pd
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typer import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

from genlab import cli
from genlab.core.params import Params
from genlab.core.params.sections import SourceParams
from genlab.evaluation.evaluators import summary

BOUNDS = {"gt": ">", "ge": "≥", "lt": "<", "le": "≤"}
PARAMETERS = """# Parameters

Generated from the models in `genlab.core.params`. Change a value in `params.yaml`, or for one
experiment with `dvc exp run -S KEY=VALUE`. An unknown key, a wrong type or a value out of range is
one error line and exit code 2.
"""
SECTIONS = """
A section named after a dataset holds what differs there. One of your own also has `source`:
[how to add one](../how-to/dataset.md).
"""
METRICS = """# Metrics

Generated from `genlab.evaluation.evaluators.summary`, which writes `metrics/`.
"""
COMMANDS = """# Commands

Generated from the commands. `make help` lists the make targets.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to the site."""
    params: Mapping[str, Any] = Params.model_fields
    sections = {name: f.annotation for name, f in params.items() if _is_model(f.annotation)}
    flat = {name: field for name, field in params.items() if name not in sections}
    metrics = {"Grids": summary.GridSummary, "Images": summary.ImageSummary}
    parameters = [PARAMETERS, *_table("Top level", flat)]
    for name, section in sections.items():
        parameters += _table(name, section.model_fields)
    parameters += [SECTIONS, *_table("DATASET.source", SourceParams.model_fields)]
    metric_lines = [METRICS]
    for name, model in metrics.items():
        metric_lines += _table(name, model.model_fields)
    pages = {
        "reference/parameters.md": parameters,
        "reference/metrics.md": metric_lines,
        "reference/cli.md": [COMMANDS, *_commands()],
        "explanation/security.md": [Path("SECURITY.md").read_text(encoding="utf-8")],
    }
    for path, lines in pages.items():
        files.append(File.generated(config, path, content="\n".join(lines)))
    return files


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _table(title: str, fields: Mapping[str, FieldInfo]) -> Iterator[str]:
    """Yield a section with a table of the fields' names, values and meanings."""
    rows = [(f"`{name}`", _values(field), field.description) for name, field in fields.items()]
    table = pd.DataFrame(rows, columns=["key", "values", "meaning"])
    yield from (f"## {title}\n", table.to_markdown(index=False, disable_numparse=True) + "\n")


def _values(field: FieldInfo) -> str:
    """Return the type and range of a field, or the options of a choice."""
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
    return ", ".join([getattr(origin, "__name__", str(origin)), *bounds])


def _commands() -> Iterator[str]:
    """Yield the Markdown of every command and its sub-commands."""
    commands = {name: cli.load_command(name) for name in cli.COMMANDS}
    commands["doctor"] = get_command(cli.app).commands["doctor"]
    for name, command in commands.items():
        yield get_docs_for_click(obj=command, ctx=Context(command), name=f"genlab {name}", indent=1)
