"""What people say about images: stars, preferences between two of a case, opinions on explanations.

A rater's last answer counts; the same again (a double click) changes nothing.
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
"""Columns that say who answers what."""
VALUES: Mapping[type[SQLModel], str] = {Rating: "stars", Preference: "outcome", Opinion: "agrees"}
"""The column that is asked for."""

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
        """Give 1 to 5 stars to a subject, or delete one's rating with `None`.

        The last rating of a rater in a context counts. Returns whether anything changed.
        """
        subject = {"subject_kind": subject_kind, "subject_hash": subject_hash, "context": context}
        answer = {"rater": rater, "stars": stars, "session": session, "rated": now()}
        return self._keep(Rating, {**subject, **answer})

    def ratings(
        self, subject_kind: str | None = None, rater: str | None = None, context: str | None = None
    ) -> list[Rating]:
        """The ratings of a kind, rater or context; of all where none is named."""
        return self.find(Rating, subject_kind=subject_kind, rater=rater, context=context)

    def prefer(
        self, rater: str, item: int, other: int, outcome: Outcome = "first", *, session: str = ""
    ) -> bool:
        """Keep which of two items of one case `rater` preferred.

        outcome: `first` is `item`, `second` is `other`. Returns whether anything changed.
        """
        cases = {one.item_id: one.case_id for one in map(self._find_item, (item, other))}
        if len(cases) != 2 or len(set(cases.values())) != 1:
            raise GenlabError(f"items {item} and {other} are not two items of one case")
        pair = order_pair(item, other, outcome)
        return self._keep(Preference, {**pair, "rater": rater, "session": session, "rated": now()})

    def opine(
        self,
        dataset: str,
        subject_kind: str,
        subject_hash: str,
        hypothesis: str,
        rater: str,
        agrees: bool | None,
    ) -> bool:
        """Keep whether `rater` agrees that `hypothesis` explains a failure; None takes it back.

        Returns whether anything changed.
        """
        subject = {"subject_kind": subject_kind, "subject_hash": subject_hash, "dataset": dataset}
        answer = {"hypothesis": hypothesis, "rater": rater, "agrees": agrees, "said": now()}
        return self._keep(Opinion, {**subject, **answer})

    def add(self, model: Answer, answers: Iterable[tuple[str, Values]], path: Path) -> int:
        """Add answers of the file `path`, all or none; newer ones of this store are kept.

        answers: (where it stands, its columns). Returns how many changed anything. Raises a
        `GenlabError` that names the place of the first fault.
        """
        changed = 0
        with self._session(write=True) as session:
            for place, values in answers:
                try:
                    changed += _put(session, model, values, since=values["rated"])
                except GenlabError as error:
                    raise GenlabError(f"{place}: {error}", key=error.key, path=path) from error
        return changed

    def _keep(self, model: Answer, values: Values) -> bool:
        with self._session(write=True) as session:
            return _put(session, model, values)

    def _find_item(self, item_id: int) -> ItemResult:
        for item in self.find(ItemResult, item_id=item_id):
            return item
        raise GenlabError(f"{self.path}: no item has the number {item_id}", key="item_id")


def order_pair(item: int, other: int, outcome: Outcome) -> dict[str, Any]:
    """The columns of a preference between two items; the smaller number comes first."""
    if item > other:
        item, other = other, item
        outcome = SWAPPED.get(outcome, outcome)
    return {"first_item": item, "second_item": other, "outcome": outcome}


def _put(session: Session, model: Answer, values: Values, since: str = "") -> bool:
    """Keep an answer inside the caller's transaction; returns whether anything changed.

    values: its columns; None for what is asked deletes the answer; since: of an answer in a file,
    its time: one of that time or later is kept instead. Raises a `GenlabError` for a column out of
    range.
    """
    name = VALUES[model]
    key = {column: values[column] for column in KEYS[model]}
    kept: Any = session.exec(select(model).filter_by(**key)).first()
    if values[name] is None and not since:
        if kept is not None:
            session.delete(kept)
        return kept is not None
    try:
        given = model.model_validate(values)
    except ValidationError as error:
        column, line = list_violations(error)[0]
        raise GenlabError(line, key=column) from error
    if kept is None:
        session.add(given)
        return True
    if getattr(kept, name) == getattr(given, name) or (since and kept.rated >= since):
        return False
    session.add(kept.sqlmodel_update(dict(values)))
    return True
