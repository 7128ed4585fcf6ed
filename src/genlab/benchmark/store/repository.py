"""What a benchmark did and what people said of it, in one SQLite file under `runs/`.

Every call is one transaction (`genlab.benchmark.store.database` says what that holds). A database of an older
genlab takes the steps it lacks (`store_migrations`); one that is damaged, foreign or newer is
refused with one line and is never replaced.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from sqlalchemy import insert, text
from sqlalchemy.exc import IntegrityError
from sqlmodel import col, select, update

from genlab.benchmark.store import csv as ratings_csv
from genlab.benchmark.store import ratings
from genlab.benchmark.store.csv import Imported
from genlab.benchmark.store.database import Database, now
from genlab.benchmark.store.schema import (
    FINISHED,
    STATUSES,
    Item,
    Opinion,
    Preference,
    Rating,
    Run,
    Status,
)
from genlab.core.errors import GenlabError

__all__ = [
    "FINISHED",
    "STATUSES",
    "Item",
    "Opinion",
    "Preference",
    "Rating",
    "Run",
    "Status",
    "Store",
    "now",
]

ITEM_COLUMNS = frozenset(Item.model_fields) - {"item_id", "run_id", "case_id", "tool_id", "updated"}
_NUMBERS = "SELECT item_id FROM run_items"


class Store:
    """Runs, their items, and people's ratings. Close it, or use it as a context."""

    def __init__(self, path: str | Path) -> None:
        """Open the database at `path`, or make it where there is no such file.

        Raises a `GenlabError` of one line where the file is damaged, foreign or too new.
        """
        self.path = Path(path)
        self.database = Database(self.path)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file."""
        self.database.close()

    # runs

    def create_run(
        self,
        run_id: str,
        created: str,
        options: Mapping[str, Any],
        cases: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
    ) -> Run:
        """Keep a new run with an item, queued, for each case and tool.

        cases: each with `case_id`; tools: each with `tool_id`. Raises a `GenlabError` where the
        run is there already.
        """
        run: dict[str, Any] = {"run_id": run_id, "created": created, "options": dict(options)}
        run |= {"cases": [dict(case) for case in cases], "tools": [dict(tool) for tool in tools]}
        items = [
            {"run_id": run_id, "case_id": case["case_id"], "tool_id": tool["tool_id"]}
            for case in cases
            for tool in tools
        ]
        try:
            with self.database.writing() as connection:
                connection.execute(insert(Run).values(**run))
                if items:
                    connection.execute(insert(Item).values(updated=created), items)
        except IntegrityError as error:
            raise GenlabError(
                f"{self.path}: run {run_id!r} is there already, or a case or tool stands in it"
                " twice; name each once, or choose another run"
            ) from error
        return self.run(run_id)

    def runs(self) -> list[Run]:
        """All runs, the newest first."""
        with self.database.reading() as session:
            newest = (col(Run.created).desc(), col(Run.run_id).desc())
            return list(session.exec(select(Run).order_by(*newest)))

    def run(self, run_id: str) -> Run:
        """One run. Raises a `GenlabError` that names the last ones where there is no such run."""
        with self.database.reading() as session:
            found = session.get(Run, run_id)
        if found is None:
            known = ", ".join(run.run_id for run in self.runs()[:5]) or "none yet"
            raise GenlabError(f"{self.path}: no run is called {run_id!r}; the last ones: {known}")
        return found

    def end_run(self, run_id: str, ending: str) -> None:
        """Note how a run ended (`finished`, `cancelled`), or with "" that it goes on."""
        values = {"ending": ending, "ended": now() if ending else None}
        with self.database.writing() as connection:
            connection.execute(update(Run).where(col(Run.run_id) == run_id).values(**values))

    # items

    def items(self, run_id: str | None = None) -> list[Item]:
        """The items of a run (of all runs, where none is named) in the order they were queued."""
        query = select(Item).order_by(col(Item.item_id))
        if run_id is not None:
            query = query.where(col(Item.run_id) == run_id)
        with self.database.reading() as session:
            return list(session.exec(query))

    def item(self, item_id: int) -> Item:
        """One item. Raises a `GenlabError` where there is none."""
        with self.database.reading() as session:
            found = session.get(Item, item_id)
        if found is None:
            raise GenlabError(f"{self.path}: no item has the number {item_id}; list its run")
        return found

    def set_item(self, item_id: int, **changes: Any) -> None:
        """Change columns of an item: `set_item(3, status="scored", score=0.9)`."""
        self.set_items([(item_id, changes)])

    def set_items(self, changes: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Change several items in one transaction, in order: all of it is kept or nothing."""
        moment = now()
        with self.database.writing() as connection:
            for names, alike in groupby(changes, key=lambda change: tuple(change[1])):
                unknown = sorted(set(names) - ITEM_COLUMNS)
                if unknown:
                    raise ValueError(f"an item has no column {unknown[0]!r} to set")
                rows = [
                    {name: _plain(value) for name, value in values.items()}
                    | {"updated": moment, "item_id": item_id}
                    for item_id, values in alike
                ]
                # Written out: SQLAlchemy's own update takes twenty times as long, and a run waits.
                columns = ", ".join(f"{name} = :{name}" for name in (*names, "updated"))
                query = text(f"UPDATE run_items SET {columns} WHERE item_id = :item_id")
                if connection.execute(query, rows).rowcount != len(rows):
                    known = {number for (number,) in connection.execute(text(_NUMBERS))}
                    lost = next(row["item_id"] for row in rows if row["item_id"] not in known)
                    raise GenlabError(f"{self.path}: no item has the number {lost}")

    def progress(self, run_id: str) -> dict[Status, int]:
        """How many items of a run stand at each status."""
        rows = self.rows(
            "SELECT status, count(*) FROM run_items WHERE run_id = :run GROUP BY status",
            run=run_id,
        )
        counted = dict(rows)
        return {status: counted.get(status, 0) for status in STATUSES}

    def spent(self, run_id: str) -> float:
        """Dollars of a run, those of attempts that failed included."""
        ((total,),) = self.rows(
            "SELECT coalesce(sum(cost), 0) FROM run_items WHERE run_id = :run", run=run_id
        )
        return float(total)

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """Rows of a SELECT of the caller's, with `:name` for its values: for tables of numbers."""
        with self.database.connected() as connection:
            return [tuple(row) for row in connection.execute(text(query), values)]

    # people

    def rate(
        self,
        subject_kind: str,
        subject_hash: str,
        rater: str,
        stars: int | None,
        *,
        run_item_id: int | None = None,
        blind: bool,
        session: str = "",
    ) -> bool:
        """Give 1 to 5 stars to a subject, or take one's rating back with `None`.

        The last rating of a rater counts, all are kept in a history, and the same one again (a
        double click) changes nothing. Returns whether anything changed.
        """
        ratings.check_rating(subject_kind, subject_hash, rater, stars)
        rating = {"kind": subject_kind, "hash": subject_hash, "rater": rater, "stars": stars}
        rating |= {"blind": blind, "session": session, "item": run_item_id, "rated": now()}
        try:
            with self.database.writing() as connection:
                return ratings.put(connection, rating)
        except IntegrityError as error:
            raise GenlabError(f"{self.path}: no item has the number {run_item_id}") from error

    def ratings(
        self,
        subject_kind: str | None = None,
        rater: str | None = None,
        run_id: str | None = None,
    ) -> list[Rating]:
        """The ratings that count, of one kind, rater or run where these are named."""
        query = select(Rating).order_by(col(Rating.rating_id))
        if subject_kind is not None:
            query = query.where(col(Rating.subject_kind) == subject_kind)
        if rater is not None:
            query = query.where(col(Rating.rater) == rater)
        if run_id is not None:
            query = query.join(Item, col(Item.item_id) == col(Rating.run_item_id))
            query = query.where(col(Item.run_id) == run_id)
        with self.database.reading() as session:
            return list(session.exec(query))

    def export_csv(self, path: str | Path) -> int:
        """Write the ratings and preferences that count as CSV; returns how many."""
        with self.database.connected() as connection:
            return ratings_csv.export_csv(connection, path)

    def import_csv(self, path: str | Path) -> Imported:
        """Take the ratings and preferences of a CSV in, all or none."""
        with self.database.writing() as connection:
            return ratings_csv.import_csv(connection, path)

    def prefer(self, rater: str, winner: int, loser: int, *, session: str = "") -> bool:
        """Keep that `rater` preferred item `winner` over `loser`: two items of one case."""
        ratings.check_rater(rater)
        one, other = self.item(winner), self.item(loser)
        if one.case_id != other.case_id or winner == loser:
            raise GenlabError(
                f"items {winner} and {loser} are not two items of one case; compare such"
            )
        preference = {"rater": rater, "winner": winner, "loser": loser}
        with self.database.writing() as connection:
            return ratings.prefer(connection, {**preference, "session": session, "rated": now()})

    def preferences(self) -> list[Preference]:
        """The preferences that count."""
        with self.database.reading() as session:
            return list(session.exec(select(Preference).order_by(col(Preference.preference_id))))

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

        The last word counts, and the same one again (a double click) changes nothing. Returns
        whether anything changed.
        """
        ratings.check_rater(rater)
        ratings.check_subject(subject_kind, subject_hash)
        opinion: dict[str, Any] = {
            "dataset": dataset,
            "kind": subject_kind,
            "hash": subject_hash,
            "rater": rater,
        }
        opinion |= {"hypothesis": hypothesis, "agrees": agrees, "said": now()}
        with self.database.writing() as connection:
            return ratings.opine(connection, opinion)

    def opinions(self, dataset: str) -> list[Opinion]:
        """The opinions that count about failures of a dataset."""
        query = select(Opinion).where(col(Opinion.dataset) == dataset)
        with self.database.reading() as session:
            return list(session.exec(query.order_by(col(Opinion.opinion_id))))


def _plain(value: Any) -> Any:
    """A value as its column holds it: tables as JSON, which has no NaN."""
    return json.dumps(value, allow_nan=False) if isinstance(value, dict) else value
