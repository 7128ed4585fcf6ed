"""Stage split: split a dataset into train, val and test, and describe it.

Writes, into data/DATASET/, for grids: simplified_dataset_COUNT.npz (keys train, val, test) and
objects.npz (the same keys: one row per object); for images: train.npy, val.npy, test.npy and
labels.npz (the same keys); and manifest.json. Then results/DATASET/data.json, the data sheet's
numbers; plots/DATASET/data/sheet.png, its picture. With --output, all of it into that folder.
"""

from pathlib import Path

from pydantic import Field

from genlab.core.errors import run_cli
from genlab.core.io import write_json
from genlab.core.params.options import DatasetOptions, overridable, parse_options
from genlab.datasets.splitting import split
from genlab.evaluation import figures


class Options(DatasetOptions, overridable("seed")):
    """Split a generated dataset into train, val and test, and write its data sheet.

    Example: python stages/split.py --data-path /tmp/grids --output /tmp/split
    """

    data_path: Path = Field(
        Path("data/generated/DATASET"), description="Folder written by stage generate."
    )


def main() -> None:
    """Run the stage."""
    options = parse_options(Options)
    params = options.params
    dataset = params.dataset(options.dataset)
    data = options.output_path("data/DATASET")
    summary = split(dataset.name, params, options.data_path, data, params.seed)
    write_json(options.output_path("results/DATASET", "data.json"), summary.facts)
    sheet = options.output_path("plots/DATASET/data", "sheet.png")
    if dataset.kind == "grids":
        figures.draw_data_sheet(sheet, summary.examples, summary.captions)
    else:
        figures.draw_image_sheet(sheet, summary.examples, summary.captions, dataset.title)
    print(f"{data}: " + ", ".join(f"{count} {name}" for name, count in summary.counts.items()))


if __name__ == "__main__":
    run_cli(main)
