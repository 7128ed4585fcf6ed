"""Answers of people: stars, preferences between two images, opinions on explanations.

The last answer of a rater counts, and the same answer again (a double click) changes nothing.
`export_csv` and `import_csv` keep stars and preferences as one CSV file, for version control. A
line is an answer of one person. Stars: `stars` is 1 to 5, and the `over_` columns are empty. A
preference: `stars` is empty, and the line's image was preferred to that of `over_tool_id` in
`over_run_id`, of the same case.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError
from sqlalchemy import text
from sqlmodel import Session, select

from genlab.benchmark.store.schema import Opinion, Preference, Rating, utc
from genlab.core.errors import GenlabError, violations
from genlab.core.io import write_text

COLUMNS = (
    *("subject_kind", "subject_hash", "rater", "stars", "blind", "session", "rated"),
    *("run_id", "case_id", "tool_id"),
    *("over_hash", "over_run_id", "over_tool_id"),
)

VALUES = {Rating: "stars", Preference: "winner", Opinion: "agrees"}

_FIND = """
    SELECT item_id FROM run_items
    WHERE run_id = :run_id AND case_id = :case_id AND tool_id = :tool_id
"""
_FIND_SAME = f"{_FIND} AND image_sha256 = :subject_hash"
_STARS = """
    SELECT subject_kind, subject_hash, rater, stars, blind, session, rated,
        coalesce(run_id, ''), coalesce(case_id, ''), coalesce(tool_id, ''), '', '', ''
    FROM human_scores LEFT JOIN run_items ON item_id = run_item_id
    ORDER BY subject_kind, subject_hash, rater
"""
# Which of two is the better one is always asked with the tools hidden.
_PREFERENCES = """
    SELECT 'run_item', better.image_sha256, rater, '', 1, session, rated,
        better.run_id, better.case_id, better.tool_id,
        worse.image_sha256, worse.run_id, worse.tool_id
    FROM preferences
    JOIN run_items AS better ON better.item_id = winner
    JOIN run_items AS worse ON worse.item_id = first_item + second_item - winner
    ORDER BY better.run_id, better.case_id, better.tool_id, worse.run_id, worse.tool_id, rater
"""


def put_answer(
    session: Session,
    model: type[Rating | Preference | Opinion],
    key: Mapping[str, Any],
    answer: Mapping[str, Any] | None,
    *,
    imported: bool = False,
) -> bool:
    """Keep an answer inside the caller's transaction; returns whether anything changed.

    key: the columns that say who answers what; answer: the other columns, or None to take the
    answer back. imported: it gives way to what the rater said at that time or later. Raises a
    `GenlabError` for a column out of range.
    """
    kept: Any = session.exec(select(model).filter_by(**key)).first()
    if answer is None:
        if kept is not None:
            session.delete(kept)
        return kept is not None
    try:
        given = model.model_validate({**key, **answer})
    except ValidationError as error:
        column, line = violations(error)[0]
        raise GenlabError(line, key=column) from error
    if kept is None:
        session.add(given)
        return True
    column = VALUES[model]
    same = getattr(kept, column) == getattr(given, column)
    if same or (imported and kept.rated >= answer["rated"]):
        return False
    # What is not known now (a rating's item) stays as it was.
    session.add(kept.sqlmodel_update({k: v for k, v in answer.items() if v is not None}))
    return True


def pair_key(rater: str, one: int, other: int) -> dict[str, Any]:
    """The key of a preference between two items."""
    return {"rater": rater, "first_item": min(one, other), "second_item": max(one, other)}


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
            row["rated"] = utc(datetime.fromisoformat(row["rated"]))
            outcome = _import_row(session, row)
        except (GenlabError, ValueError) as error:
            key = error.key if isinstance(error, GenlabError) else "rated"
            raise GenlabError(f"{path}, line {line}: {error}", key=key, path=path) from error
        changed += bool(outcome)
        homeless += outcome is None
    return Imported(changed, homeless)


def _import_row(session: Session, row: Mapping[str, str]) -> bool | None:
    """Whether it changed anything; None for a preference whose images are not here."""
    answer: dict[str, Any] = {name: row[name] for name in ("session", "rated")}
    if row["stars"] or not row["over_tool_id"]:
        key = {name: row[name] for name in ("subject_kind", "subject_hash", "rater")}
        stars = int(row["stars"]) if row["stars"].isdecimal() else row["stars"]
        item = session.connection().scalar(text(_FIND), dict(row))
        answer |= {"stars": stars, "blind": row["blind"], "run_item_id": item}
        return put_answer(session, Rating, key, answer, imported=True)
    over = {"subject_hash": row["over_hash"]}
    over |= {"run_id": row["over_run_id"], "tool_id": row["over_tool_id"]}
    pair = (dict(row), {**row, **over})
    winner, loser = (session.connection().scalar(text(_FIND_SAME), one) for one in pair)
    if winner is None or loser is None:
        return None
    key = pair_key(row["rater"], winner, loser)
    return put_answer(session, Preference, key, {**answer, "winner": winner}, imported=True)


def _read(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Number and columns of each line of a CSV file."""
    try:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")), strict=True)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise csv.Error(f"line 1 must be {','.join(COLUMNS)}")
        for row in reader:
            if None in row or None in row.values():
                raise csv.Error(f"line {reader.line_num} has more or fewer fields than the first")
            yield reader.line_num, row
    except (UnicodeDecodeError, csv.Error) as error:
        raise GenlabError(f"{path} is not a CSV file in UTF-8: {error}", path=path) from error
