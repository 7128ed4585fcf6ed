"""What people say: stars, preferences between two images, opinions on explanations.

The last answer of a rater counts, and the same answer again (a double click) changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from sqlmodel import Session, col, select

from genlab.benchmark.store.schema import Opinion, Preference, Rating, RatingChange
from genlab.core.errors import GenlabError

MAX_RATER = 80

_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_HASH = re.compile(r"[0-9a-f]{8,128}")
_FORMULA = ("=", "+", "-", "@")  # a spreadsheet runs a cell that starts so


def _is_rater(name: str) -> bool:
    printable = bool(name.strip()) and name.isprintable()
    return printable and len(name) <= MAX_RATER and not name.startswith(_FORMULA)


def _is_stars(stars: Any) -> bool:
    return stars is None or (type(stars) is int and 1 <= stars <= 5)


CHECKS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "rater": (_is_rater, f"1 to {MAX_RATER} printable characters, none of = + - @ first"),
    "subject_kind": (_KIND.fullmatch, "a word such as run_item"),
    "subject_hash": (_HASH.fullmatch, "8 to 128 hexadecimal digits"),
    "stars": (_is_stars, "1, 2, 3, 4 or 5"),
}
"""Column -> its check, and what it must be."""
VALUES = {Rating: "stars", Preference: "winner", Opinion: "agrees"}


def check_columns(**columns: Any) -> None:
    """Raise a `GenlabError` that names the first column whose value is out of range."""
    for name, (is_valid, description) in CHECKS.items():
        if name in columns and not is_valid(columns[name]):
            got = str(columns[name])[:MAX_RATER]
            raise GenlabError(f"{name} must be {description}, got {got!r}", key=name)


def put_answer(
    session: Session,
    model: type[Rating | Preference | Opinion],
    key: Mapping[str, Any],
    answer: Mapping[str, Any],
    *,
    imported: bool = False,
) -> bool:
    """Keep an answer inside the caller's transaction; returns whether anything changed.

    key: the columns that say who answers what; answer: the other columns. A value (stars, agrees)
    of None takes the answer back. imported: it may be old, and gives way to what the rater said at
    that time or later. Raises a `GenlabError` for a column out of range.
    """
    check_columns(**key, **answer)
    value = answer[VALUES[model]]
    kept = session.exec(select(model).filter_by(**key)).first()
    if (getattr(kept, VALUES[model]) if kept else None) == value:
        return False
    if imported:
        history: Any = RatingChange if model is Rating else model
        latest = select(history.rated).filter_by(**key).order_by(col(history.rated).desc())
        if (session.exec(latest).first() or "") >= answer["rated"]:
            return False
    if model is Rating:
        change = {name: answer[name] for name in ("stars", "blind", "session", "rated")}
        session.add(RatingChange(**key, **change))
    if value is None:
        session.delete(kept)
        return True
    row = kept or model(**key)
    # What is not known now (a rating's item) stays as it was.
    session.add(row.sqlmodel_update({k: v for k, v in answer.items() if v is not None}))
    return True


def pair_key(rater: str, one: int, other: int) -> dict[str, Any]:
    """The key of a preference between two items."""
    return {"rater": rater, "first_item": min(one, other), "second_item": max(one, other)}
