"""People's stars: what counts, what is remembered, and how they travel as CSV.

The functions work inside a transaction that `genlab.core.store` opens.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, text

from genlab.core.artifacts import write_text
from genlab.core.console import GenlabError
from genlab.core.database import utc

COLUMNS = (
    *("subject_kind", "subject_hash", "rater", "stars", "blind", "session", "rated"),
    *("run_id", "case_id", "tool_id"),
)
MAX_RATER = 80
MAX_CSV = 64 << 20  # bytes: some 300,000 ratings

_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_HASH = re.compile(r"[0-9a-f]{8,128}")
# A spreadsheet would run what begins so.
_FORMULA = ("=", "+", "-", "@")

_HELD = """
    SELECT stars, rated FROM human_scores
    WHERE subject_kind = :kind AND subject_hash = :hash AND rater = :rater
"""
_LATEST = """
    SELECT max(rated) FROM human_score_history
    WHERE subject_kind = :kind AND subject_hash = :hash AND rater = :rater
"""
_RATE = """
    INSERT INTO human_scores
        (subject_kind, subject_hash, rater, stars, blind, session, run_item_id, rated)
    VALUES (:kind, :hash, :rater, :stars, :blind, :session, :item, :rated)
    ON CONFLICT (subject_kind, subject_hash, rater) DO UPDATE SET
        stars = :stars, blind = :blind, session = :session, rated = :rated,
        run_item_id = coalesce(:item, run_item_id)
"""
_FORGET = """
    DELETE FROM human_scores
    WHERE subject_kind = :kind AND subject_hash = :hash AND rater = :rater
"""
_REMEMBER = """
    INSERT INTO human_score_history
        (subject_kind, subject_hash, rater, stars, blind, session, rated)
    VALUES (:kind, :hash, :rater, :stars, :blind, :session, :rated)
"""
_ITEM = """
    SELECT item_id FROM run_items
    WHERE run_id = :run_id AND case_id = :case_id AND tool_id = :tool_id
"""
_EXPORT = """
    SELECT subject_kind, subject_hash, rater, stars, blind, session, rated,
        coalesce(run_id, ''), coalesce(case_id, ''), coalesce(tool_id, '')
    FROM human_scores LEFT JOIN run_items ON item_id = run_item_id
    ORDER BY subject_kind, subject_hash, rater
"""


def check_rater(rater: str) -> None:
    """Raise a `GenlabError` where `rater` can't be a rater's name."""
    if not rater.strip() or len(rater) > MAX_RATER or not rater.isprintable():
        raise GenlabError(
            f"a rater's name is 1 to {MAX_RATER} printable characters, got {rater[:MAX_RATER]!r};"
            " choose another"
        )
    if rater.startswith(_FORMULA):
        raise GenlabError(
            f"a rater's name can't begin with {rater[0]!r}, which spreadsheets run as a formula,"
            f" got {rater!r}; choose another"
        )


def check_rating(kind: str, subject_hash: str, rater: str, stars: int | None) -> None:
    """Raise a `GenlabError` of one line where a part of a rating is out of its range."""
    check_rater(rater)
    if stars is not None and (type(stars) is not int or not 1 <= stars <= 5):
        raise GenlabError(f"stars must be 1, 2, 3, 4 or 5, got {stars!r}")
    if not _KIND.fullmatch(kind):
        raise GenlabError(f"a subject's kind is a word such as run_item, got {kind[:60]!r}")
    if not _HASH.fullmatch(subject_hash):
        raise GenlabError(
            f"a subject's hash is 8 to 128 hexadecimal digits, got {subject_hash[:60]!r}"
        )


def put(connection: Connection, rating: Mapping[str, Any], *, older: bool = False) -> bool:
    """Put a rating in (`stars` None takes it back); returns whether anything changed.

    rating: kind, hash, rater, stars, blind, session, item (or None), rated. The same stars again
    change nothing. older: the rating may be from the past (an import) and gives way to anything
    that the same rater said of the subject at that time or later.
    """
    held = connection.execute(text(_HELD), rating).first()
    if (held is None and rating["stars"] is None) or (held and held.stars == rating["stars"]):
        return False
    if older:
        latest = connection.execute(text(_LATEST), rating).scalar()
        if latest is not None and latest >= rating["rated"]:
            return False
    connection.execute(text(_FORGET if rating["stars"] is None else _RATE), rating)
    connection.execute(text(_REMEMBER), rating)
    return True


def export_csv(connection: Connection, path: str | Path) -> int:
    """Write the ratings that count as CSV, always in the same order; returns how many."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for row in connection.execute(text(_EXPORT)):
        writer.writerow(row)
        count += 1
    write_text(path, buffer.getvalue())
    return count


def import_csv(connection: Connection, path: str | Path) -> int:
    """Put all ratings of a CSV in; returns how many changed anything.

    An item is found again by run, case and tool where this store has it. Raises a `GenlabError`
    that names the line of the first fault; the caller's transaction then keeps nothing.
    """
    count = 0
    for line, row in _read(Path(path)):
        try:
            rating = _rating(row)
        except GenlabError as error:
            raise GenlabError(f"{path}, line {line}: {error}") from error
        rating["item"] = connection.execute(text(_ITEM), row).scalar()
        count += put(connection, rating, older=True)
    return count


def _read(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    if path.stat().st_size > MAX_CSV:
        raise GenlabError(f"{path} is over {MAX_CSV >> 20} MiB; split it")
    try:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")), strict=True)
        absent = [name for name in COLUMNS[:7] if name not in (reader.fieldnames or ())]
        if absent:
            raise GenlabError(
                f"{path} has no column {absent[0]!r}; its first line names the columns:"
                f" {','.join(COLUMNS)}"
            )
        for row in reader:
            if None in row or None in row.values():
                raise GenlabError(
                    f"{path}, line {reader.line_num}: it has more or fewer fields than the first"
                    " line names; mend it"
                )
            yield reader.line_num, {name: row.get(name, "") for name in COLUMNS}
    except UnicodeDecodeError as error:
        raise GenlabError(f"{path} is not UTF-8 text; save it as UTF-8") from error
    except csv.Error as error:
        raise GenlabError(f"{path} is no CSV: {error}; mend it") from error


def _rating(row: Mapping[str, str]) -> dict[str, Any]:
    if row["stars"] not in ("1", "2", "3", "4", "5"):
        raise GenlabError(f"stars must be 1, 2, 3, 4 or 5, got {row['stars']!r}")
    if row["blind"] not in ("0", "1"):
        raise GenlabError(f"blind must be 0 or 1, got {row['blind']!r}")
    try:
        moment = datetime.fromisoformat(row["rated"].replace("Z", "+00:00"))
    except ValueError as error:
        raise GenlabError(f"rated must be a time in ISO 8601, got {row['rated']!r}") from error
    stars = int(row["stars"])
    check_rating(row["subject_kind"], row["subject_hash"], row["rater"], stars)
    return {
        "kind": row["subject_kind"],
        "hash": row["subject_hash"],
        "rater": row["rater"],
        "stars": stars,
        "blind": row["blind"] == "1",
        "session": row["session"],
        "rated": utc(moment),
    }
