"""The gallery of failures: items, hypotheses with their evidence, and what people say to them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from genlab.core.errors import GenlabError
from genlab.datasets.registry import find_dataset
from genlab.evaluation.diagnostics.gallery import tile
from genlab.evaluation.reports.formats import number, words
from genlab.grids.parser import Flags, find_components
from genlab.web import browse, shapes
from genlab.web.components import look
from genlab.web.components.files import Stamp, fresh, json_at, stamps
from genlab.web.components.look import Column, table
from genlab.web.evidence import evidence

Items = npt.NDArray[np.uint8]

COMMAND = "dvc repro failure_gallery"
UNEXPLAINED = "unexplained"
SORTS: Mapping[str, tuple[str, str]] = {
    "reconstructions": ("items", "tests"),
    "samples": ("sample_items", "sample_tests"),
}
"""Keys of failures.json: of the items and of the tests of each sort."""

TONES = {"supported": "warn", "refuted": "good", "undecided": "quiet", "untestable": "quiet"}


@dataclass(frozen=True, eq=False)
class Failure:
    """An item that failed: pictures with their captions, what is said of it, and why it failed.

    `subject` is the SHA-256 of its content: opinions hang on what was shown, not on its number.
    """

    index: int
    sort: str
    standing: str
    seen: str
    hypothesis: str
    explanation: str
    shown: tuple[tuple[Items, str], ...]

    @cached_property
    def subject(self) -> str:
        digest = hashlib.sha256()
        for item, caption in self.shown:
            digest.update(f"{caption}{item.shape}".encode() + np.ascontiguousarray(item).data)
        return digest.hexdigest()


@dataclass(frozen=True, eq=False)
class Gallery:
    """All of a dataset's failures of one sort, and the tests of the hypotheses about them."""

    failures: Sequence[Failure]
    tests: Sequence[Mapping[str, Any]]

    @property
    def hypotheses(self) -> dict[str, int]:
        """Hypotheses that explain items, and how many each; the most first."""
        return dict(Counter(failure.hypothesis for failure in self.failures).most_common())

    def of(self, hypotheses: Sequence[str]) -> list[Failure]:
        """Failures that one of the hypotheses explains; all where none is named."""
        return [f for f in self.failures if not hypotheses or f.hypothesis in hypotheses]


def gallery(root: Path, dataset: str, sort: str) -> Gallery:
    """The failures of a dataset, `sort` reconstructions or samples.

    Raises Missing where the stage has not run, a GenlabError where its file is broken.
    """
    files = (root / "data" / "evaluated" / dataset / "evidence.npz",)
    return _gallery(
        root / "results" / dataset / "failures.json", root, dataset, sort, stamps(files)
    )


@fresh(keep=4)
def _gallery(
    path: Path, root: Path, dataset: str, sort: str, _: tuple[Stamp | None, ...]
) -> Gallery:
    found = json_at(path, shapes.Failures, producer_command=COMMAND)
    items, tests = SORTS[sort]
    known = {test["name"]: test for test in found[tests]}
    try:
        failures = [
            _failure(entry, sort, known, _pictures(root, dataset, sort, int(entry["index"])))
            for entry in found[items]
        ]
        return Gallery(failures, found[tests])
    except (KeyError, IndexError, ValueError) as error:
        raise GenlabError(
            f"{path}: its items ({error}) don't fit the data that evaluate left;"
            f" make it again with: {COMMAND}"
        ) from error


def tests_table(found: Gallery, caption: str) -> str:
    """Every hypothesis with its evidence: supported ones first, then by how strong they are."""
    order = list(TONES)
    tests = sorted(
        found.tests, key=lambda test: (order.index(test["verdict"]), -(test["ratio"] or 0))
    )
    explains = found.hypotheses
    rows = [
        {
            "name": test["sentence"],
            "verdict": look.tag(test["verdict"], TONES[test["verdict"]]),
            "ratio": number(test["ratio"]),
            "interval": f"{number(test['low'])} to {number(test['high'])}",
            "with": f"{number(test['error_with'])} (n {test['n_with']:,})",
            "without": f"{number(test['error_without'])} (n {test['n_without']:,})",
            "explains": explains.get(test["name"], 0),
        }
        for test in tests
    ]
    columns = [
        Column("name", "Hypothesis"),
        Column("verdict", "Verdict"),
        Column("ratio", "Error ratio", number=True),
        Column("interval", "Interval", number=True),
        Column("with", "Error with it", number=True),
        Column("without", "Without", number=True),
        Column("explains", "Items", number=True),
    ]
    return table(columns, rows, caption)


@lru_cache(maxsize=128)
def card(failure: Failure, side: int = 128) -> str:
    """The pictures of a failure, side by side; wrong and stray cells of grids are outlined."""
    first = failure.shown[0][0]

    def outlined(item: Items) -> Flags | None:
        if item.ndim == 3:
            return None
        stray = len(failure.shown) == 1
        return find_components(item[None]).stray[0] if stray else np.asarray(item != first)

    return look.pictures(
        look.framed(
            tile(item, outlined(item)),
            f"{caption} of item {failure.index}: {failure.seen}",
            caption,
            side,
            side,
        )
        for item, caption in failure.shown
    )


def label(hypothesis: str) -> str:
    """A hypothesis's name as people read it."""
    return words(hypothesis)


def _failure(
    entry: Mapping[str, Any],
    sort: str,
    tests: Mapping[str, Mapping[str, Any]],
    shown: tuple[tuple[Items, str], ...],
) -> Failure:
    test = tests[entry["hypothesis"]] if entry["hypothesis"] else None
    reason = (
        f"{test['sentence']} ({test['verdict']})" if test else "no tested attribute explains it"
    )
    standing = ", ".join(f"{name} {number(value)}" for name, value in entry["scores"].items())
    return Failure(
        index=int(entry["index"]),
        sort=sort,
        standing=standing,
        seen=entry.get("class", standing),
        hypothesis=entry["hypothesis"] or UNEXPLAINED,
        explanation="; ".join([reason, *entry.get("faults", [])]),
        shown=shown,
    )


def _pictures(root: Path, dataset: str, sort: str, index: int) -> tuple[tuple[Items, str], ...]:
    """The pictures of an item with their captions: test images from data, the rest from evaluate.

    Reconstructed grids are those of ARC-AGI.
    """
    arrays = evidence(root, dataset)

    def picture(name: str) -> Items:
        return np.asarray(arrays[name][index], dtype=np.uint8)

    if sort == "samples":
        if "sample_nearest" not in arrays:
            return ((picture("samples"), "sample"),)
        nearest = picture("sample_nearest")
        return ((picture("samples"), "sample"), (nearest, "nearest in train"))
    if find_dataset(dataset).kind == "grids":
        return ((picture("arc"), "input"), (picture("arc_predicted"), "reconstruction"))
    truth = browse.images_of(root / "data" / dataset, "test").images
    return ((np.asarray(truth[index]), "input"), (picture("predicted"), "reconstruction"))
