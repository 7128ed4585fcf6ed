"""The failure gallery: items that failed, each with its likeliest reason."""

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
from genlab.core.params.catalogue import Dataset
from genlab.datasets.arc_grids import load_split
from genlab.datasets.images import load_classes, load_images
from genlab.datasets.own_grids import load_tasks
from genlab.evaluation.failures import grid_attributes as of_grids
from genlab.evaluation.failures import image_attributes as of_images
from genlab.evaluation.failures import own_grid_attributes as of_own_grids
from genlab.evaluation.failures.error_analysis import (
    Column,
    Flags,
    Hypothesis,
    compare,
    explain,
    rank_tests,
)
from genlab.evaluation.figures.boards import paint_grids
from genlab.evaluation.figures.image_grids import make_bands, save_mosaics
from genlab.evaluation.metrics.fidelity import mse
from genlab.evaluation.metrics.reconstruction import wrong_cells
from genlab.evaluation.reports import formats
from genlab.grids.parser import find_components

Items = npt.NDArray[np.uint8]

EVALUATE = "dvc repro evaluate"
COUNT = "no stray cell, but a number of objects that the data do not have"
KEYS = {
    "grids": [
        "predicted", "nats", "margins", "samples", "valid", "arc", "arc_tasks", "arc_predicted",
    ],
    "own_grids": ["predicted", "nats", "margins", "samples", "sample_errors", "sample_nearest"],
    "images": [
        "predicted", "nats", "samples", "train_distances", "sample_errors", "sample_labels",
        "sample_nearest",
    ],
}  # fmt: skip
"""Arrays of evidence.npz."""


@dataclass(frozen=True, eq=False)
class GallerySection:
    """Items of one sort and how badly each failed; n of them.

    item: what one is called. order: the indices of those to show. scores: {name: (n,)}, shown
    beside an item. errors: (n,), what hypotheses are tested on, within strata: (n,), by resamples
    of items, or of groups: (n,). pictures:
    {caption: (n, ...)}. outlined: {caption: (n, h, w)}, cells of grids. details: more about an
    item.
    """

    title: str
    item: str
    order: Column
    scores: Mapping[str, Column]
    pictures: Mapping[str, Items]
    error_name: str = ""
    errors: Column = field(default_factory=lambda: np.zeros(0))
    strata: Column = field(default_factory=lambda: np.zeros(0))
    hypotheses: Sequence[Hypothesis] = ()
    groups: Column | None = None
    outlined: Mapping[str, Flags] = field(default_factory=dict)
    details: Callable[[int], dict[str, Any]] = field(default=lambda index: {})

    def describe(self, bootstrap: int, seed: int) -> dict[str, Any]:
        """The number of items, those to show, and the tests over all of them.

        `also` names further supported hypotheses.
        """
        items, tests, claims = [], [], self.hypotheses
        if claims:
            options = {"bootstrap": bootstrap, "seed": seed}
            tests = compare(self.errors, self.strata, claims, groups=self.groups, **options)
        for index in self.order.tolist():
            reasons = [test["name"] for test in explain(index, claims, tests)]
            items.append(
                {
                    "index": index,
                    "scores": {name: column[index].item() for name, column in self.scores.items()},
                    "hypothesis": reasons[0] if reasons else None,
                    "also": reasons[1:],
                    **self.details(index),
                }
            )
        n = len(next(iter(self.scores.values())))
        return {"error": self.error_name, "n": n, "items": items, "tests": tests}

    def tile(self, caption: str, index: int) -> str:
        """A picture of an item as a PNG data URI."""
        outlined = self.outlined.get(caption)
        return encode_png(
            self.pictures[caption][index], None if outlined is None else outlined[index]
        )


Sections = Mapping[str, GallerySection]
"""Sections of a gallery in the order of the page, by the prefix of their keys in failures.json."""


def build_gallery(dataset: Dataset, data: Path, evidence: Path, count: int) -> Sections:
    """The gallery of a dataset.

    data: of the stage split. evidence: `evidence.npz` of the stage evaluate. count: grids in all,
    or images of each sort. Raises GenlabError where a file is missing, truncated or foreign.
    """
    keys = KEYS[dataset.family]
    arrays = read_npz(evidence, kind="evaluation", keys=keys, producer_command=EVALUATE)
    if dataset.family == "own_grids":
        truth, tasks = load_split(data, "test"), load_tasks(data, "test")
        return own_grid_sections(truth, tasks, arrays, count)
    if dataset.family == "grids":
        return grid_sections(load_split(data, "test"), arrays, count)
    truth, (labels, names) = np.asarray(load_images(data, "test")), load_classes(data, "test")
    return image_sections(truth, labels, names, arrays, count)


def summarise(sections: Sections, *, bootstrap: int, seed: int) -> dict[str, Any]:
    """failures.json: the items to show of every section, and the tests over all of its items.

    `nats_rank_correlation` is Spearman's between the nats and the errors of reconstructed images,
    None where it is undefined.
    """
    real, summary = sections[""], dict[str, Any]()
    for prefix, section in sections.items():
        found = section.describe(bootstrap, seed)
        summary |= {f"{prefix}{key}": value for key, value in found.items()}
    nats, errors = real.scores.get("nats"), real.errors
    known = nats is not None and np.ptp(nats) > 0 and np.ptp(errors) > 0
    correlation = float(spearmanr(errors, nats).statistic) if known else None
    return {**summary, "nats_rank_correlation": correlation}


def grid_sections(truth: Items, arrays: Mapping[str, Column], count: int) -> Sections:
    """Invalid samples, ARC-AGI grids that are not reconstructed, test grids of small margin.

    truth: (n, h, w), the test split. Half of the `count` grids are samples, a quarter ARC-AGI
    grids; where fewer fail, more test grids are shown.
    """
    samples, arc = arrays["samples"], arrays["arc"]
    found = find_components(samples)
    stray, invalid = found.stray.sum(axis=(1, 2)), ~arrays["valid"]
    valid_objects = np.bincount(found.legal["grid"], minlength=len(samples))
    shown = _range(np.where(invalid, 1 + stray, 0), count // 2)
    wrong = wrong_cells(arc, arrays["arc_predicted"])
    shown_arc = _range(wrong, count // 4)
    objects, hypotheses = of_grids.grid_hypotheses(samples)
    # A component has a kind only where it is valid.
    hypotheses = [each for each in hypotheses if not each.name.startswith("kind_")]
    arc_objects, arc_hypotheses = of_grids.grid_hypotheses(arc)
    rest = count - len(shown) - len(shown_arc)
    return {
        "sample_": GallerySection(
            f"Invalid samples: {np.count_nonzero(invalid)} of {len(samples)}",
            "sample",
            shown,
            {"stray cells": stray, "valid objects": valid_objects},
            {"sample": samples},
            "invalid",
            invalid,
            objects,
            hypotheses,
            None,
            {"sample": found.stray},
            lambda index: {"faults": of_grids.describe_faults(samples[index]) or [COUNT]},
        ),
        "": GallerySection(
            f"ARC-AGI grids that are not exact: {np.count_nonzero(wrong)} of {len(arc)}",
            "ARC-AGI grid",
            shown_arc,
            {"wrong cells": wrong},
            {"input": arc, "reconstruction": arrays["arc_predicted"]},
            "not exact",
            wrong > 0,
            arc_objects,
            arc_hypotheses,
            arrays["arc_tasks"],
            {"reconstruction": arc != arrays["arc_predicted"]},
        ),
        "margin_": _margin_section(truth, arrays, rest),
    }


def own_grid_sections(
    truth: Items, tasks: Column, arrays: Mapping[str, Column], count: int
) -> Sections:
    """Test grids (n, h, w) with most wrong cells, and samples furthest from training grids."""
    predicted, samples = arrays["predicted"], arrays["samples"]
    wrong = wrong_cells(truth, predicted)
    strata, hypotheses = of_own_grids.own_grid_hypotheses(truth)
    far = arrays["sample_errors"]
    return {
        "": GallerySection(
            f"Test grids that are not exact: {np.count_nonzero(wrong)} of {len(truth)}",
            "test grid",
            _range(wrong, count),
            {"wrong cells": wrong, "nats": arrays["nats"]},
            {"input": truth, "reconstruction": predicted},
            "wrong cells",
            wrong,
            strata,
            hypotheses,
            tasks,
            {"reconstruction": truth != predicted},
        ),
        "sample_": GallerySection(
            "Samples furthest from the training grids",
            "sample",
            order=np.argsort(-far, kind="stable")[:count],
            scores={"cells that differ": far},
            pictures={"sample": samples, "nearest training grid": arrays["sample_nearest"]},
        ),
    }


def _margin_section(truth: Items, arrays: Mapping[str, Column], count: int) -> GallerySection:
    """Test grids in the order of their margins: wrong ones, if any, come first."""
    predicted, margins = arrays["predicted"], arrays["margins"]
    wrong = wrong_cells(truth, predicted)
    sort = "Exact test grids" if not wrong.any() else f"Test grids, {(wrong > 0).sum()} not exact,"
    return GallerySection(
        f"{sort} with the smallest margins",
        "test grid",
        np.argsort(margins, kind="stable")[:count],
        {"margin": margins, "wrong cells": wrong, "nats": arrays["nats"]},
        {"input": truth, "reconstruction": predicted},
        outlined={"reconstruction": truth != predicted},
    )


def _range(badness: Column, count: int) -> Column:
    """Indices of `count` items with badness above 0, evenly spaced from the worst down."""
    failed = np.argsort(-badness, kind="stable")[: np.count_nonzero(badness)]
    places = np.linspace(0, len(failed) - 1, min(count, len(failed))).round().astype(int)
    return np.asarray(failed[places])


def image_sections(
    truth: Items,
    labels: Column,
    names: Sequence[str],
    arrays: Mapping[str, Column],
    count: int,
) -> Sections:
    """Sections of test images (n, h, w, c), with their labels (n,), and of samples (m, h, w, c).

    Samples are ordered by their distance to the nearest training image in a classifier's features;
    their class is that image's, their atypicality the distance from the test images' means.
    """
    predicted, samples, seen = arrays["predicted"], arrays["samples"], arrays["sample_labels"]
    errors, distances = mse(truth, predicted), np.asarray(arrays["sample_errors"], np.float64)
    seen = np.where(seen < 0, len(names) - 1, seen)
    centres = of_images.class_means(truth, labels, len(names))
    measured = of_images.measure_attributes(truth, labels, centres)
    measured["train_distance"] = arrays["train_distances"]
    of_samples = of_images.measure_attributes(samples, seen, centres)
    unlike = {"subject": "samples", "verb": "are further from the training images"}
    real = GallerySection(
        "Worst reconstructions",
        "test image",
        order=np.argsort(-errors, kind="stable")[:count],
        scores={"mse": errors, "nats": arrays["nats"]},
        error_name="mse",
        errors=errors,
        strata=labels,
        hypotheses=of_images.image_hypotheses(measured, labels, names),
        pictures={"input": truth, "reconstruction": predicted},
        details=lambda index: {"class": names[labels[index]]},
    )
    drawn = GallerySection(
        "Samples furthest from the training images",
        "sample",
        order=np.argsort(-distances, kind="stable")[:count],
        scores={"feature distance": distances},
        error_name="feature distance",
        errors=distances,
        strata=seen,
        hypotheses=of_images.image_hypotheses(of_samples, seen, names, **unlike),
        pictures={"sample": samples, "nearest training image": arrays["sample_nearest"]},
        details=lambda index: {"class": names[seen[index]]},
    )
    return {"": real, "sample_": drawn}


def render_page(title: str, summary: Mapping[str, Any], sections: Sections) -> str:
    """The gallery as one HTML page that needs no other file. summary: see `summarise`."""
    images = any(pictures.ndim == 4 for pictures in sections[""].pictures.values())
    return formats.load_template("gallery.html.j2", ranked=rank_tests).render(
        title=title, meaning=of_images.MEANING if images else {}, sections=sections, found=summary
    )


def draw_sheet(path: Path, sections: Sections) -> None:
    """Save the pictures of all items as one PNG, each with its first score."""
    mosaics = []
    for section in sections.values():
        name, column = next(iter(section.scores.items()))
        rows = {}
        for caption, pictures in section.pictures.items():
            chosen, outlined = pictures[section.order], section.outlined.get(caption)
            if chosen.ndim == 3:
                flags = None if outlined is None else outlined[section.order]
                chosen = paint_grids(chosen, flags)
            rows[caption.replace(" ", "\n")] = chosen
        notes = [formats.format_number(column[index].item()) for index in section.order]
        mosaics += make_bands(f"{section.title} ({name} below each)", rows, notes)
    save_mosaics(path, mosaics)


def encode_png(item: npt.ArrayLike, outlined: Flags | None = None) -> str:
    """An image (h, w, c) or a grid (h, w) as a PNG data URI; flagged cells have a white outline."""
    picture = np.asarray(item, dtype=np.uint8)
    if picture.ndim == 2:
        picture = paint_grids(picture[None], None if outlined is None else outlined[None])[0]
    buffer = io.BytesIO()
    Image.fromarray(picture.squeeze()).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
