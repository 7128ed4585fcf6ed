"""A run as one HTML file that needs nothing else: opens from disk, prints, keeps for years.

Images are inlined, downscaled. Everything that came from outside (cases, tools, reasons, raters)
is escaped, and the page's own policy lets it load nothing and run no script.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
from PIL import Image

from genlab import __version__
from genlab.benchmark.bootstrap import LEAST
from genlab.benchmark.cases import Case, load_case, open_upright, upright_size
from genlab.benchmark.judging import COLUMN
from genlab.benchmark.leaderboard import People, Standing, leaderboard, people
from genlab.benchmark.marks import marks_in, xmp
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Item, Run
from genlab.benchmark.tallies import ratings_of
from genlab.core.errors import GenlabError
from genlab.core.io import write_text

SIDE = 640
"""Longest side of an inlined image in pixels: a face stays recognisable, a run stays mailable."""
AVATAR_SIDE = 200
QUALITY = 82
GOOD, FAIR = 0.75, 0.4
"""Scores from which a badge is green, and amber; below it is red."""


@dataclass(frozen=True)
class Cell:
    """What a tool made of a case: its picture, or why there is none."""

    tool: str
    picture: str
    status: str
    score: float | None
    outcome: str = ""
    reason: str = ""
    components: Mapping[str, float | None] = field(default_factory=dict)
    notes: Sequence[str] = ()
    stars: Sequence[int] = ()
    judge: Mapping[str, Any] = field(default_factory=dict)

    @property
    def grade(self) -> str:
        """The badge's colour as a class of the style sheet."""
        if self.score is None:
            return "none"
        return "good" if self.score >= GOOD else "fair" if self.score >= FAIR else "poor"

    @property
    def mean_stars(self) -> float:
        """People's mean; nan where nobody rated."""
        return float(np.mean(self.stars)) if self.stars else float("nan")


@dataclass(frozen=True)
class Row:
    """A case with what each tool made of it."""

    case_id: str
    title: str
    template: str
    avatars: Mapping[str, str]
    swaps: Sequence[str]
    sources: Mapping[str, Any]
    cells: Sequence[Cell]
    shape: str = "4 / 3"
    fault: str = ""


def write_report(
    store: Store, run_id: str, path: Path, *, bootstrap: int = 1000, seed: int = 0
) -> Path:
    """Write the report of a run to `path`. Raises a `GenlabError` where there is no such run."""
    write_text(path, page(store, run_id, bootstrap=bootstrap, seed=seed))
    return path


def page(store: Store, run_id: str, *, bootstrap: int = 1000, seed: int = 0) -> str:
    """The report of a run as HTML."""
    run = store.run(run_id)
    items = store.items(run_id)
    standings = leaderboard(store, run_id=run_id, bootstrap=bootstrap, seed=seed)
    found = people(store, run_id=run_id, bootstrap=bootstrap, seed=seed)
    order = [standing.tool for standing in standings]
    return render(run, rows(store, run, items, order), standings, found, bootstrap, versions(items))


def render(
    run: Run,
    shown: Sequence[Row],
    standings: Sequence[Standing],
    found: People,
    bootstrap: int,
    pinned: Mapping[str, str],
) -> str:
    """The page of what was gathered."""
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["score"] = lambda value: "–" if value is None else f"{value:.2f}"
    environment.filters["words"] = lambda name: str(name).replace("_", " ")
    environment.filters["stars"] = stars
    source = resources.files("genlab.benchmark") / "templates" / "report.html.j2"
    return environment.from_string(source.read_text(encoding="utf-8")).render(
        run=run,
        rows=shown,
        standings=standings,
        titles={tool["tool_id"]: tool.get("title", "") for tool in run.tools},
        people=found,
        judged=sorted({name for s in standings if s.judge for name in s.judge.by}),
        least=LEAST,
        bootstrap=bootstrap,
        versions=dict(pinned),
        genlab=__version__,
        good=GOOD,
        fair=FAIR,
    )


def rows(store: Store, run: Run, items: Sequence[Item], order: Sequence[str]) -> list[Row]:
    """A row for each case of the run, its tools in `order`."""
    stars_by_image, _ = ratings_of(store, run.run_id)
    by_case: dict[str, dict[str, Item]] = {}
    for item in items:
        by_case.setdefault(item.case_id, {})[item.tool_id] = item
    return [
        _row(
            entry,
            [
                _cell(store.path.parent, made[tool], stars_by_image)
                for tool in order
                if tool in (made := by_case.get(entry["case_id"], {}))
            ],
        )
        for entry in run.cases
    ]


def _row(entry: Mapping[str, Any], cells: Sequence[Cell]) -> Row:
    case_id = str(entry["case_id"])
    try:
        case = load_case(Path(entry.get("folder") or Path("cases") / case_id))
        return Row(
            case_id=case_id,
            title=case.title,
            template=inlined(case.template, SIDE),
            avatars={name: inlined(path, AVATAR_SIDE) for name, path in case.avatars.items()},
            swaps=_who(case),
            sources={name: case.sources[name].model_dump() for name in case.sources},
            cells=cells,
            shape="{} / {}".format(*upright_size(case.template)),
        )
    except (GenlabError, OSError) as fault:
        # The run's results outlive its cases: they are shown all the same.
        return Row(
            case_id, str(entry.get("title", case_id)), "", {}, (), {}, cells, fault=str(fault)
        )


def _who(case: Case) -> list[str]:
    """Who takes whose place, in words, persons counted from the left."""
    places = sorted(case.swaps, key=lambda swap: swap.region.left)
    if len(places) == 1:
        return [f"{places[0].avatar} takes the person's place"]
    return [f"{swap.avatar} takes place {n}" for n, swap in enumerate(places, 1)]


def _cell(folder: Path, item: Item, stars_by_image: Mapping[str, Mapping[str, int]]) -> Cell:
    reason = item.failure
    picture = ""
    if item.image:
        try:
            picture = inlined(folder / item.image, SIDE, made=True)
        except (GenlabError, OSError) as fault:
            reason = reason or str(fault)
    outcome = item.failure_kind
    if item.score is None and not outcome:
        outcome = str(item.details.get("outcome", "")) or item.status
    return Cell(
        tool=item.tool_id,
        picture=picture,
        status=item.status,
        score=item.score,
        outcome=outcome,
        reason=reason,
        components=item.components,
        notes=_notes(item),
        judge=item.details.get(COLUMN, {}),
        stars=list(stars_by_image.get(item.image_sha256, {}).values()),
    )


def _notes(item: Item) -> list[str]:
    notes = [str(note) for note in item.details.get("notes", [])]
    if carried := item.details.get("carried"):
        notes.append(f"made in run {carried['run_id']} for ${carried['cost']:.2f}; taken over")
    return notes


def versions(items: Sequence[Item]) -> dict[str, str]:
    """Models and constants that the scores rest on; all of them, where the run saw several."""
    seen: dict[str, list[str]] = {}
    for item in items:
        for name, value in item.details.get("versions", {}).items():
            known = seen.setdefault(str(name), [])
            if str(value) not in known:
                known.append(str(value))
    return {name: " and ".join(values) for name, values in sorted(seen.items())}


def inlined(path: Path, side: int, made: bool = False) -> str:
    """An image file as a WebP data URI of at most `side` pixels; metadata stays behind.

    made: a picture that a tool made; its marks go along as XMP, so that it still says that it is
    synthetic when it is saved out of the page.
    """
    image = open_upright(path)
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    buffer = io.BytesIO()
    image.save(buffer, format="WEBP", quality=QUALITY, xmp=xmp(marks_in(path)) if made else b"")
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def stars(mean: float) -> str:
    """A mean of 1 to 5 as five signs: ★★★★☆ for 3.7."""
    full = round(mean)
    return "★" * full + "☆" * (5 - full)
