"""What people say: stars, preferences between two pictures, opinions on explanations.

The functions work inside a transaction that `genlab.benchmark.store.repository` opens. `genlab.benchmark.store.csv`
carries stars and preferences from one store to another.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, text

from genlab.core.errors import GenlabError

MAX_RATER = 80

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
_PREFER = """
    INSERT INTO preferences (rater, first_item, second_item, winner, session, rated)
    VALUES (:rater, :first, :second, :winner, :session, :rated)
    ON CONFLICT (rater, first_item, second_item) DO UPDATE SET
        winner = :winner, session = :session, rated = :rated
    WHERE winner <> :winner AND rated < :rated
"""
_OPINE = """
    INSERT INTO opinions (dataset, subject_kind, subject_hash, hypothesis, rater, agrees, said)
    VALUES (:dataset, :kind, :hash, :hypothesis, :rater, :agrees, :said)
    ON CONFLICT (subject_hash, hypothesis, rater) DO UPDATE SET agrees = :agrees, said = :said
    WHERE agrees <> :agrees
"""
_UNSAY = """
    DELETE FROM opinions
    WHERE subject_hash = :hash AND hypothesis = :hypothesis AND rater = :rater
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
    check_subject(kind, subject_hash)


def check_subject(kind: str, subject_hash: str) -> None:
    """Raise a `GenlabError` of one line where these can't name what was shown to a person."""
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


def prefer(connection: Connection, preference: Mapping[str, Any]) -> bool:
    """Put a preference in; returns whether anything changed.

    preference: rater, winner and loser (numbers of items), session, rated. The last answer to a
    pair counts: an older one gives way, the same one again changes nothing.
    """
    first, second = sorted((preference["winner"], preference["loser"]))
    values = {**preference, "first": first, "second": second}
    return bool(connection.execute(text(_PREFER), values).rowcount)


def opine(connection: Connection, opinion: Mapping[str, Any]) -> bool:
    """Put an opinion in (`agrees` None takes it back); returns whether anything changed.

    opinion: dataset, kind, hash, hypothesis, rater, agrees, said.
    """
    statement = _UNSAY if opinion["agrees"] is None else _OPINE
    return bool(connection.execute(text(statement), opinion).rowcount)
