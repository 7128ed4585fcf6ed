"""Answers of people: stars, preferences between two images, opinions on explanations.

The last answer of a rater counts; the same answer again (a double click) changes nothing.
Stars are exported and imported as a CSV file. Images are identified by their SHA-256; case
and tool are given for readers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlmodel import Session, select

from genlab.benchmark.store.schema import Opinion, Preference, Rating, utc
from genlab.core.errors import GenlabError, violations

KEY = ("subject_kind", "subject_hash", "rater", "context")
COLUMNS = ("subject_kind", "subject_hash", "rater", "stars", "context", "session", "rated")
VALUES = {Rating: "stars", Preference: "winner", Opinion: "agrees"}

EXPORT = f"""
    SELECT {", ".join(COLUMNS)}, coalesce(max(case_id), '') AS case_id,
        coalesce(max(tool_id), '') AS tool_id
    FROM human_scores LEFT JOIN run_items
        ON subject_kind = 'run_item' AND image_sha256 = subject_hash
    GROUP BY rating_id ORDER BY subject_kind, subject_hash, rater, context
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


def import_csv(session: Session, path: str | Path) -> int:
    """Keep all stars of a CSV file; returns how many changed anything.

    They belong to an image's content and are kept where this store lacks its run. Raises a
    `GenlabError` that names the line of the first fault; the caller's transaction then keeps
    nothing.
    """
    changed = 0
    try:
        lines = io.StringIO(Path(path).read_text(encoding="utf-8-sig"))
        reader = csv.DictReader(lines, strict=True)
        if missing := set(COLUMNS) - set(reader.fieldnames or ()):
            raise csv.Error(f"line 1 has no column {min(missing)}")
        for row in reader:
            if None in row or None in row.values():
                raise csv.Error(f"line {reader.line_num} has more or fewer fields than the first")
            try:
                changed += _import_row(session, row)
            except (GenlabError, ValueError) as error:
                key = error.key if isinstance(error, GenlabError) else "rated"
                line = f"{path}, line {reader.line_num}: {error}"
                raise GenlabError(line, key=key, path=path) from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise GenlabError(f"{path} is not a CSV file in UTF-8: {error}", path=path) from error
    return changed


def _import_row(session: Session, row: Mapping[str, str]) -> bool:
    answer = {
        "stars": int(row["stars"]) if row["stars"].isdecimal() else row["stars"],
        "session": row["session"],
        "rated": utc(datetime.fromisoformat(row["rated"])),
    }
    return put_answer(session, Rating, {name: row[name] for name in KEY}, answer, imported=True)
