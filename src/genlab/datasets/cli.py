"""`genlab data`: say how a path is understood as a dataset, before anything is computed on it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from PIL import Image

    from genlab.datasets.readers.opening import Pictures

ROWS, COLUMNS, GAP = 12, 12, 2  # of a contact sheet: classes, pictures of each, pixels between them
SHOWN = 64  # least side of a picture on it

app = typer.Typer(no_args_is_help=True, help="Look at data of your own.")
Option = typer.Option


@app.callback()
def data() -> None:
    """Look at data of your own."""


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="Folder, archive or file.")],
    size: Annotated[int | None, Option(help="Side in pixels.")] = None,
    channels: Annotated[str, Option(help="auto, grey or rgb.")] = "auto",
    fit: Annotated[str, Option(help="crop, pad or stretch what is no square.")] = "crop",
    background: Annotated[
        str, Option(help="Behind transparent pixels, beside pictures.")
    ] = "white",
    levels: Annotated[
        tuple[float, float] | None, Option("--range", help="Stored values of black and white.")
    ] = None,
    layout: Annotated[str | None, Option(help="Axes of an array: NHWC or NCHW.")] = None,
    arrays: Annotated[
        tuple[str, str] | None, Option(help="Names of the arrays of pictures and labels.")
    ] = None,
    labels: Annotated[
        str | None, Option(help="Folders that are the class: none, top, leaf or path.")
    ] = None,
    unreadable: Annotated[str | None, Option(help="refuse or skip what cannot be read.")] = None,
    sheet: Annotated[Path | None, Option(help="Write a contact sheet to this PNG file.")] = None,
    as_json: Annotated[bool, Option("--json", help="Print JSON, for programs.")] = False,
) -> None:
    """Read all pictures of a path and say how they are understood. What is not given is found out.

    Example: genlab data check ~/photos --sheet photos.png
    """
    from pydantic import ValidationError

    from genlab.core.errors import invalid
    from genlab.core.io import atomic_write
    from genlab.core.sections import SourceParams
    from genlab.datasets.readers.opening import read_pictures

    options = {
        "path": str(path), "size": size, "channels": channels, "fit": fit, "range": levels,
        "background": background, "layout": layout, "arrays": arrays, "labels": labels,
        "unreadable": unreadable,
    }  # fmt: skip
    try:
        source = SourceParams.model_validate(options)
    except ValidationError as error:
        raise invalid(error, "options", SourceParams.model_fields) from error
    pictures = read_pictures(source)
    if as_json:
        typer.echo(json.dumps(pictures.summarise(), indent=2))
    else:
        typer.echo("\n".join(pictures.describe()))
    if sheet is not None:
        with atomic_write(sheet) as part:
            draw_sheet(pictures).save(part, "PNG")
        typer.echo(f"contact sheet: {sheet}", err=as_json)


def draw_sheet(pictures: Pictures) -> Image.Image:
    """Draw a contact sheet: a row per class, of at most ROWS classes, or rows of any pictures."""
    import numpy as np
    from PIL import Image

    levels, labels = pictures.items.levels, pictures.labels
    if pictures.classes:
        rows = [np.flatnonzero(labels == number) for number in range(len(pictures.classes))]
    else:
        rows = np.array_split(np.arange(len(levels)), min(ROWS, -(-len(levels) // COLUMNS)))
    side = levels.shape[1] * max(1, -(-SHOWN // levels.shape[1]))
    step = side + GAP
    shown = rows[:ROWS]
    columns = min(COLUMNS, max(map(len, shown)))
    image = Image.new("RGB", (columns * step + GAP, len(shown) * step + GAP), "grey")
    for row, members in enumerate(shown):
        spread = np.linspace(0, len(members) - 1, min(columns, len(members))).astype(int)
        for column, index in enumerate(members[spread]):
            pixels = levels[index]
            tile = Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels)
            tile = tile.resize((side, side), Image.Resampling.NEAREST)
            image.paste(tile, (GAP + column * step, GAP + row * step))
    return image
