"""Render a run as one self-contained HTML file, which opens from disk and can be printed.

Images are inlined and downscaled. All text from outside (cases, tools, reasons, raters) is
escaped, and the page's content security policy lets it load nothing and run no script.
"""

import base64
import io
from collections.abc import Sequence
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2

from genlab import __version__
from genlab.benchmark.cases import Case, load_stored_case
from genlab.benchmark.cases.photographs import read_photograph, shrink
from genlab.benchmark.judge import describe_unrated
from genlab.benchmark.leaderboard.standings import rank_contenders, read_tables, summarize_raters
from genlab.benchmark.leaderboard.table import (
    WORDS,
    describe_estimate,
    format_number,
    list_estimates,
    list_notes,
    tabulate,
)
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Run
from genlab.core.errors import GenlabError

SIDE = 640  # longest side of an inlined image in pixels
AVATAR_SIDE = 200
GOOD = 0.75
"""Score from which on a badge is green."""
FAIR = 0.4
"""Score from which on a badge is amber; below, it is red."""


def render_report(store: Store, run_id: str, *, bootstrap: int = 1000, seed: int = 0) -> str:
    """Render the report of a run as HTML. Raises a `GenlabError` if there is no such run."""
    run = store.run(run_id)
    items = store.items(run_id)
    tables = read_tables(store, run_id)
    standings = rank_contenders(tables, bootstrap=bootstrap, seed=seed)
    raters = summarize_raters(tables, bootstrap=bootstrap, seed=seed)
    order = [standing.contender for standing in standings]
    items.sort(key=lambda item: (order.index(item.contender), item.repeat))
    versions: dict[str, dict[str, None]] = {}  # a run may have several
    for item in items:
        for name, value in (item.scoring.versions if item.scoring else {}).items():
            versions.setdefault(str(name), {})[str(value)] = None
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["score"] = format_number
    environment.filters["grade"] = grade
    environment.filters["words"] = lambda name: str(name).replace("_", " ")
    source = resources.files("genlab.benchmark") / "templates" / "report.html.j2"
    return environment.from_string(source.read_text(encoding="utf-8")).render(
        run=run,
        rows=_rows(store, run, items),
        standings=standings,
        table=tabulate(standings),
        words=WORDS,
        notes=[*list_notes(standings), *describe_unrated(items)],
        estimates={
            name: describe_estimate(estimate) for name, estimate in list_estimates(raters).items()
        },
        versions={name: " and ".join(values) for name, values in sorted(versions.items())},
        bootstrap=bootstrap,
        genlab=__version__,
        good=GOOD,
        fair=FAIR,
    )


def grade(score: float | None) -> str:
    """Return the colour class of a score's badge: good, fair, poor or none."""
    if score is None:
        return "none"
    if score >= GOOD:
        return "good"
    return "fair" if score >= FAIR else "poor"


def _rows(store: Store, run: Run, items: Sequence[ItemResult]) -> list[dict[str, Any]]:
    """List the cases with their images and items, in order. fault: why a case cannot be shown."""
    stars: dict[str, dict[str, list[int]]] = {}
    for rating in store.ratings("run_item"):
        by_context = stars.setdefault(rating.subject_hash, {})
        by_context.setdefault(rating.context, []).append(rating.stars)
    rows = []
    for facts in run.cases:
        cells = []
        for item in items:
            if item.case_id != facts["case_id"]:
                continue
            cell = {"item": item, "label": run.contenders[item.contender].label, "picture": ""}
            with suppress(GenlabError, OSError):
                if item.image:
                    cell["picture"] = _inline(store.path.parent / item.image, SIDE)
            cells.append({**cell, "notes": _notes(item), "stars": stars.get(item.image_sha256, {})})
        title = str(facts.get("title", facts["case_id"]))
        row = {"fault": "", "case_id": facts["case_id"], "title": title, "cells": cells}
        try:
            row |= _inline_case(load_stored_case(store, run.run_id, facts))
        except (GenlabError, OSError) as fault:  # the case was changed or deleted after the run
            row |= {"fault": str(fault), "sources": {}}
        rows.append(row)
    return rows


def _inline_case(case: Case) -> dict[str, Any]:
    ideal = {"ideal result": case.ideal} if case.ideal else {}
    avatars = {**case.avatars, **ideal}
    return {
        "title": case.title,
        "template": _inline(case.template, SIDE),
        "avatars": {name: _inline(path, AVATAR_SIDE) for name, path in avatars.items()},
        "sources": case.sources,
        "permission": case.permission,
    }


def _inline(path: Path, side: int) -> str:
    """Encode an image file as a WebP data URI of at most `side` pixels, without metadata."""
    buffer = io.BytesIO()
    shrink(read_photograph(path), side).save(buffer, format="WEBP", quality=82)
    return "data:image/webp;base64," + base64.b64encode(buffer.getvalue()).decode("ascii")


def _notes(item: ItemResult) -> list[str]:
    """List the remarks of scorer and judge, and the origin of a reused image."""
    lines = list(item.scoring.notes) if item.scoring else []
    if item.reused:
        lines.append(f"made in run {item.reused.run_id} for ${item.reused.cost:.2f}, reused")
    judging = item.judging
    if judging is not None and (judging.reason or judging.failure):
        date = f", {judging.date}" if judging.date else ""  # older versions stored none
        lines.append(f"judge ({judging.judge}{date}): {judging.reason or judging.failure}")
    return lines
