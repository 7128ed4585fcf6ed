"""`genlab data`: say how a path is understood as a dataset, and make it one of params.yaml."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from genlab.core.sections import SourceParams
    from genlab.datasets.own import Items

app = typer.Typer(no_args_is_help=True, help="Look at data of your own, and add them.")

PathArgument = Annotated[Path, typer.Argument(help="Folder, archive or file.")]
Kind = Annotated[str | None, typer.Option(help="images or grids, where a path may be either.")]
Size = Annotated[int | None, typer.Option(help="Side in pixels, or of a grid's canvas in cells.")]
Channels = Annotated[str | None, typer.Option(help="auto, grey or rgb.")]
Fit = Annotated[str | None, typer.Option(help="crop, pad or stretch what is no square.")]
Background = Annotated[
    str | None, typer.Option(help="Behind transparent pixels, beside pictures: white.")
]
Range = Annotated[
    tuple[float, float] | None, typer.Option("--range", help="Stored values of black and white.")
]
Layout = Annotated[str | None, typer.Option(help="Axes of an array: NHWC or NCHW.")]
Arrays = Annotated[
    tuple[str, str] | None, typer.Option(help="Names of the arrays of pictures and labels.")
]
Labels = Annotated[
    str | None,
    typer.Option(help="Folders that are the class: none, top, leaf or path; or a column."),
]
Frames = Annotated[str | None, typer.Option(help="first or all frames of an animation.")]
Group = Annotated[
    str | None,
    typer.Option(help="Pattern of file names; pictures with equal matches share a split."),
]
Duplicates = Annotated[str | None, typer.Option(help="keep or drop all but one of equal pictures.")]
Unreadable = Annotated[str | None, typer.Option(help="refuse or skip what cannot be read.")]
Sheet = Annotated[Path | None, typer.Option(help="Write a contact sheet to this PNG file.")]


@app.callback()
def data() -> None:
    """Look at data of your own, and add them to params.yaml."""


@app.command()
def check(
    path: PathArgument,
    kind: Kind = None,
    size: Size = None,
    channels: Channels = None,
    fit: Fit = None,
    background: Background = None,
    levels: Range = None,
    layout: Layout = None,
    arrays: Arrays = None,
    labels: Labels = None,
    frames: Frames = None,
    group: Group = None,
    duplicates: Duplicates = None,
    unreadable: Unreadable = None,
    sheet: Sheet = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare with what stage generate read, by content.")
    ] = False,
) -> None:
    """Read all pictures of a path and say how they are understood. What is not given is found out.

    Example: genlab data check ~/photos --sheet photos.png
    """
    if verify:
        return _verify(path)
    source = _make_source(
        path=str(path), kind=kind, size=size, channels=channels, fit=fit, range=levels,
        background=background, layout=layout, arrays=arrays, labels=labels, frames=frames,
        group=group, duplicates=duplicates, unreadable=unreadable,
    )  # fmt: skip
    items = _read(source, sheet)
    if as_json:
        typer.echo(json.dumps(items.summarise(), indent=2))
    else:
        typer.echo("\n".join(items.describe()))
    _require_enough(items)


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="Name of the dataset: a-z, 0-9 and _.")],
    path: PathArgument,
    kind: Kind = None,
    size: Size = None,
    channels: Channels = None,
    fit: Fit = None,
    background: Background = None,
    levels: Range = None,
    layout: Layout = None,
    arrays: Arrays = None,
    labels: Labels = None,
    frames: Frames = None,
    group: Group = None,
    duplicates: Duplicates = None,
    unreadable: Unreadable = None,
    sheet: Sheet = None,
) -> None:
    """Make a path a dataset of params.yaml, and the one that the pipeline runs over.

    Says how it is understood, which model fits its size, and how long training takes here.

    Example: genlab data add my_photos ~/photos
    """
    from genlab.core.params import PARAMS_FILE
    from genlab.datasets.own import add_section
    from genlab.vae.training.estimate import estimate_minutes

    source = _make_source(
        path=str(path), kind=kind, size=size, channels=channels, fit=fit, range=levels,
        background=background, layout=layout, arrays=arrays, labels=labels, frames=frames,
        group=group, duplicates=duplicates, unreadable=unreadable,
    )  # fmt: skip
    items = _read(source, sheet)
    typer.echo("\n".join(items.describe()))
    _require_enough(items)
    params, section = add_section(name, source, items, Path(PARAMS_FILE))
    typer.echo(f"\n{PARAMS_FILE}: datasets: [{name}], and section {name}:\n{section}")
    own = params.for_dataset(name)
    minutes = estimate_minutes(own, items.examples, own.dataset(name).classes)
    typer.echo(f"training takes about {minutes:.0f} minutes here, for {own.epochs} epochs")
    typer.echo("next: dvc repro, then make report")


def _make_source(**options: Any) -> SourceParams:
    """Check options. Raises GenlabError that names the faulty one."""
    from pydantic import ValidationError

    from genlab.core.errors import invalid
    from genlab.core.sections import SourceParams

    given = {key: value for key, value in options.items() if value is not None}
    try:
        return SourceParams.model_validate(given)
    except ValidationError as error:
        raise invalid(error, "options", SourceParams.model_fields) from error


def _read(source: SourceParams, sheet: Path | None) -> Items:
    """Read a source; draw its contact sheet where one is asked for."""
    from genlab.core.io import atomic_write
    from genlab.datasets.own import read_source
    from genlab.datasets.readers.sheet import draw_sheet

    items = read_source(source)
    if sheet is not None:
        with atomic_write(sheet) as part:
            draw_sheet(items).save(part, "PNG")
        typer.echo(f"contact sheet: {sheet}", err=True)
    return items


def _verify(path: Path) -> None:
    """Read the dataset of params.yaml that lies at a path again; exit with 1 where it differs."""
    from genlab.core.params import load_params
    from genlab.datasets.own import compare_content, find_name

    params = load_params()
    name = find_name(params, path)
    differences = compare_content(params, name)
    typer.echo("\n".join(differences) or f"{path}: the pictures that {name} was made from")
    if differences:
        raise typer.Exit(1)


def _require_enough(items: Items) -> None:
    from genlab.datasets.own import require_enough

    require_enough(items)
