"""A run as one self-contained HTML file: opens from disk and prints.

Images are inlined and downscaled. Everything from outside (cases, tools, reasons, raters)
is escaped, and the page's policy lets it load nothing and run no script.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
from PIL import Image

from genlab import __version__
from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.cases.photographs import read_photograph
from genlab.benchmark.judging import DETAIL
from genlab.benchmark.leaderboard.standings import leaderboard, people
from genlab.benchmark.leaderboard.table import columns, findings, notes, number, sentence
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Item, Run
from genlab.core.errors import GenlabError
from genlab.core.io import write_text

SIDE = 640  # longest side of an inlined image in pixels
AVATAR_SIDE = 200
QUALITY = 82
GOOD, FAIR = 0.75, 0.4
"""Scores from which a badge is green, and amber; below it is red."""


@dataclass(frozen=True)
class Cell:
    """An item: its image, or why there is none, and what is known of it."""

    item: Item
    label: str
    picture: str
    stars: Mapping[str, Sequence[int]]  # by context

    @property
    def grade(self) -> str:
        """The badge's class in the style sheet."""
        return grade(self.item.score)

    @property
    def outcome(self) -> str:
        """Why there is no score."""
        return self.item.failure_kind or self.item.status

    @property
    def notes(self) -> list[str]:
        """Remarks of scorer, judge and reuse."""
        details = self.item.details
        lines = [str(note) for note in details.get("notes", [])]
        if reused := details.get("reused"):
            lines.append(f"made in run {reused['run_id']} for ${reused['cost']:.2f}, reused")
        if reason := details.get(DETAIL, {}).get("reason"):
            lines.append(f"judge: {reason}")
        return lines


@dataclass(frozen=True)
class Row:
    """A case with its items; fault: why the case cannot be shown."""

    case_id: str
    title: str
    cells: Sequence[Cell]
    case: Case | None
    template: str = ""
    avatars: Mapping[str, str] | None = None
    ideal: str = ""
    fault: str = ""


def write_report(
    store: Store, run_id: str, path: Path, *, bootstrap: int = 1000, seed: int = 0
) -> Path:
    """Write the report of a run to `path`. Raises a `GenlabError` where there is no such run."""
    write_text(path, render_report(store, run_id, bootstrap=bootstrap, seed=seed))
    return path


def render_report(store: Store, run_id: str, *, bootstrap: int = 1000, seed: int = 0) -> str:
    """The report of a run as HTML."""
    run, items = store.run(run_id), store.items(run_id)
    standings = leaderboard(store, run_id=run_id, bootstrap=bootstrap, seed=seed)
    found = people(store, run_id=run_id, bootstrap=bootstrap, seed=seed)
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["score"] = number
    environment.filters["words"] = lambda name: str(name).replace("_", " ")
    source = resources.files("genlab.benchmark") / "templates" / "report.html.j2"
    return environment.from_string(source.read_text(encoding="utf-8")).render(
        run=run,
        rows=_rows(store, run, items, [standing.contender for standing in standings]),
        standings=standings,
        columns=columns(standings),
        notes=notes(standings),
        findings={name: sentence(finding) for name, finding in findings(found).items()},
        versions=list_versions(items),
        bootstrap=bootstrap,
        genlab=__version__,
        good=GOOD,
        fair=FAIR,
    )


def grade(score: float | None) -> str:
    """good, fair, poor or none, as badges are coloured."""
    if score is None:
        return "none"
    return "good" if score >= GOOD else "fair" if score >= FAIR else "poor"


def list_versions(items: Iterable[Item]) -> dict[str, str]:
    """Models and constants behind the scores; all of them, where the run has several."""
    known: dict[str, dict[str, None]] = {}
    for item in items:
        for name, value in item.details.get("versions", {}).items():
            known.setdefault(str(name), {})[str(value)] = None
    return {name: " and ".join(values) for name, values in sorted(known.items())}


def _rows(store: Store, run: Run, items: Sequence[Item], order: Sequence[str]) -> list[Row]:
    """A row per case, its items in the order of the leaderboard."""
    stars: dict[str, dict[str, list[int]]] = {}
    for rating in store.ratings("run_item"):
        by_context = stars.setdefault(rating.subject_hash, {})
        by_context.setdefault(rating.context, []).append(rating.stars)
    contenders, folder = run.contenders, store.path.parent
    rows = []
    for known in run.cases:
        own = [item for item in items if item.case_id == known["case_id"]]
        own.sort(key=lambda item: (order.index(item.contender), item.repeat))
        cells = [
            Cell(
                item,
                contenders[item.contender].label,
                _inline_result(folder, item),
                stars.get(item.image_sha256, {}),
            )
            for item in own
        ]
        rows.append(_row(known, cells))
    return rows


def _row(known: Mapping[str, Any], cells: Sequence[Cell]) -> Row:
    title = str(known.get("title", known["case_id"]))
    try:
        case = load_case(Path(known["folder"]))
        return Row(
            case_id=case.case_id,
            title=case.title,
            cells=cells,
            case=case,
            template=_inline(case.template, SIDE),
            avatars={name: _inline(path, AVATAR_SIDE) for name, path in case.avatars.items()},
            ideal=_inline(case.ideal, SIDE) if case.ideal else "",
        )
    except (GenlabError, OSError, KeyError) as fault:  # a run's results outlive its cases
        return Row(known["case_id"], title, cells, None, fault=str(fault))


def _inline_result(folder: Path, item: Item) -> str:
    try:
        return _inline(folder / item.image, SIDE) if item.image else ""
    except (GenlabError, OSError):
        return ""


def _inline(path: Path, side: int) -> str:
    """An image file as a WebP data URI of at most `side` pixels, without metadata."""
    image = read_photograph(path)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    image.info = {}
    buffer = io.BytesIO()
    image.save(buffer, format="WEBP", quality=QUALITY)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")
