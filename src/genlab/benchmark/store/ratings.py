"""Answers of people: stars, preferences between two images, opinions on explanations.

The last answer of a rater counts; the same answer again (a double click) changes nothing.
`export_csv` and `import_csv` keep stars and preferences as one CSV file. A row is one answer: with
`stars` (1 to 5) a rating; with `over_hash` a preference for the image `subject_hash` over that one.
Images are identified by their SHA-256; case and tool are given for readers.
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

RATED = ("subject_kind", "subject_hash", "rater", "stars", "context", "session", "rated")
COLUMNS = (*RATED, "over_hash", "case_id", "tool_id")
VALUES = {Rating: "stars", Preference: "winner", Opinion: "agrees"}

_STARS = """
    SELECT subject_kind, subject_hash, rater, stars, context, session, rated, '',
        coalesce(max(case_id), ''), coalesce(max(tool_id), '')
    FROM human_scores LEFT JOIN run_items
        ON subject_kind = 'run_item' AND image_sha256 = subject_hash
    GROUP BY rating_id ORDER BY subject_kind, subject_hash, rater, context
"""
_PREFERENCES = """
    SELECT 'run_item', better.image_sha256, rater, '', 'blind', session, rated,
        worse.image_sha256, better.case_id, better.tool_id
    FROM preferences
    JOIN run_items AS better ON better.item_id = winner
    JOIN run_items AS worse ON worse.item_id = first_item + second_item - winner
    ORDER BY better.case_id, better.image_sha256, worse.image_sha256, rater
"""
_FIND = "SELECT min(item_id) FROM run_items WHERE case_id = :case_id AND image_sha256 = :sha"


def put_answer(
    session: Session,
    model: type[Rating | Preference | Opinion],
    key: Mapping[str, Any],
    answer: Mapping[str, Any] | None,
    *,
    imported: bool = False,
) -> bool:
    """Keep an answer inside the caller's transaction; returns whether anything changed.

    key: the columns that say who answers what; answer: the other columns, None to delete the
    answer. imported: whether an answer of the same time or later is kept instead. Raises a
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
    session.add(kept.sqlmodel_update(dict(answer)))
    return True


def pair_key(rater: str, one: int, other: int) -> dict[str, Any]:
    """The key of a preference between two items."""
    return {"rater": rater, "first_item": min(one, other), "second_item": max(one, other)}


class Imported(NamedTuple):
    """Answers of a CSV file that changed anything, and preferences whose images are missing."""

    changed: int
    missing: int


def export_csv(session: Session, path: str | Path) -> int:
    """Write all answers as CSV in a fixed order; returns how many."""
    connection = session.connection()
    rows = [row for query in (_STARS, _PREFERENCES) for row in connection.execute(text(query))]
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows([COLUMNS, *rows])
    write_text(path, buffer.getvalue())
    return len(rows)


def import_csv(session: Session, path: str | Path) -> Imported:
    """Keep all answers of a CSV file.

    Stars belong to an image's content and are kept where this store lacks its run; a preference
    needs both images. Raises a `GenlabError` that names the line of the first fault; the caller's
    transaction then keeps nothing.
    """
    changed = missing = 0
    for line, row in _read(Path(path)):
        try:
            row["rated"] = utc(datetime.fromisoformat(row["rated"]))
            outcome = _import_row(session, row)
        except (GenlabError, ValueError) as error:
            key = error.key if isinstance(error, GenlabError) else "rated"
            raise GenlabError(f"{path}, line {line}: {error}", key=key, path=path) from error
        changed += bool(outcome)
        missing += outcome is None
    return Imported(changed, missing)


def _import_row(session: Session, row: Mapping[str, str]) -> bool | None:
    """Whether it changed anything; None for a preference whose images are missing."""
    answer: dict[str, Any] = {name: row[name] for name in ("session", "rated")}
    if not row["over_hash"]:
        key = {name: row[name] for name in ("subject_kind", "subject_hash", "rater", "context")}
        stars = int(row["stars"]) if row["stars"].isdecimal() else row["stars"]
        return put_answer(session, Rating, key, {**answer, "stars": stars}, imported=True)
    winner, loser = (
        session.connection().scalar(text(_FIND), {"case_id": row["case_id"], "sha": sha})
        for sha in (row["subject_hash"], row["over_hash"])
    )
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
