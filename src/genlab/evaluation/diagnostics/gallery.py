"""The failure gallery: the worst reconstructions and samples, each with its likeliest reason."""

from __future__ import annotations

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy.stats import spearmanr

from genlab.core.io import read_npz
from genlab.datasets.arc_grids import load_split
from genlab.datasets.images import load_images, load_labels
from genlab.datasets.registry import Dataset
from genlab.evaluation.diagnostics import grid_attributes as of_grids
from genlab.evaluation.diagnostics import image_attributes as of_images
from genlab.evaluation.diagnostics.error_analysis import (
    Column,
    Hypothesis,
    Test,
    compare,
    explain,
    ranked,
)
from genlab.evaluation.figures.boards import paint_grids
from genlab.evaluation.metrics.fidelity import mse
from genlab.evaluation.metrics.reconstruction import wrong_cells
from genlab.evaluation.reports import formats
from genlab.grids.parser import find_components

Items = npt.NDArray[np.uint8]

EVALUATE = "dvc repro evaluate"
GRID_KEYS = ["predicted", "nats", "samples"]
IMAGE_KEYS = [*GRID_KEYS, "train_distances", "sample_errors", "sample_labels", "sample_nearest"]
MIN_WRONG = 0.01
"""Share of wrong grids below which nats are the better measure of what is hard."""


@dataclass(frozen=True, eq=False)
class Section:
    """Items of one sort, reconstructions or samples, and how badly each failed; n of them.

    order: the indices of those to show, worst first. scores: {name: (n,)}, shown beside an item.
    errors: (n,), what hypotheses are tested on, within strata: (n,). pictures: {caption: (n, ...)}.
    details: more about an item.
    """

    order: Column
    scores: Mapping[str, Column]
    error_name: str
    errors: Column
    strata: Column
    hypotheses: Sequence[Hypothesis]
    pictures: Mapping[str, Items]
    details: Callable[[int], dict[str, Any]] = field(default=lambda index: {})

    def describe(self, tests: Sequence[Test]) -> list[dict[str, Any]]:
        """Entries of failures.json; `also` names further supported hypotheses."""
        items = []
        for index in self.order.tolist():
            reasons = [test["name"] for test in explain(index, self.hypotheses, tests)]
            items.append(
                {
                    "index": index,
                    "scores": {name: column[index].item() for name, column in self.scores.items()},
                    "hypothesis": reasons[0] if reasons else None,
                    "also": reasons[1:],
                    **self.details(index),
                }
            )
        return items


def build_gallery(
    dataset: Dataset, data: Path, evidence: Path, *, count: int, bootstrap: int, seed: int
) -> tuple[dict[str, Any], str]:
    """The gallery of a dataset: failures.json and the page.

    data: of the stage split. evidence: `evidence.npz` of the stage evaluate. count: items of each
    sort. Raises GenlabError where a file is missing, truncated or foreign.
    """
    keys = GRID_KEYS if dataset.kind == "grids" else IMAGE_KEYS
    arrays = read_npz(evidence, kind="evaluation", keys=keys, producer_command=EVALUATE)
    nats = None
    if dataset.kind == "grids":
        sections = grid_sections(load_split(data, "test"), arrays, count)
    else:
        truth, labels = np.asarray(load_images(data, "test")), load_labels(data, "test")
        sections = image_sections(truth, labels, dataset.labels, arrays, count)
        nats = arrays["nats"]
    summary = summarise(*sections, nats=nats, bootstrap=bootstrap, seed=seed)
    return summary, page(f"What fails: {dataset.title}", summary, sections)


def summarise(
    real: Section, samples: Section, *, nats: Column | None, bootstrap: int, seed: int
) -> dict[str, Any]:
    """failures.json: the worst items of both sections, and the tests over all items.

    nats: (n,) -log p(x|z) of the reconstructions. `nats_rank_correlation` is Spearman's between
    them and the errors, None where it is undefined.
    """

    def test(section: Section) -> list[Test]:
        strata, claims = section.strata, section.hypotheses
        return compare(section.errors, strata, claims, bootstrap=bootstrap, seed=seed)

    tests, sample_tests = test(real), test(samples)
    known = nats is not None and np.ptp(nats) > 0 and np.ptp(real.errors) > 0
    return {
        "error": real.error_name,
        "n": len(real.errors),
        "items": real.describe(tests),
        "tests": tests,
        "nats_rank_correlation": float(spearmanr(real.errors, nats).statistic) if known else None,
        "sample_error": samples.error_name,
        "sample_n": len(samples.errors),
        "sample_items": samples.describe(sample_tests),
        "sample_tests": sample_tests,
    }


def grid_sections(
    truth: Items, arrays: Mapping[str, Column], count: int
) -> tuple[Section, Section]:
    """Sections of test grids (n, h, w) and of samples (m, h, w).

    Reconstructions are ordered by wrong cells, then by nats: where fewer grids are wrong than are
    shown, exact ones follow that the model was least sure of. Samples without a stray cell are not
    shown.
    """
    predicted, samples = arrays["predicted"], arrays["samples"]
    wrong = wrong_cells(truth, predicted)
    stray = find_components(samples).stray.sum(axis=(1, 2))
    nats = np.asarray(arrays["nats"], dtype=np.float64)
    few = np.count_nonzero(wrong) < MIN_WRONG * len(truth)
    objects, hypotheses = of_grids.grid_hypotheses(truth)
    real = Section(
        order=np.lexsort((-nats, -wrong))[:count],
        scores={"wrong cells": wrong, "nats": nats},
        error_name="nats" if few else "wrong cells",
        errors=nats if few else wrong,
        strata=objects,
        hypotheses=hypotheses,
        pictures={"input": truth, "reconstruction": predicted},
    )
    worst = np.argsort(-stray, kind="stable")[:count]
    objects, hypotheses = of_grids.grid_hypotheses(samples)
    return real, Section(
        order=worst[stray[worst] > 0],
        scores={"stray cells": stray},
        error_name="stray cells",
        errors=stray,
        strata=objects,
        hypotheses=hypotheses,
        pictures={"sample": samples},
        details=lambda index: {"faults": of_grids.faults(samples[index])},
    )


def image_sections(
    truth: Items,
    labels: Column,
    names: Sequence[str],
    arrays: Mapping[str, Column],
    count: int,
) -> tuple[Section, Section]:
    """Sections of test images (n, h, w, c), with their labels (n,), and of samples (m, h, w, c).

    Samples are ordered by their distance to the nearest training image in a classifier's features;
    their class is the classifier's, their atypicality the distance from the test images' means.
    """
    predicted, samples, seen = arrays["predicted"], arrays["samples"], arrays["sample_labels"]
    errors, distances = mse(truth, predicted), np.asarray(arrays["sample_errors"], np.float64)
    centres = of_images.class_means(truth, labels, len(names))
    measured = of_images.measure_attributes(truth, labels, centres)
    measured["train_distance"] = arrays["train_distances"]
    of_samples = of_images.measure_attributes(samples, seen, centres)
    unlike = {"subject": "samples", "verb": "are unlike any training image"}
    real = Section(
        order=np.argsort(-errors, kind="stable")[:count],
        scores={"mse": errors, "nats": arrays["nats"]},
        error_name="mse",
        errors=errors,
        strata=labels,
        hypotheses=of_images.image_hypotheses(measured, labels, names),
        pictures={"input": truth, "reconstruction": predicted},
        details=lambda index: {"class": names[labels[index]]},
    )
    return real, Section(
        order=np.argsort(-distances, kind="stable")[:count],
        scores={"feature distance": distances},
        error_name="feature distance",
        errors=distances,
        strata=seen,
        hypotheses=of_images.image_hypotheses(of_samples, seen, names, **unlike),
        pictures={"sample": samples, "nearest training image": arrays["sample_nearest"]},
        details=lambda index: {"class": names[seen[index]]},
    )


def page(title: str, summary: Mapping[str, Any], sections: tuple[Section, Section]) -> str:
    """The gallery as one HTML page that needs no other file. summary, sections: see `summarise`."""
    return formats.template("gallery.html.j2", tile=tile, ranked=ranked).render(
        title=title,
        meaning=of_images.MEANING if sections[0].pictures["input"].ndim == 4 else {},
        pictures=[section.pictures for section in sections],
        **summary,
    )


def tile(item: npt.ArrayLike, truth: npt.ArrayLike | None = None) -> str:
    """An image (h, w, c) or a grid (h, w) as a PNG data URI.

    Cells of a grid that differ from `truth` are outlined in white.
    """
    picture = np.asarray(item, dtype=np.uint8)
    if picture.ndim == 2:
        wrong = None if truth is None else (picture != np.asarray(truth))[None]
        picture = paint_grids(picture[None], wrong)[0]
    buffer = io.BytesIO()
    Image.fromarray(picture.squeeze()).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
