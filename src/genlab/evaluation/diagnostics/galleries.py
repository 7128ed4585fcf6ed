"""The gallery of failures of a run: evidence that evaluate left, as numbers and as a page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from genlab.core.io import read_npz
from genlab.datasets.arc_grids import load_objects, load_split
from genlab.datasets.image_files import load_images, load_labels
from genlab.datasets.registry import Dataset
from genlab.evaluation.diagnostics import gallery, image_gallery

EVALUATE = "dvc repro evaluate"
KEYS = ["predicted", "nats", "samples"]
IMAGE_KEYS = [*KEYS, "train_distances", "sample_errors", "sample_labels", "sample_nearest"]


def show_grids(
    dataset: Dataset, data: Path, evidence: Path, *, count: int, bootstrap: int, seed: int
) -> tuple[dict[str, Any], str]:
    """(failures.json, the page) of a grid dataset."""
    found = read_npz(evidence, kind="evaluation", keys=KEYS, producer_command=EVALUATE)
    summary = gallery.summary(
        load_split(data, "test"),
        found["predicted"],
        found["nats"],
        load_objects(data, "test"),
        found["samples"],
        count=count,
        bootstrap=bootstrap,
        seed=seed,
    )
    return summary, gallery.page(f"What fails: {dataset.title}", summary)


def show_images(
    dataset: Dataset, data: Path, evidence: Path, *, count: int, bootstrap: int, seed: int
) -> tuple[dict[str, Any], str]:
    """(failures.json, the page) of an image dataset."""
    found = read_npz(evidence, kind="evaluation", keys=IMAGE_KEYS, producer_command=EVALUATE)
    pairs = image_gallery.Reconstructions(
        np.asarray(load_images(data, "test")),
        found["predicted"],
        load_labels(data, "test"),
        nats=found["nats"],
        train_distances=found["train_distances"],
    )
    samples = image_gallery.Samples(
        found["samples"], found["sample_nearest"], found["sample_errors"], found["sample_labels"]
    )
    summary = image_gallery.summary(
        pairs, samples, dataset.labels, count=count, bootstrap=bootstrap, seed=seed
    )
    title = f"What fails: {dataset.title}"
    return summary, image_gallery.page(title, summary, pairs, samples)
