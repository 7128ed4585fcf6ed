"""Stage generate: make the items of a data set: draw grids, or read images from their source.

Writes, into data/generated/DATASET/ or --output, for grids: grids.npz (key `grids`, uint8
(n, size, size)), objects.npz (key `objects`: one row an object); for images: train.npy and test.npy
(all.npy where there is no official test split; uint8 (n, height, width, channels)), labels.npz; and
manifest.json (where it comes from, counts, checksums).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genlab.core.errors import run_cli
from genlab.core.params import load_params
from genlab.datasets.registry import find_dataset


def generate(
    dataset: Annotated[str, typer.Option(help="Data set to make.")] = "arc_grids",
    output: Annotated[
        Path | None, typer.Option(help="Folder to write to. (default: data/generated/DATASET)")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Grids to draw. (default: grids.count)")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed. (default: seed)")] = None,
) -> None:
    """Make the items of a data set; what isn't given here comes from params.yaml.

    Example: python stages/generate.py --output /tmp/grids --count 2000 --seed 1
    """
    chosen = find_dataset(dataset)
    folder = output or Path("data/generated") / dataset
    print(chosen.generate(load_params(), folder, count=count, seed=seed))


if __name__ == "__main__":
    run_cli(lambda: typer.run(generate))
