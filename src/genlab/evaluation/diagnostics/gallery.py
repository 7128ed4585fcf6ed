"""The failure gallery: the worst reconstructions and samples, each with its likeliest reason."""

import base64
import io
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt
from PIL import Image

from genlab.evaluation.diagnostics.attributes import ALONE, FAR, Attributes, attributes
from genlab.evaluation.diagnostics.error_analysis import Test, compare, explanation, kind_words
from genlab.evaluation.metrics.reconstruction import wrong_cells
from genlab.grids.palette import COLOUR_NAMES, to_rgb
from genlab.grids.parser import find_components, object_table, parse
from genlab.grids.shapes import KINDS, LONGEST, SHAPES

Grids = npt.NDArray[np.uint8]
Item = dict[str, Any]

CELL = 12
"""Pixels of a cell in the gallery's pictures."""


LEAST_WRONG = 0.01
"""Share of wrong grids below which nats are the better measure of what is hard."""


def summary(
    truth: Grids,
    predicted: Grids,
    nats: npt.ArrayLike,
    objects: npt.NDArray[Any],
    samples: Grids,
    *,
    count: int = 16,
    bootstrap: int = 2000,
    seed: int = 0,
) -> dict[str, Any]:
    """All of the gallery, as `page` shows it and `failures.json` keeps it.

    truth, predicted: (n, h, w); nats: (n,) -log p(x|z) a grid; objects: the object table of truth;
    samples: (m, h, w). Errors are wrong cells, or nats where under LEAST_WRONG of the grids are
    wrong. Returns {error, n, items, tests, sample_items, sample_tests}.
    """
    wrong = wrong_cells(truth, predicted)
    graded = np.count_nonzero(wrong) < LEAST_WRONG * len(truth)
    error = "nats" if graded else "wrong cells"
    measured = attributes(truth, objects)
    tests = compare(
        nats if graded else wrong, measured, error_name=error, bootstrap=bootstrap, seed=seed
    )
    of_samples = attributes(samples, object_table(parse(samples)))
    sample_tests = compare(
        stray_cells(samples), of_samples, error_name="stray cells", bootstrap=bootstrap, seed=seed
    )
    return {
        "error": error,
        "n": len(truth),
        "items": reconstruction_items(truth, predicted, nats, measured, tests, count=count),
        "tests": tests,
        "sample_items": sample_items(samples, of_samples, sample_tests, count=count),
        "sample_tests": sample_tests,
    }


def reconstruction_items(
    truth: Grids,
    predicted: Grids,
    nats: npt.ArrayLike,
    measured: Attributes,
    tests: Sequence[Test],
    *,
    count: int = 16,
) -> list[Item]:
    """The `count` worst reconstructions: most wrong cells first, then most nats (n,) spent.

    Where fewer are wrong than asked for, exact ones follow, those that the model was least sure
    of; their `standing` says so.
    """
    wrong, spent = wrong_cells(truth, predicted), np.asarray(nats, dtype=np.float64)
    items = []
    for index in np.lexsort((-spent, -wrong))[:count]:
        standing = f"{wrong[index]} wrong cells" if wrong[index] else "exact, but least certain"
        if wrong[index] == 1:
            standing = "1 wrong cell"
        items.append(
            {
                "type": "reconstruction",
                "index": int(index),
                "standing": standing,
                "wrong_cells": int(wrong[index]),
                "reconstruction_nats": float(spent[index]),
                "truth": truth[index].tolist(),
                "predicted": predicted[index].tolist(),
                **_reasons(int(index), measured, tests),
            }
        )
    return items


def sample_items(
    samples: Grids, measured: Attributes, tests: Sequence[Test], *, count: int = 16
) -> list[Item]:
    """The `count` samples with the most stray cells, each with what is wrong about its components.

    Samples without a stray cell are not shown: fewer items may come back.
    """
    stray = stray_cells(samples)
    items = []
    for index in np.argsort(-stray, kind="stable")[:count]:
        if not stray[index]:
            break
        items.append(
            {
                "type": "sample",
                "index": int(index),
                "standing": f"{stray[index]} stray cells",
                "stray_cells": int(stray[index]),
                "sample": samples[index].tolist(),
                "faults": faults(samples[index]),
                **_reasons(int(index), measured, tests),
            }
        )
    return items


def stray_cells(grids: Grids) -> npt.NDArray[np.int64]:
    """Cells of each grid that belong to no legal shape, (n,)."""
    found = find_components(grids)
    objects = found.objects[~found.valid]
    sums = np.bincount(objects["grid"], weights=objects["cells"], minlength=len(grids))
    return sums.astype(np.int64)


def faults(grid: Grids) -> list[str]:
    """What is wrong with each component of a grid (h, w) that is no legal shape, in words."""
    found = find_components(grid[None])
    return [_fault(grid, found.labels[0] == label) for label in 1 + np.flatnonzero(~found.valid)]


def _fault(grid: Grids, member: npt.NDArray[np.bool_]) -> str:
    colours = [COLOUR_NAMES[colour] for colour in np.unique(grid[member])]
    if len(colours) > 1:
        return f"{' and '.join(colours)} touch"
    name, cells = colours[0], int(member.sum())
    rows, cols = np.nonzero(member)
    mask = member[rows.min() : rows.max() + 1, cols.min() : cols.max() + 1]
    if cells < min(shape.cells for shape in SHAPES):
        return f"{name} speck of {cells} cell{'s' * (cells > 1)}"
    if max(mask.shape) > LONGEST:
        return f"{name} component of {mask.shape[0]} x {mask.shape[1]}, larger than any shape"
    distances = [
        (int((shape.mask != mask).sum()), KINDS[shape.kind])
        for shape in SHAPES
        if shape.mask.shape == mask.shape
    ]
    if not distances:
        return f"{name} component in a box that no shape has, {mask.shape[0]} x {mask.shape[1]}"
    off, kind = min(distances)
    return f"{name} component {off} cell{'s' * (off > 1)} away from {kind_words(kind)}"


def _reasons(index: int, measured: Attributes, tests: Sequence[Test]) -> Item:
    test = explanation(index, measured, tests)
    # What a grid does not have is left out: thirty times "false" helps no reader.
    found = {name: np.asarray(column)[index].item() for name, column in measured.items()}
    found = {name: value for name, value in found.items() if value is not False}
    if test is None:
        words = "none of the tested attributes explains it"
    elif test["verdict"] == "supported":
        words = f"{test['sentence']} (supported: {_ratio_words(test)})"
    else:
        words = f"perhaps {test['sentence']} (undecided: {_ratio_words(test)})"
    return {
        "attributes": found,
        "seen": _seen(found),
        "hypothesis": test["name"] if test else None,
        "explanation": words,
    }


def _ratio_words(test: Test) -> str:
    ratio = test["ratio_same_count"]
    shown = "no error at all without it" if ratio is None else f"{ratio:.2f} times the error"
    high = "∞" if test["high"] is None else f"{test['high']:.2f}"
    return shown if test["low"] is None else f"{shown}, {test['low']:.2f} to {high}"


def _seen(measured: Mapping[str, Any]) -> str:
    """The attributes that people would name, in a line."""
    count, gap = measured["object_count"], measured["nearest_gap"]
    words = [f"{count} object{'s' * (count != 1)}", f"{measured['foreground_cells']} cells"]
    if gap < ALONE:
        far = " or more" if gap == FAR else ""
        pair = ", one colour" if measured.get("nearest_same_colour") else ""
        words.append(f"nearest {gap}{far} free cell{'s' * (gap != 1)} apart{pair}")
    kinds = [kind_words(kind) for kind in KINDS if measured.get(f"kind_{kind}")]
    return "; ".join([*words, ", ".join(kinds)] if kinds else words)


def page(title: str, summary: Mapping[str, Any]) -> str:
    """The gallery as one HTML page that needs no other file.

    summary: {error, n, items, tests, sample_items, sample_tests}; see `reconstruction_items` and
    `failures.compare`.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["tile"] = tile
    environment.filters["number"] = lambda value: "–" if value is None else f"{value:.4g}"
    source = resources.files("genlab.evaluation") / "templates" / "gallery.html.j2"
    return environment.from_string(source.read_text(encoding="utf-8")).render(
        title=title, **summary
    )


def tile(grid: Sequence[Sequence[int]], truth: Sequence[Sequence[int]] | None = None) -> str:
    """A grid as a PNG data URI; cells that differ from `truth` are outlined in white and black."""
    cells = np.asarray(grid, dtype=np.uint8)
    picture = to_rgb(cells).repeat(CELL, axis=0).repeat(CELL, axis=1)
    picture[::CELL] = picture[:, ::CELL] = 60
    if truth is not None:
        for row, col in np.argwhere(cells != np.asarray(truth)):
            _outline(picture, CELL * int(row), CELL * int(col))
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _outline(picture: Grids, top: int, left: int) -> None:
    for inset, width, shade in ((0, 2, 255), (2, 1, 0)):
        box = picture[top + inset : top + CELL - inset, left + inset : left + CELL - inset]
        box[:width] = box[-width:] = shade
        box[:, :width] = box[:, -width:] = shade
