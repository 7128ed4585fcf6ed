"""Ratings and preferences as one CSV file, to keep under version control or to send.

A line is an answer of one person. Stars: `stars` is 1 to 5, and the `over_` columns are empty. A
preference: `stars` is empty, and the line's image was preferred to that of `over_tool_id` in
`over_run_id`, of the same case. The `over_` columns and those of the item may be missing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import text
from sqlmodel import Session

from genlab.benchmark.store.migrations import utc
from genlab.benchmark.store.ratings import check_columns, pair_key, put_answer
from genlab.benchmark.store.schema import Preference, Rating
from genlab.core.errors import GenlabError
from genlab.core.io import write_text

NEEDED = ("subject_kind", "subject_hash", "rater", "stars", "blind", "session", "rated")
ITEM = ("run_id", "case_id", "tool_id")
OVER = ("over_hash", "over_run_id", "over_tool_id")
COLUMNS = (*NEEDED, *ITEM, *OVER)
PICTURE = "run_item"  # the kind of subject that preferences are about

_FIND = "SELECT item_id FROM run_items WHERE run_id = :run AND case_id = :case AND tool_id = :tool"
_FIND_SAME = f"{_FIND} AND image_sha256 = :hash"
_STARS = """
    SELECT subject_kind, subject_hash, rater, stars, blind, session, rated,
        coalesce(run_id, ''), coalesce(case_id, ''), coalesce(tool_id, ''), '', '', ''
    FROM human_scores LEFT JOIN run_items ON item_id = run_item_id
    ORDER BY subject_kind, subject_hash, rater
"""
# Which of two is the better one is always asked with the tools hidden.
_PREFERENCES = f"""
    SELECT '{PICTURE}', better.image_sha256, rater, '', 1, session, rated,
        better.run_id, better.case_id, better.tool_id,
        worse.image_sha256, worse.run_id, worse.tool_id
    FROM preferences
    JOIN run_items AS better ON better.item_id = winner
    JOIN run_items AS worse ON worse.item_id = first_item + second_item - winner
    ORDER BY better.run_id, better.case_id, better.tool_id, worse.run_id, worse.tool_id, rater
"""


class Imported(NamedTuple):
    """How many answers of a CSV changed anything, and preferences whose images are not here."""

    changed: int
    homeless: int


def export_csv(session: Session, path: str | Path) -> int:
    """Write the answers that count as CSV, always in the same order; returns how many."""
    rows = [
        row for query in (_STARS, _PREFERENCES) for row in session.connection().execute(text(query))
    ]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([COLUMNS, *rows])
    write_text(path, buffer.getvalue())
    return len(rows)


def import_csv(session: Session, path: str | Path) -> Imported:
    """Keep all answers of a CSV.

    Stars belong to an image's content, so they are kept even where this store lacks its run. A
    preference needs both of its images here, the same ones; where they are not it is counted as
    homeless. Raises a `GenlabError` that names the line of the first fault; the caller's
    transaction then keeps nothing.
    """
    changed = homeless = 0
    for line, row in _read(Path(path)):
        try:
            if row["stars"] or not row["over_tool_id"]:
                changed += _import_rating(session, row)
                continue
            outcome = _import_preference(session, row)
        except GenlabError as error:
            raise GenlabError(f"{path}, line {line}: {error}", key=error.key, path=path) from error
        changed += bool(outcome)
        homeless += outcome is None
    return Imported(changed, homeless)


def _import_rating(session: Session, row: Mapping[str, str]) -> bool:
    if row["blind"] not in ("0", "1"):
        raise GenlabError(f"blind must be 0 or 1, got {row['blind']!r}", key="blind")
    key = {name: row[name] for name in ("subject_kind", "subject_hash", "rater")}
    stars = int(row["stars"]) if row["stars"].isdecimal() else row["stars"]
    answer = {
        "stars": stars,
        "blind": row["blind"] == "1",
        "session": row["session"],
        "rated": _time(row),
        "run_item_id": _find(session, _FIND, row),
    }
    return put_answer(session, Rating, key, answer, imported=True)


def _import_preference(session: Session, row: Mapping[str, str]) -> bool | None:
    """Whether it changed anything; None where an image is not here."""
    check_columns(rater=row["rater"])
    winner = _find(session, _FIND_SAME, row)
    over = {name.removeprefix("over_"): row[name] for name in OVER}
    loser = _find(session, _FIND_SAME, {**row, **over, "subject_hash": row["over_hash"]})
    if winner is None or loser is None:
        return None
    answer = {"winner": winner, "session": row["session"], "rated": _time(row)}
    key = pair_key(row["rater"], winner, loser)
    return put_answer(session, Preference, key, answer, imported=True)


def _find(session: Session, query: str, row: Mapping[str, str]) -> int | None:
    """The number of the item that a line names."""
    values = {"run": row["run_id"], "case": row["case_id"], "tool": row["tool_id"]}
    found: int | None = session.connection().scalar(
        text(query), {**values, "hash": row["subject_hash"]}
    )
    return found


def _read(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and columns of each line of a CSV file."""
    try:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")), strict=True)
        missing = [name for name in NEEDED if name not in (reader.fieldnames or ())]
        if missing:
            message = f"{path} has no column {missing[0]!r}; it needs {','.join(NEEDED)}"
            raise GenlabError(message, key=missing[0], path=path)
        for row in reader:
            if None in row or None in row.values():
                raise csv.Error(f"line {reader.line_num} has more or fewer fields than the first")
            yield reader.line_num, {name: row.get(name, "") for name in COLUMNS}
    except (UnicodeDecodeError, csv.Error) as error:
        raise GenlabError(f"{path} is not a CSV file in UTF-8: {error}", path=path) from error


def _time(row: Mapping[str, str]) -> str:
    try:
        return utc(datetime.fromisoformat(row["rated"].replace("Z", "+00:00")))
    except ValueError as error:
        message = f"rated must be a time in ISO 8601, got {row['rated']!r}"
        raise GenlabError(message, key="rated") from error
