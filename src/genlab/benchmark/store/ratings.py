"""What people say: stars, preferences between two images, opinions on explanations.

Each function works inside a transaction of the caller and returns whether anything changed: the
last answer of a rater counts, and the same answer again (a double click) changes nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar

from sqlmodel import Session, SQLModel, col, select

from genlab.benchmark.store.schema import Opinion, Preference, Rating, RatingChange
from genlab.core.errors import GenlabError

MAX_RATER = 80

_KIND = re.compile(r"[a-z][a-z0-9_]{0,39}")
_HASH = re.compile(r"[0-9a-f]{8,128}")
_FORMULA = ("=", "+", "-", "@")  # a spreadsheet runs a cell that starts so

Row = TypeVar("Row", bound=SQLModel)


def check_rater(rater: str) -> None:
    """Raise a `GenlabError` where `rater` cannot be a rater's name."""
    printable = rater.strip() and rater.isprintable()
    if not printable or len(rater) > MAX_RATER or rater.startswith(_FORMULA):
        raise GenlabError(
            f"a rater's name is 1 to {MAX_RATER} printable characters and does not begin with"
            f" {' '.join(_FORMULA)}, got {rater[:MAX_RATER]!r}; choose another",
            key="rater",
        )


def check_subject(kind: str, subject_hash: str) -> None:
    """Raise a `GenlabError` where these cannot name what was shown to a person."""
    if not _KIND.fullmatch(kind):
        raise GenlabError(
            f"a subject's kind is a word such as run_item, got {kind[:60]!r}", key="subject_kind"
        )
    if not _HASH.fullmatch(subject_hash):
        raise GenlabError(
            f"a subject's hash is 8 to 128 hexadecimal digits, got {subject_hash[:60]!r}",
            key="subject_hash",
        )


def put_rating(session: Session, rating: Mapping[str, Any], *, imported: bool = False) -> bool:
    """Keep a rating; `stars` None takes it back.

    rating: the columns of `Rating`. imported: it may be old, and gives way to what the same rater
    said about the subject at that time or later. Raises a `GenlabError` for a part out of range.
    """
    stars = rating["stars"]
    check_rater(rating["rater"])
    if stars is not None and (type(stars) is not int or not 1 <= stars <= 5):
        raise GenlabError(f"stars must be 1, 2, 3, 4 or 5, got {stars!r}", key="stars")
    check_subject(rating["subject_kind"], rating["subject_hash"])
    key = {name: rating[name] for name in ("subject_kind", "subject_hash", "rater")}
    kept = _find(session, Rating, key)
    if (kept.stars if kept else None) == stars:
        return False
    if imported:
        history = select(RatingChange).filter_by(**key).order_by(col(RatingChange.rated).desc())
        latest = session.exec(history).first()
        if latest is not None and latest.rated >= rating["rated"]:
            return False
    session.add(RatingChange(**{name: rating[name] for name in rating if name != "run_item_id"}))
    if stars is None:
        session.delete(kept)
        return True
    # A rating without an item keeps the one that was known before.
    return _put(session, Rating, kept, {k: v for k, v in rating.items() if v is not None})


def put_preference(
    session: Session, rater: str, winner: int, loser: int, *, visit: str, rated: str
) -> bool:
    """Keep which of two items a rater preferred; an answer older than the one kept gives way."""
    check_rater(rater)
    first, second = sorted((winner, loser))
    pair = {"rater": rater, "first_item": first, "second_item": second}
    kept = _find(session, Preference, pair)
    if kept is not None and (kept.winner == winner or kept.rated >= rated):
        return False
    answer = {"winner": winner, "session": visit, "rated": rated}
    return _put(session, Preference, kept, {**pair, **answer})


def put_opinion(session: Session, opinion: Mapping[str, Any]) -> bool:
    """Keep whether a rater agrees with an explanation; `agrees` None takes the answer back.

    opinion: the columns of `Opinion`.
    """
    check_rater(opinion["rater"])
    check_subject(opinion["subject_kind"], opinion["subject_hash"])
    key = {name: opinion[name] for name in ("subject_hash", "hypothesis", "rater")}
    kept = _find(session, Opinion, key)
    if (kept.agrees if kept else None) == opinion["agrees"]:
        return False
    if opinion["agrees"] is None:
        session.delete(kept)
        return True
    answer = {"agrees": opinion["agrees"], "said": opinion["said"]}
    return _put(session, Opinion, kept, answer if kept else opinion)


def _find(session: Session, model: type[Row], key: Mapping[str, Any]) -> Row | None:
    return session.exec(select(model).filter_by(**key)).first()


def _put(session: Session, model: type[Row], kept: Row | None, values: Mapping[str, Any]) -> bool:
    """Change the row `kept`, or add one where there is none."""
    row = kept.sqlmodel_update(dict(values)) if kept else model(**values)
    session.add(row)
    return True
