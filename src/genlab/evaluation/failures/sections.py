"""Sections of the failure gallery: items of one sort, the worst of them, and the tests of why."""

import base64
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from genlab.evaluation.failures import grid_hypotheses as of_grids
from genlab.evaluation.failures import image_hypotheses as of_images
from genlab.evaluation.failures import own_grid_hypotheses as of_own_grids
from genlab.evaluation.failures.error_analysis import (
    Column,
    Flags,
    Hypothesis,
    Test,
    compare,
    explain,
)
from genlab.evaluation.figures.boards import paint_grids
from genlab.evaluation.metrics.fidelity import mse
from genlab.evaluation.metrics.reconstruction import wrong_cells
from genlab.grids.palette import PADDING
from genlab.grids.parser import find_components

Items = npt.NDArray[np.uint8]

WRONG_COUNT = "a number of components that no valid grid has"


@dataclass(frozen=True, eq=False)
class GallerySection:
    """The n items of one sort, such as samples, and how badly each of them failed.

    item: noun for one item. order: indices of the items to show. scores: {name: (n,)}, shown beside
    an item. pictures: {caption: (n, ...)}. errors: (n,), which hypotheses are tested on within
    strata, (n,), by resampling items, or groups, (n,). outlined: {caption: (n, h, w)}, cells to
    outline in pictures of grids. details: returns further facts about an item.
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
        """Number of items, the items to show, and the tests over all items.

        `also` of an item names further supported hypotheses.
        """
        tests: list[Test] = []
        if self.hypotheses:
            tests = compare(
                self.errors,
                self.strata,
                self.hypotheses,
                bootstrap=bootstrap,
                seed=seed,
                groups=self.groups,
            )
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
        n = len(next(iter(self.scores.values())))
        return {"error": self.error_name, "n": n, "items": items, "tests": tests}

    def tile(self, caption: str, index: int) -> str:
        """Encode a picture of an item as a PNG data URI."""
        outlined = self.outlined.get(caption)
        return encode_png(
            self.pictures[caption][index], None if outlined is None else outlined[index]
        )


Sections = Mapping[str, GallerySection]
"""Sections of a gallery in the order of the page, by the prefix of their keys in failures.json."""


def grid_sections(truth: Items, arrays: Mapping[str, Column], count: int) -> Sections:
    """Sections of invalid samples, ARC-AGI grids that are not exact, and test grids.

    truth: the test split, (n, h, w). Half of the `count` grids are samples, a quarter ARC-AGI
    grids; where fewer fail, more test grids are shown, those with the smallest margins.
    """
    samples = _sample_section(arrays, count // 2)
    arc = _arc_section(arrays, count // 4)
    remaining = count - len(samples.order) - len(arc.order)
    return {"sample_": samples, "": arc, "margin_": _margin_section(truth, arrays, remaining)}


def _sample_section(arrays: Mapping[str, Column], items: int) -> GallerySection:
    """Invalid samples, with the faults of each."""
    samples = arrays["samples"]
    invalid = ~arrays["valid"]
    components = find_components(samples)
    stray = components.stray.sum(axis=(1, 2))
    valid_objects = np.bincount(components.legal["grid"], minlength=len(samples))
    count, hypotheses = of_grids.grid_hypotheses(samples)
    # Only a valid component has a kind.
    hypotheses = [
        hypothesis for hypothesis in hypotheses if not hypothesis.name.startswith("kind_")
    ]
    low, high = arrays["object_range"].tolist()
    hypotheses = of_grids.exclude_invalid_by_definition(samples, hypotheses, (low, high))

    def describe_faults(index: int) -> dict[str, Any]:
        in_range = low <= count[index] <= high
        faults = of_grids.describe_faults(samples[index])
        return {"faults": faults if in_range else [*faults, WRONG_COUNT]}

    return GallerySection(
        f"Invalid samples: {np.count_nonzero(invalid)} of {len(samples)}",
        "sample",
        order=_spread(np.where(invalid, 1 + stray, 0), items),
        scores={"stray cells": stray, "valid objects": valid_objects},
        pictures={"sample": samples},
        error_name="invalid",
        errors=invalid,
        strata=count,
        hypotheses=hypotheses,
        outlined={"sample": components.stray},
        details=describe_faults,
    )


def _arc_section(arrays: Mapping[str, Column], count: int) -> GallerySection:
    """ARC-AGI grids that are not reconstructed exactly."""
    truth = arrays["arc"]
    predicted = arrays["arc_predicted"]
    wrong = wrong_cells(truth, predicted)
    components, hypotheses = of_grids.grid_hypotheses(truth)
    return GallerySection(
        f"ARC-AGI grids that are not exact: {np.count_nonzero(wrong)} of {len(truth)}",
        "ARC-AGI grid",
        order=_spread(wrong, count),
        scores={"wrong cells": wrong},
        pictures={"input": truth, "reconstruction": predicted},
        error_name="not exact",
        errors=wrong > 0,
        strata=components,
        hypotheses=hypotheses,
        groups=arrays["arc_tasks"],
        outlined={"reconstruction": truth != predicted},
    )


def own_grid_sections(
    truth: Items, tasks: Column, arrays: Mapping[str, Column], count: int
) -> Sections:
    """Sections of test grids (n, h, w) with wrong cells, and of samples unlike training grids."""
    predicted = arrays["predicted"]
    wrong = wrong_cells(truth, predicted)
    # A share, since larger grids have more cells that can be wrong.
    wrong_share = wrong / (truth != PADDING).sum(axis=(1, 2))
    strata, hypotheses = of_own_grids.own_grid_hypotheses(truth)
    distances = arrays["sample_errors"]
    return {
        "": GallerySection(
            f"Test grids that are not exact: {np.count_nonzero(wrong)} of {len(truth)}",
            "test grid",
            order=_spread(wrong, count),
            scores={"wrong cells": wrong, "nats": arrays["nats"]},
            pictures={"input": truth, "reconstruction": predicted},
            error_name="share of wrong cells",
            errors=wrong_share,
            strata=strata,
            hypotheses=hypotheses,
            groups=tasks,
            outlined={"reconstruction": truth != predicted},
        ),
        "sample_": GallerySection(
            "Samples furthest from the training grids",
            "sample",
            order=np.argsort(-distances, kind="stable")[:count],
            scores={"cells that differ": distances},
            pictures={
                "sample": arrays["samples"],
                "nearest training grid": arrays["sample_nearest"],
            },
        ),
    }


def _margin_section(truth: Items, arrays: Mapping[str, Column], count: int) -> GallerySection:
    """Test grids in the order of their margins: wrong grids, if any, come first."""
    predicted = arrays["predicted"]
    margins = arrays["margins"]
    wrong = wrong_cells(truth, predicted)
    title = "Exact test grids"
    if wrong.any():
        title = f"Test grids, {(wrong > 0).sum()} not exact,"
    return GallerySection(
        f"{title} with the smallest margins",
        "test grid",
        order=np.argsort(margins, kind="stable")[:count],
        scores={"margin": margins, "wrong cells": wrong, "nats": arrays["nats"]},
        pictures={"input": truth, "reconstruction": predicted},
        outlined={"reconstruction": truth != predicted},
    )


def _spread(errors: Column, count: int) -> Column:
    """Choose `count` items with errors above 0, spread evenly from the largest error down."""
    failed = np.argsort(-errors, kind="stable")[: np.count_nonzero(errors)]
    ranks = np.linspace(0, len(failed) - 1, min(count, len(failed))).round().astype(int)
    return np.asarray(failed[ranks])


def image_sections(
    truth: Items,
    labels: Column,
    names: Sequence[str],
    arrays: Mapping[str, Column],
    count: int,
) -> Sections:
    """Sections of test images (n, h, w, c), with their labels (n,), and of samples (m, h, w, c).

    Samples are ordered by the distance to their nearest training image in a classifier's features,
    and have the class of that image. Their atypicality is the distance to the mean of test images.
    """
    predicted = arrays["predicted"]
    samples = arrays["samples"]
    errors = mse(truth, predicted)
    distances = np.asarray(arrays["sample_errors"], np.float64)
    unlabelled = arrays["sample_labels"] < 0
    sample_labels = np.where(unlabelled, len(names) - 1, arrays["sample_labels"])
    centres = of_images.class_means(truth, labels, len(names))
    measured = of_images.measure_attributes(truth, labels, centres)
    measured["train_distance"] = arrays["train_distances"]
    measured_samples = of_images.measure_attributes(samples, sample_labels, centres)
    sentence = {"subject": "samples", "verb": "are further from the training images"}
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
    sampled = GallerySection(
        "Samples furthest from the training images",
        "sample",
        order=np.argsort(-distances, kind="stable")[:count],
        scores={"feature distance": distances},
        error_name="feature distance",
        errors=distances,
        strata=sample_labels,
        hypotheses=of_images.image_hypotheses(measured_samples, sample_labels, names, **sentence),
        pictures={"sample": samples, "nearest training image": arrays["sample_nearest"]},
        details=lambda index: {"class": names[sample_labels[index]]},
    )
    return {"": real, "sample_": sampled}


def encode_png(item: npt.ArrayLike, outlined: Flags | None = None) -> str:
    """Encode an image (h, w, c) or a grid (h, w) as a PNG data URI.

    outlined: cells of a grid to outline in white, (h, w).
    """
    picture = np.asarray(item, dtype=np.uint8)
    if picture.ndim == 2:
        flags = None if outlined is None else outlined[None]
        picture = paint_grids(picture[None], flags)[0]
    buffer = io.BytesIO()
    Image.fromarray(picture.squeeze()).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
