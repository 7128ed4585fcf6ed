"""People's answers about images: stars, preferences between two images of a case, and opinions.

An opinion says whether an explanation of a failure is right. A rater's last answer counts; a
repeated answer (a double click) changes nothing.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from sqlmodel import Session, SQLModel, select

from genlab.benchmark.store.database import Database
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.schema import Context, Opinion, Outcome, Preference, Rating, now
from genlab.core.errors import GenlabError, list_violations

Answer = type[Rating] | type[Preference] | type[Opinion]
Values = Mapping[str, Any]

KEYS: Mapping[type[SQLModel], tuple[str, ...]] = {
    Rating: ("subject_kind", "subject_hash", "rater", "context"),
    Preference: ("rater", "first_item", "second_item"),
    Opinion: ("subject_hash", "hypothesis", "rater"),
}
"""Columns that identify an answer: who answers about what."""
VALUES: Mapping[type[SQLModel], str] = {Rating: "stars", Preference: "outcome", Opinion: "agrees"}
"""Column that holds the answer."""

SWAPPED: Mapping[str, Outcome] = {"first": "second", "second": "first"}


class Answers(Database):
    """People's answers about the items of a store."""

    def rate(
        self,
        subject_kind: str,
        subject_hash: str,
        rater: str,
        stars: int | None,
        context: Context,
        *,
        session: str = "",
    ) -> bool:
        """Give 1 to 5 stars to a subject, or delete the rater's rating with `None`.

        The last rating of a rater in a context counts. Returns whether anything changed.
        """
        subject = {"subject_kind": subject_kind, "subject_hash": subject_hash, "context": context}
        answer = {"rater": rater, "stars": stars, "session": session, "rated": now()}
        return self._save(Rating, {**subject, **answer})

    def ratings(
        self, subject_kind: str | None = None, rater: str | None = None, context: str | None = None
    ) -> list[Rating]:
        """Return the ratings of a kind of subject, a rater and a context (None: any)."""
        return self.find(Rating, subject_kind=subject_kind, rater=rater, context=context)

    def prefer(
        self, rater: str, first: int, second: int, outcome: Outcome = "first", *, session: str = ""
    ) -> bool:
        """Save which of two items of one case a rater prefers. first, second: ids of the items.

        Returns whether anything changed.
        """
        first_case = self._find_item(first).case_id
        second_case = self._find_item(second).case_id
        if first == second or first_case != second_case:
            raise GenlabError(f"items {first} and {second} are not two items of one case")
        pair = order_pair(first, second, outcome)
        return self._save(Preference, {**pair, "rater": rater, "session": session, "rated": now()})

    def opine(
        self,
        dataset: str,
        subject_kind: str,
        subject_hash: str,
        hypothesis: str,
        rater: str,
        agrees: bool | None,
    ) -> bool:
        """Save whether a rater agrees that `hypothesis` explains a failure; None deletes that.

        Returns whether anything changed.
        """
        subject = {"subject_kind": subject_kind, "subject_hash": subject_hash, "dataset": dataset}
        answer = {"hypothesis": hypothesis, "rater": rater, "agrees": agrees, "said": now()}
        return self._save(Opinion, {**subject, **answer})

    def add(self, model: Answer, answers: Iterable[tuple[str, Values]], path: Path) -> int:
        """Add the answers of a file, all or none. Newer answers of this store stay.

        answers: (where the answer stands in the file, its columns). Returns how many changed
        anything. Raises a `GenlabError` that names the place of the first fault.
        """
        changed = 0
        with self._session(write=True) as session:
            for place, values in answers:
                try:
                    changed += _put(session, model, values, since=values["rated"])
                except GenlabError as error:
                    raise GenlabError(f"{place}: {error}", key=error.key, path=path) from error
        return changed

    def _save(self, model: Answer, values: Values) -> bool:
        with self._session(write=True) as session:
            return _put(session, model, values)

    def _find_item(self, item_id: int) -> ItemResult:
        for item in self.find(ItemResult, item_id=item_id):
            return item
        raise GenlabError(f"{self.path}: no item has the number {item_id}", key="item_id")


def order_pair(first: int, second: int, outcome: Outcome) -> dict[str, Any]:
    """Return the columns of a preference between two items, with the smaller id first."""
    if first > second:
        first, second = second, first
        outcome = SWAPPED.get(outcome, outcome)
    return {"first_item": first, "second_item": second, "outcome": outcome}


def _put(session: Session, model: Answer, values: Values, since: str = "") -> bool:
    """Save an answer in the caller's transaction; returns whether anything changed.

    values: columns of the answer; None in the column of `VALUES` deletes it. since: time of an
    answer from a file, which replaces only older ones; "" replaces any. Raises a `GenlabError` for
    a column out of range.
    """
    name = VALUES[model]
    key = {column: values[column] for column in KEYS[model]}
    stored: Any = session.exec(select(model).filter_by(**key)).first()
    if values[name] is None and not since:
        if stored is not None:
            session.delete(stored)
        return stored is not None
    try:
        answer = model.model_validate(values)
    except ValidationError as error:
        column, line = list_violations(error)[0]
        raise GenlabError(line, key=column) from error
    if stored is None:
        session.add(answer)
        return True
    if getattr(stored, name) == getattr(answer, name):
        return False
    if since and stored.rated >= since:
        return False
    session.add(stored.sqlmodel_update(dict(values)))
    return True
