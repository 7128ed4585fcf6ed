"""The error of a missing dataset names the command that makes it."""

from pathlib import Path

import pytest
from refusals import refused

from genlab.core.io import write_json
from genlab.datasets.arc_grids import load_split
from genlab.datasets.images import load_images


@pytest.mark.parametrize(
    ("load", "place", "command"),
    [
        (load_split, "data/arc_grids", "dvc repro split@arc_grids"),
        (load_split, "data/arc_grids/mine.npz", "dvc repro split@arc_grids"),
        (load_images, "data/fashion_mnist", "dvc repro split@fashion_mnist"),
        (load_images, "data/mnist", "python stages/split.py --dataset mnist"),
        (load_split, "mine.npz", "python stages/split.py --dataset arc_grids"),
        (load_images, "elsewhere/fashion_mnist", "python stages/split.py --dataset fashion_mnist"),
    ],
)
def test_where_the_pipeline_makes_a_dataset_its_stage_is_named(
    load, place, command, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    for name in ("arc_grids", "fashion_mnist"):  # what stage params writes
        write_json(f"results/{name}/params.json", {})
    with refused(fix=command):
        load(Path(place), "train")
