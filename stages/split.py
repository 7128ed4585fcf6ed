"""Stage split: share the generated grids out to train, val and test, and describe them.

Writes, into data/DATASET/: simplified_dataset_COUNT.npz (keys train, val, test), objects.npz (the
same keys: one row an object) and manifest.json; metrics/DATASET/data.json, the data sheet's
numbers; plots/DATASET/data/sheet.png, its picture. With --output, all of it into that folder.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from genlab.core.artifacts import sha256, write_json, write_npz
from genlab.core.console import GenlabError, guarded
from genlab.core.params import load_params
from genlab.datasets.arc_grids import OBJECTS_FILE, OBJECTS_KIND, file_name, write_splits
from genlab.datasets.datasheet import describe, entropy_facts, picture_facts
from genlab.datasets.generated import read_generated
from genlab.datasets.registry import dataset as find_dataset
from genlab.datasets.splits import shared_grids, split_indices, take_objects
from genlab.measure import figures

PICTURED = 64


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
    """Share the generated grids out to train, val and test, and write their data sheet.

    Example: python stages/split.py --data-path /tmp/grids --output /tmp/split
    """
    find_dataset(dataset)
    params = load_params()
    made = read_generated(data_path or Path("data/generated") / dataset)
    shares = params.grids.val_share, params.grids.test_share
    indices = split_indices(len(made.grids), *shares, params.seed if seed is None else seed)
    splits = {name: made.grids[chosen] for name, chosen in indices.items()}
    tables = {
        name: take_objects(made.objects, chosen, len(made.grids))
        for name, chosen in indices.items()
    }
    shared = shared_grids(splits)
    if shared:
        raise GenlabError(
            f"{made.folder}: {shared} grids stand twice; make it again with stages/generate.py"
        )
    facts: dict[str, Any] = {
        "count": len(made.grids),
        "duplicates_dropped": made.manifest["duplicates_dropped"],
        "duplicates_across_splits": shared,
        **entropy_facts(made.grids, splits["test"], tables["test"], made.program),
        "splits": {name: describe(splits[name], tables[name]) for name in splits},
    }
    data = output or Path("data") / dataset
    file = data / file_name(len(made.grids))
    write_splits(file, splits)
    write_npz(data / OBJECTS_FILE, tables, kind=OBJECTS_KIND)
    manifest = {
        "kind": "split_grids",
        "dataset": dataset,
        "counts": {name: len(grids) for name, grids in splits.items()},
        "objects": {name: len(table) for name, table in tables.items()},
        "duplicates_across_splits": shared,
        "sha256": {path.name: sha256(path) for path in (file, data / OBJECTS_FILE)},
        "generated": made.manifest,
    }
    write_json(data / "manifest.json", manifest)
    write_json((output or Path("metrics") / dataset) / "data.json", facts)
    sheet = (output or Path("plots") / dataset / "data") / "sheet.png"
    figures.data_sheet(sheet, splits["train"][:PICTURED], picture_facts(facts))
    print(f"{file}: " + ", ".join(f"{len(grids)} {name}" for name, grids in splits.items()))


if __name__ == "__main__":
    guarded(lambda: typer.run(split))
