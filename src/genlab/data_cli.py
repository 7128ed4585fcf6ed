"""`genlab data`: say how a path is understood as a dataset, and add it to params.yaml."""

from __future__ import annotations

import functools
import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer

from genlab.core.params.sections import SourceParams, TableParams

if TYPE_CHECKING:
    from genlab.datasets.own import OwnItems

app = typer.Typer(no_args_is_help=True, help="Inspect your own data, and add them.")

TYPES: Mapping[str, Any] = {
    "size": int,
    "range": tuple[float, float],
    "arrays": tuple[str, str],
    "table_columns": tuple[str, str],
    "val_share": float,
    "test_share": float,
}
"""Types of options whose values are not words."""

PathArgument = Annotated[Path, typer.Argument(help="Folder, archive or file.")]
Sheet = Annotated[Path | None, typer.Option(help="Write a contact sheet to this PNG file.")]


def with_source_options(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each key of `source` but its path, in place of `stated`."""
    parameters = inspect.signature(command, eval_str=True).parameters
    options = list(_list_options())

    @functools.wraps(command)
    def run(**values: Any) -> None:
        stated: dict[str, Any] = {}
        for option in options:
            value = values.pop(option.name)
            section, _, key = option.name.partition("_")
            if value is not None and section == "table":
                stated.setdefault(section, {})[key] = value
            elif value is not None:
                stated[option.name] = value
        command(**values, stated=stated)

    signature = [
        parameter.replace(kind=parameter.KEYWORD_ONLY)
        for parameter in parameters.values()
        if parameter.name != "stated"
    ]
    signature += options
    run.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in signature}
    return run


def _list_options() -> Iterator[inspect.Parameter]:
    """Make an option for each key of a source; keys of its table become `--table-KEY`."""
    fields = {name: field for name, field in SourceParams.model_fields.items() if name != "table"}
    fields |= {f"table_{name}": field for name, field in TableParams.model_fields.items()}
    for name, field in fields.items():
        if name == "path":
            continue
        choices = ", ".join(_find_choices(field.annotation))
        text = f"{field.description}"
        if choices:
            text += f" One of: {choices}."
        option = typer.Option(f"--{name.replace('_', '-')}", help=text, show_default=False)
        value: Any = TYPES.get(name, str)
        kind = Annotated[value | None, option]
        yield inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def _find_choices(annotation: Any) -> list[str]:
    """List the values of a Literal, or of the Literals in a union."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    choices = []
    for member in get_args(annotation):
        choices += _find_choices(member)
    return choices


@app.callback()
def data() -> None:
    """Inspect your own data, and add them to params.yaml."""


@app.command()
@with_source_options
def check(
    path: PathArgument,
    stated: dict[str, Any],
    sheet: Sheet = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare with what stage generate read, by content.")
    ] = False,
) -> None:
    """Read all pictures of a path and say how they are understood. Options override inference.

    Example: genlab data check ~/photos --sheet photos.png
    """
    if verify:
        return _verify(path)
    source = _make_source(path, stated)
    items = _read(source, sheet)
    if as_json:
        typer.echo(json.dumps(items.summarise(), indent=2))
    else:
        typer.echo("\n".join(items.describe()))
    _require_enough(items)


@app.command()
@with_source_options
def add(
    name: Annotated[str, typer.Argument(help="Name of the dataset: a-z, 0-9 and _.")],
    path: PathArgument,
    stated: dict[str, Any],
    sheet: Sheet = None,
) -> None:
    """Add a path to params.yaml as the dataset that the pipeline runs on.

    Says how it is understood, which model fits its size, and how long training takes here.

    Example: genlab data add my_photos ~/photos
    """
    from genlab.core.params import PARAMS_FILE
    from genlab.datasets.own import add_section
    from genlab.vae.training.estimate import estimate_minutes

    source = _make_source(path, stated)
    items = _read(source, sheet)
    typer.echo("\n".join(items.describe()))
    _require_enough(items)
    params, section = add_section(name, source, items, Path(PARAMS_FILE))
    typer.echo(f"\n{PARAMS_FILE}: datasets: [{name}], and section {name}:\n{section}")
    dataset_params = params.for_dataset(name)
    classes = dataset_params.dataset(name).classes
    minutes = estimate_minutes(dataset_params, items.examples, classes)
    typer.echo(
        f"training takes about {minutes:.0f} minutes here, for {dataset_params.epochs} epochs"
    )
    typer.echo("next: dvc repro, then make report")


def _make_source(path: Path, stated: Mapping[str, Any]) -> SourceParams:
    """Check options. Raises a GenlabError that names the faulty one."""
    from pydantic import ValidationError

    from genlab.core.errors import to_genlab_error

    try:
        return SourceParams.model_validate({"path": str(path), **stated})
    except ValidationError as error:
        raise to_genlab_error(error, "options", SourceParams.model_fields) from error


def _read(source: SourceParams, sheet: Path | None) -> OwnItems:
    """Read a source; draw its contact sheet to the PNG file `sheet`, if given."""
    from genlab.core.io import atomic_write
    from genlab.datasets.own import read_source
    from genlab.datasets.readers.sheet import draw_sheet

    items = read_source(source)
    if sheet is not None:
        with atomic_write(sheet) as temporary:
            draw_sheet(items).save(temporary, "PNG")
        typer.echo(f"contact sheet: {sheet}", err=True)
    return items


def _verify(path: Path) -> None:
    """Read the dataset at a path again; exit with 1 if it differs from what the pipeline read."""
    from genlab.core.params import load_params
    from genlab.datasets.own import compare_content, find_name

    params = load_params()
    name = find_name(params, path)
    differences = compare_content(params, name)
    typer.echo("\n".join(differences) or f"{path}: nothing differs from what {name} was made from")
    if differences:
        raise typer.Exit(1)


def _require_enough(items: OwnItems) -> None:
    from genlab.datasets.own import require_enough

    require_enough(items)
