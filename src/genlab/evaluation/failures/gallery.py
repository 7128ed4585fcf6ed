"""Failure gallery: items that failed, each with the hypothesis that best explains it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from genlab.core.io import read_npz
from genlab.core.params.catalogue import Dataset
from genlab.datasets.arc_grids import load_split
from genlab.datasets.images import load_classes, load_images
from genlab.datasets.own_grids import load_tasks
from genlab.evaluation.failures.error_analysis import rank_tests
from genlab.evaluation.failures.image_hypotheses import MEANING
from genlab.evaluation.failures.sections import (
    Sections,
    grid_sections,
    image_sections,
    own_grid_sections,
)
from genlab.evaluation.figures.boards import paint_grids
from genlab.evaluation.figures.image_grids import make_bands, save_mosaics
from genlab.evaluation.reports import formats

EVALUATE = "dvc repro evaluate"
KEYS = {
    "grids": [
        "predicted", "nats", "margins", "samples", "valid", "object_range", "arc", "arc_tasks",
        "arc_predicted",
    ],
    "own_grids": ["predicted", "nats", "margins", "samples", "sample_errors", "sample_nearest"],
    "images": [
        "predicted", "nats", "samples", "train_distances", "sample_errors", "sample_labels",
        "sample_nearest",
    ],
}  # fmt: skip
"""Arrays of evidence.npz, by family of datasets."""


def build_gallery(dataset: Dataset, data: Path, evidence: Path, count: int) -> Sections:
    """Build the sections of a dataset's gallery.

    data: output of stage split. evidence: `evidence.npz` of stage evaluate. count: number of grids
    in all, or of images of each sort. Raises GenlabError where a file is missing, truncated or
    foreign.
    """
    keys = KEYS[dataset.family]
    arrays = read_npz(evidence, kind="evaluation", keys=keys, producer_command=EVALUATE)
    if dataset.family == "own_grids":
        truth = load_split(data, "test")
        tasks = load_tasks(data, "test")
        return own_grid_sections(truth, tasks, arrays, count)
    if dataset.family == "grids":
        return grid_sections(load_split(data, "test"), arrays, count)
    truth = np.asarray(load_images(data, "test"))
    labels, names = load_classes(data, "test")
    return image_sections(truth, labels, names, arrays, count)


def summarise(sections: Sections, *, bootstrap: int, seed: int) -> dict[str, Any]:
    """Summarise all sections as the content of failures.json: items to show, and tests.

    `nats_rank_correlation` is Spearman's correlation of the nats and the errors of reconstructions,
    None where it is undefined.
    """
    summary: dict[str, Any] = {}
    for prefix, section in sections.items():
        description = section.describe(bootstrap, seed)
        summary |= {f"{prefix}{key}": value for key, value in description.items()}
    errors = sections[""].errors
    nats = sections[""].scores.get("nats")
    correlation = None
    if nats is not None and np.ptp(nats) > 0 and np.ptp(errors) > 0:
        correlation = float(spearmanr(errors, nats).statistic)
    return {**summary, "nats_rank_correlation": correlation}


def render_page(title: str, summary: Mapping[str, Any], sections: Sections) -> str:
    """Render the gallery as an HTML page without other files. summary: see `summarise`."""
    images = any(pictures.ndim == 4 for pictures in sections[""].pictures.values())
    return formats.load_template("gallery.html.j2", ranked=rank_tests).render(
        title=title, meaning=MEANING if images else {}, sections=sections, summary=summary
    )


def draw_sheet(path: Path, sections: Sections) -> None:
    """Save the pictures of all items as one PNG, each with its first score."""
    mosaics = []
    for section in sections.values():
        name, column = next(iter(section.scores.items()))
        rows = {}
        for caption, pictures in section.pictures.items():
            images = pictures[section.order]
            if images.ndim == 3:
                outlined = section.outlined.get(caption)
                flags = None if outlined is None else outlined[section.order]
                images = paint_grids(images, flags)
            rows[caption.replace(" ", "\n")] = images
        notes = [formats.format_number(column[index].item()) for index in section.order]
        mosaics += make_bands(f"{section.title} ({name} below each)", rows, notes)
    save_mosaics(path, mosaics)
