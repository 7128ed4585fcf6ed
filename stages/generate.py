"""Stage generate: draw the grids of a data set and write them with their objects.

Writes, into data/generated/DATASET/ or --output: grids.npz (key `grids`, uint8 (n, size, size)),
objects.npz (key `objects`: one row an object) and manifest.json (program, seed, counts, checksum).
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genlab.core.console import guarded
from genlab.core.params import load_params
from genlab.datasets.arc_grids import program_of
from genlab.datasets.generated import write_generated
from genlab.datasets.registry import dataset as find_dataset


def generate(
    dataset: Annotated[str, typer.Option(help="Data set to make.")] = "arc_grids",
    output: Annotated[
        Path | None, typer.Option(help="Folder to write to. (default: data/generated/DATASET)")
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Grids to draw. (default: grids.count)")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed. (default: seed)")] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes; any number gives the same. (default: grids.workers)"),
    ] = None,
) -> None:
    """Draw the grids of a data set; what isn't given here comes from params.yaml.

    Example: python stages/generate.py --output /tmp/grids --count 2000 --seed 1
    """
    chosen = find_dataset(dataset)
    params = load_params()
    folder = output or Path("data/generated") / dataset
    count = params.grids.count if count is None else count
    seed = params.seed if seed is None else seed
    program = program_of(params.grids)
    draw = chosen.generate(program, count, seed, workers or params.grids.workers)
    write_generated(folder, draw, program, dataset, seed)
    print(
        f"{folder}: {count} different grids, {len(draw.objects)} objects"
        f" ({draw.duplicates} duplicates dropped)"
    )


if __name__ == "__main__":
    guarded(lambda: typer.run(generate))
