"""Stage split: share a data set out to train, val and test, and describe it.

Writes, into data/DATASET/, for grids: simplified_dataset_COUNT.npz (keys train, val, test) and
objects.npz (the same keys: one row an object); for images: train.npy, val.npy, test.npy and
labels.npz (the same keys); and manifest.json. Then results/DATASET/data.json, the data sheet's
numbers; plots/DATASET/data/sheet.png, its picture. With --output, all of it into that folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params import load_params
from genlab.datasets.registry import find_dataset
from genlab.evaluation import figures


def split(
    dataset: Annotated[str, typer.Option(help="Data set to share out.")] = "arc_grids",
    data_path: Annotated[
        Path | None,
        typer.Option(help="Folder that stage generate wrote. (default: data/generated/DATASET)"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for all outputs. (default: data/, metrics/ and plots/DATASET)"),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed. (default: seed)")] = None,
) -> None:
    """Share a generated data set out to train, val and test, and write its data sheet.

    Example: python stages/split.py --data-path /tmp/grids --output /tmp/split
    """
    chosen = find_dataset(dataset)
    params = load_params()
    source, data = data_path or Path("data/generated") / dataset, output or Path("data") / dataset
    summary = chosen.split(params, source, data, params.seed if seed is None else seed)
    write_json((output or Path("results") / dataset) / "data.json", summary.facts)
    sheet = (output or Path("plots") / dataset / "data") / "sheet.png"
    if chosen.kind == "grids":
        figures.data_sheet(sheet, summary.examples, summary.captions)
    else:
        figures.image_sheet(sheet, summary.examples, summary.captions, chosen.title)
    print(f"{data}: " + ", ".join(f"{count} {name}" for name, count in summary.counts.items()))


if __name__ == "__main__":
    run_cli(lambda: typer.run(split))
