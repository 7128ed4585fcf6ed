"""The store: runs, their items, and what people said about them. Every call is one transaction."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path
from typing import Any

from sqlalchemy import text
from sqlalchemy.exc import DatabaseError
from sqlmodel import Session, col, insert, select, update

from genlab.benchmark.store import csv, migrations
from genlab.benchmark.store.migrations import now
from genlab.benchmark.store.ratings import pair_key, put_answer
from genlab.benchmark.store.schema import STATUSES, Item, Opinion, Preference, Rating, Run, Status
from genlab.core.errors import GenlabError

__all__ = ["Item", "Opinion", "Preference", "Rating", "Run", "Store", "now"]

ITEM_COLUMNS = frozenset(Item.model_fields) - {"item_id", "run_id", "case_id", "tool_id", "updated"}


class Store:
    """Runs, their items, and people's ratings. Close it, or use it as a context."""

    def __init__(self, path: str | Path) -> None:
        """Open the database at `path`, or create it where there is no such file.

        A file of an older genlab is migrated. Raises a `GenlabError` of one line where the file is
        damaged, foreign or too new; it is then left as it is.
        """
        self.path = Path(path)
        migrations.check_file(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.engine = migrations.connect(self.path)
        try:
            with self._session(write=True) as session:
                migrations.migrate(session.connection())
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self.engine.dispose()

    @contextmanager
    def _session(self, *, write: bool = False) -> Iterator[Session]:
        """A transaction that sees one state of the file; a writing one first waits for others."""
        engine = self.engine.execution_options(immediate=write)
        try:
            with Session(engine, expire_on_commit=False) as session, session.begin():
                yield session
        except DatabaseError as error:
            raise migrations.describe_fault(self.path, error.orig or error) from error

    # runs

    def create_run(
        self,
        run_id: str,
        created: str,
        options: Mapping[str, Any],
        cases: Sequence[Mapping[str, Any]],
        tools: Sequence[Mapping[str, Any]],
    ) -> Run:
        """Add a run with a queued item for each case (`case_id`) and tool (`tool_id`).

        Raises a `GenlabError` where the run exists.
        """
        run = Run(
            run_id=run_id,
            created=created,
            options=dict(options),
            cases=[dict(case) for case in cases],
            tools=[dict(tool) for tool in tools],
        )
        keys = [(case["case_id"], tool["tool_id"]) for case in cases for tool in tools]
        items = [{"run_id": run_id, "case_id": case, "tool_id": tool} for case, tool in keys]
        with self._session(write=True) as session:
            session.add(run)
            session.flush()
            if items:
                session.connection().execute(insert(Item).values(updated=created), items)
        return run

    def runs(self) -> list[Run]:
        """All runs, the newest first."""
        newest = (col(Run.created).desc(), col(Run.run_id).desc())
        with self._session() as session:
            return list(session.exec(select(Run).order_by(*newest)))

    def run(self, run_id: str) -> Run:
        """One run. Raises a `GenlabError` that names the last ones where there is no such run."""
        with self._session() as session:
            found = session.get(Run, run_id)
        if found is None:
            known = ", ".join(run.run_id for run in self.runs()[:5]) or "none yet"
            raise GenlabError(
                f"{self.path}: no run is called {run_id!r}; the last ones: {known}", key="run_id"
            )
        return found

    def end_run(self, run_id: str, ending: str) -> None:
        """Note how a run ended (`finished`, `cancelled`), or with "" that it goes on."""
        values = {"ending": ending, "ended": now() if ending else None}
        with self._session(write=True) as session:
            session.execute(update(Run).where(col(Run.run_id) == run_id).values(**values))

    # items

    def items(self, run_id: str | None = None) -> list[Item]:
        """The items of a run (None: of all runs) in the order they were queued."""
        query = select(Item).order_by(col(Item.item_id))
        if run_id is not None:
            query = query.filter_by(run_id=run_id)
        with self._session() as session:
            return list(session.exec(query))

    def item(self, item_id: int) -> Item:
        """One item. Raises a `GenlabError` where there is none."""
        with self._session() as session:
            found = session.get(Item, item_id)
        if found is None:
            raise GenlabError(f"{self.path}: no item has the number {item_id}", key="item_id")
        return found

    def set_item(self, item_id: int, **changes: Any) -> None:
        """Change columns of an item: `set_item(3, status="scored", score=0.9)`."""
        self.set_items([(item_id, changes)])

    def set_items(self, changes: Sequence[tuple[int, Mapping[str, Any]]]) -> None:
        """Change several items in one transaction, in order: all changes are kept or none."""
        moment = now()
        with self._session(write=True) as session:
            for names, alike in groupby(changes, key=lambda change: tuple(change[1])):
                if unknown := sorted(set(names) - ITEM_COLUMNS):
                    raise ValueError(f"an item has no column {unknown[0]!r} to set")
                rows = [
                    {name: _to_column(value) for name, value in values.items()}
                    | {"updated": moment, "item_id": item_id}
                    for item_id, values in alike
                ]
                # Written out: SQLAlchemy's own update takes twenty times as long, and a run waits.
                columns = ", ".join(f"{name} = :{name}" for name in (*names, "updated"))
                query = text(f"UPDATE run_items SET {columns} WHERE item_id = :item_id")
                if session.connection().execute(query, rows).rowcount != len(rows):
                    raise GenlabError(f"{self.path}: a changed item does not exist", key="item_id")

    def progress(self, run_id: str) -> dict[Status, int]:
        """How many items of a run stand at each status."""
        query = "SELECT status, count(*) FROM run_items WHERE run_id = :run GROUP BY status"
        counted = dict(self.rows(query, run=run_id))
        return {status: counted.get(status, 0) for status in STATUSES}

    def spent(self, run_id: str) -> float:
        """Dollars of a run, those of attempts that failed included."""
        ((total,),) = self.rows(
            "SELECT coalesce(sum(cost), 0.0) FROM run_items WHERE run_id = :run", run=run_id
        )
        return float(total)

    def rows(self, query: str, **values: Any) -> list[tuple[Any, ...]]:
        """Rows of a SELECT of the caller's, with `:name` for its values: for tables of numbers."""
        with self._session() as session:
            return [tuple(row) for row in session.connection().execute(text(query), values)]

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

        The last rating of a rater counts, all are kept in a history. Returns whether anything
        changed.
        """
        key = {"subject_kind": subject_kind, "subject_hash": subject_hash, "rater": rater}
        answer = {"stars": stars, "blind": blind, "session": session, "rated": now()}
        with self._session(write=True) as opened:
            return put_answer(opened, Rating, key, {**answer, "run_item_id": run_item_id})

    def ratings(self, subject_kind: str | None = None, rater: str | None = None) -> list[Rating]:
        """The ratings that count, of one kind or rater where these are named."""
        named = {"subject_kind": subject_kind, "rater": rater}
        wanted = {name: value for name, value in named.items() if value is not None}
        query = select(Rating).filter_by(**wanted).order_by(col(Rating.rating_id))
        with self._session() as session:
            return list(session.exec(query))

    def export_csv(self, path: str | Path) -> int:
        """Write the ratings and preferences that count as CSV; returns how many."""
        with self._session() as session:
            return csv.export_csv(session, path)

    def import_csv(self, path: str | Path) -> csv.Imported:
        """Add the ratings and preferences of a CSV, all or none."""
        with self._session(write=True) as session:
            return csv.import_csv(session, path)

    def prefer(self, rater: str, winner: int, loser: int, *, session: str = "") -> bool:
        """Keep that `rater` preferred item `winner` over `loser`: two items of one case."""
        if winner == loser or self.item(winner).case_id != self.item(loser).case_id:
            raise GenlabError(f"items {winner} and {loser} are not two items of one case")
        answer = {"winner": winner, "session": session, "rated": now()}
        with self._session(write=True) as opened:
            return put_answer(opened, Preference, pair_key(rater, winner, loser), answer)

    def preferences(self) -> list[Preference]:
        """The preferences that count."""
        with self._session() as session:
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

        Returns whether anything changed.
        """
        key = {"subject_hash": subject_hash, "hypothesis": hypothesis, "rater": rater}
        subject = {"dataset": dataset, "subject_kind": subject_kind}
        with self._session(write=True) as session:
            return put_answer(session, Opinion, key, {**subject, "agrees": agrees, "said": now()})

    def opinions(self, dataset: str) -> list[Opinion]:
        """The opinions that count about failures of a dataset."""
        query = select(Opinion).filter_by(dataset=dataset).order_by(col(Opinion.opinion_id))
        with self._session() as session:
            return list(session.exec(query))


def _to_column(value: Any) -> Any:
    """A value as its column holds it: tables as JSON, which has no NaN."""
    return json.dumps(value, allow_nan=False) if isinstance(value, dict) else value
