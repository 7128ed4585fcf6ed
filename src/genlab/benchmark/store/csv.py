"""Stars and preferences as one CSV file, to keep under version control or to send.

A line is an answer of one person. Stars: `stars` is 1 to 5, and the `over_` columns are empty. A
preference: `stars` is empty, and the line's picture was preferred to that of `over_tool_id` in
`over_run_id`, of the same case. Files written before preferences travelled lack the `over_`
columns and are taken as they are. The functions work inside a transaction of `genlab.benchmark.store.repository`.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import Connection, text

from genlab.benchmark.store.database import utc
from genlab.benchmark.store.ratings import check_rater, check_rating, prefer, put
from genlab.core.errors import GenlabError
from genlab.core.io import write_text

NEEDED = ("subject_kind", "subject_hash", "rater", "stars", "blind", "session", "rated")
ITEM = ("run_id", "case_id", "tool_id")
OVER = ("over_hash", "over_run_id", "over_tool_id")
COLUMNS = (*NEEDED, *ITEM, *OVER)
MAX_CSV = 64 << 20  # bytes: some 300,000 answers
PICTURE = "run_item"
"""The kind of what is preferred: pictures of runs alone."""

_FIND = "SELECT item_id FROM run_items WHERE run_id = :run AND case_id = :case AND tool_id = :tool"
_SAME = f"{_FIND} AND image_sha256 = :hash"
_STARS = """
    SELECT subject_kind, subject_hash, rater, stars, blind, session, rated,
        coalesce(run_id, ''), coalesce(case_id, ''), coalesce(tool_id, ''), '', '', ''
    FROM human_scores LEFT JOIN run_items ON item_id = run_item_id
    ORDER BY subject_kind, subject_hash, rater
"""
# Which of two was the better one is asked with the tools hidden, always.
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
    """How many answers of a CSV changed anything, and preferences whose pictures are not here."""

    changed: int
    homeless: int


def export_csv(connection: Connection, path: str | Path) -> int:
    """Write the answers that count as CSV, always in the same order; returns how many."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(COLUMNS)
    count = 0
    for query in (_STARS, _PREFERENCES):
        for row in connection.execute(text(query)):
            writer.writerow(row)
            count += 1
    write_text(path, buffer.getvalue())
    return count


def import_csv(connection: Connection, path: str | Path) -> Imported:
    """Put all answers of a CSV in.

    Stars hang on a picture's content, so they are taken even where this store lacks its run. A
    preference needs both of its pictures here, the same ones; where they are not it is counted as
    homeless. Raises a `GenlabError` that names the line of the first fault; the caller's
    transaction then keeps nothing.
    """
    changed = homeless = 0
    for line, row in _read(Path(path)):
        try:
            if row["stars"] or not row["over_tool_id"]:
                rating = _rating(row)
                rating["item"] = _item(connection, _FIND, row)
                changed += put(connection, rating, older=True)
                continue
            preference = _preference(row)
        except GenlabError as error:
            raise GenlabError(f"{path}, line {line}: {error}") from error
        winner = _item(connection, _SAME, row)
        loser = _item(connection, _SAME, row, over="over_")
        if winner is None or loser is None:
            homeless += 1
        else:
            pair = {"winner": winner, "loser": loser}
            changed += prefer(connection, {**preference, **pair})
    return Imported(changed, homeless)


def _item(connection: Connection, query: str, row: Mapping[str, str], over: str = "") -> int | None:
    values = {"run": row[f"{over}run_id"], "case": row["case_id"], "tool": row[f"{over}tool_id"]}
    values["hash"] = row["over_hash" if over else "subject_hash"]
    found: int | None = connection.execute(text(query), values).scalar()
    return found


def _read(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    if path.stat().st_size > MAX_CSV:
        raise GenlabError(f"{path} is over {MAX_CSV >> 20} MiB; split it")
    try:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")), strict=True)
        absent = [name for name in NEEDED if name not in (reader.fieldnames or ())]
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
    stars = int(row["stars"])
    check_rating(row["subject_kind"], row["subject_hash"], row["rater"], stars)
    return {
        "kind": row["subject_kind"],
        "hash": row["subject_hash"],
        "rater": row["rater"],
        "stars": stars,
        "blind": row["blind"] == "1",
        "session": row["session"],
        "rated": _moment(row),
    }


def _preference(row: Mapping[str, str]) -> dict[str, Any]:
    check_rater(row["rater"])
    if row["subject_kind"] != PICTURE:
        raise GenlabError(
            f"a preference is between two of {PICTURE}, got {row['subject_kind'][:60]!r}"
        )
    if (row["run_id"], row["tool_id"]) == (row["over_run_id"], row["over_tool_id"]):
        raise GenlabError(f"a preference is between two pictures, got {row['tool_id']!r} twice")
    return {"rater": row["rater"], "session": row["session"], "rated": _moment(row)}


def _moment(row: Mapping[str, str]) -> str:
    try:
        return utc(datetime.fromisoformat(row["rated"].replace("Z", "+00:00")))
    except ValueError as error:
        raise GenlabError(f"rated must be a time in ISO 8601, got {row['rated']!r}") from error
