"""The store: runs, their items, and what people said about them. Every call is one transaction.

Of stars, preferences between two images and opinions on explanations, a rater's last answer counts;
the same again (a double click) changes nothing. Stars are exported and imported as a CSV file:
images are identified by their SHA-256; case and tool are given for readers.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from pydantic import ValidationError
from sqlalchemy import inspect, text, update
from sqlalchemy.exc import DatabaseError
from sqlmodel import Session, SQLModel, col, select

from genlab.benchmark.store import migrations
from genlab.benchmark.store.items import ItemResult
from genlab.benchmark.store.schema import (
    Contender,
    Context,
    Opinion,
    Preference,
    Rating,
    Run,
    now,
    utc,
)
from genlab.core.errors import GenlabError, violations
from genlab.core.io import write_text

Table = TypeVar("Table", bound=SQLModel)
Answer = type[Rating] | type[Preference] | type[Opinion]
Values = Mapping[str, Any]
STORE = "genlab.sqlite3"  # file of the store in the runs' folder

_ITEMS = ItemResult.metadata.tables["run_items"]
_ASKED = ("item_id", "run_id", "case_id", "tool_id", "contender", "repeat")
CHANGING = [column.name for column in _ITEMS.columns if column.name not in _ASKED]
KEY = ("subject_kind", "subject_hash", "rater", "context")
COLUMNS = ("subject_kind", "subject_hash", "rater", "stars", "context", "session", "rated")
EXPORT = f"""
    SELECT {", ".join(COLUMNS)}, coalesce(max(case_id), '') AS case_id,
        coalesce(max(tool_id), '') AS tool_id
    FROM human_scores LEFT JOIN run_items
        ON subject_kind = 'run_item' AND image_sha256 = subject_hash
    GROUP BY rating_id ORDER BY subject_kind, subject_hash, rater, context
"""


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
        try:
            migrations.migrate(self.path)
        except DatabaseError as error:
            raise migrations.describe_fault(self.path, error.orig or error) from error
        self.engine = migrations.connect(self.path)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
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

    def find(self, model: type[Table], **wanted: Any) -> list[Table]:
        """Rows of a table with these values (None: any), in the order of their primary key."""
        named = {name: value for name, value in wanted.items() if value is not None}
        query = select(model).filter_by(**named).order_by(*inspect(model).primary_key)
        with self._session() as session:
            return list(session.exec(query))

    # runs

    def create_run(
        self,
        run_id: str,
        created: str,
        cases: Sequence[Mapping[str, Any]],
        contenders: Sequence[Contender],
        *,
        repeats: int = 1,
        max_cost: float = 0.0,
        server: bool = False,
    ) -> Run:
        """Add a run with a queued item for each case (`case_id`), contender and repeat.

        Raises a `GenlabError` where the run exists.
        """
        tools = [contender.model_dump() for contender in contenders]
        run = Run(
            run_id=run_id, created=created, cases=[*cases], tools=tools, repeats=repeats,
            max_cost=max_cost, server=server,
        )  # fmt: skip
        items = [
            ItemResult(
                run_id=run_id, case_id=case["case_id"], tool_id=contender.tool_id,
                contender=contender.contender_id, repeat=repeat, updated=created,
            )
            for case, contender, repeat in product(cases, contenders, range(1, repeats + 1))
        ]  # fmt: skip
        with self._session(write=True) as session:
            session.add(run)
            session.flush()
            session.add_all(items)
        return run

    def runs(self) -> list[Run]:
        """All runs, the newest first."""
        return sorted(self.find(Run), key=lambda run: (run.created, run.run_id), reverse=True)

    def run(self, run_id: str) -> Run:
        """One run. Raises a `GenlabError` that names the last ones where there is no such run."""
        for run in self.find(Run, run_id=run_id):
            return run
        known = ", ".join(run.run_id for run in self.runs()[:5]) or "none yet"
        raise GenlabError(
            f"{self.path}: no run is called {run_id!r}; the last ones: {known}", key="run_id"
        )

    def case_folder(self, known: Mapping[str, Any]) -> Path:
        """Where a run's case lies; a relative folder begins in the project, which may be moved."""
        if "folder" not in known:  # a run of the first edition
            raise GenlabError(f"the folder of case {known['case_id']} is not on record")
        return self.path.resolve().parent.parent / str(known["folder"])

    def set_run(self, run_id: str, **values: Any) -> None:
        """Change how a run ended (`finished`, `cancelled`, "" while it goes on), or its ceiling."""
        with self._session(write=True) as session:
            session.execute(update(Run).where(col(Run.run_id) == run_id).values(**values))

    # items

    def items(self, run_id: str | None = None) -> list[ItemResult]:
        """The items of a run (None: of all runs) in the order they were queued."""
        return self.find(ItemResult, run_id=run_id)

    def item(self, item_id: int) -> ItemResult:
        """One item. Raises a `GenlabError` where there is none."""
        for item in self.find(ItemResult, item_id=item_id) if abs(item_id) < 1 << 63 else ():
            return item
        raise GenlabError(f"{self.path}: no item has the number {item_id}", key="item_id")

    def save_items(self, items: Iterable[ItemResult]) -> None:
        """Write items as they are now, in one transaction: all of them or none."""
        moment = now()
        with self._session(write=True) as session:
            for item in items:
                item.updated = moment
                values = {name: getattr(item, name) for name in CHANGING}
                changed = _ITEMS.update().where(_ITEMS.c.item_id == item.item_id).values(values)
                if session.connection().execute(changed).rowcount != 1:
                    raise GenlabError(f"{self.path}: no item has the number {item.item_id}")

    def table(self, query: str, **values: Any) -> pd.DataFrame:
        """The rows of a SELECT, with `:name` for its values."""
        with self._session() as session:
            return pd.read_sql_query(text(query), session.connection(), params=values)

    # people

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
        key = dict(zip(KEY, (subject_kind, subject_hash, rater, context), strict=True))
        answer = {"stars": stars, "session": session, "rated": now()}
        return self._keep(Rating, key, answer, "stars")

    def ratings(
        self, subject_kind: str | None = None, rater: str | None = None, context: str | None = None
    ) -> list[Rating]:
        """The ratings of a kind, rater or context; of all where none is named."""
        return self.find(Rating, subject_kind=subject_kind, rater=rater, context=context)

    def prefer(self, rater: str, winner: int, loser: int, *, session: str = "") -> bool:
        """Keep that `rater` preferred item `winner` over `loser`: two items of one case."""
        if winner == loser or self.item(winner).case_id != self.item(loser).case_id:
            raise GenlabError(f"items {winner} and {loser} are not two items of one case")
        first, second = sorted((winner, loser))
        key = {"rater": rater, "first_item": first, "second_item": second}
        answer = {"winner": winner, "session": session, "rated": now()}
        return self._keep(Preference, key, answer, "winner")

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
        answer = {"dataset": dataset, "subject_kind": subject_kind, "agrees": agrees, "said": now()}
        return self._keep(Opinion, key, answer, "agrees")

    def export_csv(self, path: str | Path) -> int:
        """Write the stars that count as CSV; returns how many."""
        stars = self.table(EXPORT)
        write_text(path, stars.to_csv(index=False, lineterminator="\n"))
        return len(stars)

    def import_csv(self, path: str | Path) -> int:
        """Add the stars of a CSV file, all or none; returns how many changed anything.

        They belong to an image's content and are kept where this store lacks its run. Newer stars
        of this store are kept. Raises a `GenlabError` that names the line of the first fault.
        """
        changed = 0
        try:
            lines = io.StringIO(Path(path).read_text(encoding="utf-8-sig"))
            reader = csv.DictReader(lines, strict=True)
            if missing := set(COLUMNS) - set(reader.fieldnames or ()):
                raise csv.Error(f"line 1 has no column {min(missing)}")
            with self._session(write=True) as session:
                for row in reader:
                    if None in row or None in row.values():
                        fault = "has more or fewer fields than the first"
                        raise csv.Error(f"line {reader.line_num} {fault}")
                    try:
                        changed += _import_row(session, row)
                    except (GenlabError, ValueError, OverflowError) as error:
                        key = error.key if isinstance(error, GenlabError) else "rated"
                        fault = f"{path}, line {reader.line_num}: {error}"
                        raise GenlabError(fault, key=key, path=path) from error
        except (UnicodeDecodeError, csv.Error) as error:
            raise GenlabError(f"{path} is not a CSV file in UTF-8: {error}", path=path) from error
        return changed

    def _keep(self, model: Answer, key: Values, answer: Values, value: str) -> bool:
        with self._session(write=True) as session:
            return _put_answer(session, model, key, answer, value)


def _put_answer(
    session: Session, model: Answer, key: Values, answer: Values, value: str, since: str = ""
) -> bool:
    """Keep an answer inside the caller's transaction; returns whether anything changed.

    key: the columns that say who answers what; answer: the others; value: the one that is asked
    for, None to delete the answer; since: an answer of that time or later is kept instead. Raises
    a `GenlabError` for a column out of range.
    """
    kept: Any = session.exec(select(model).filter_by(**key)).first()
    if answer[value] is None:
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
    if getattr(kept, value) == getattr(given, value) or (since and kept.rated >= since):
        return False
    session.add(kept.sqlmodel_update(dict(answer)))
    return True


def _import_row(session: Session, row: Mapping[str, str]) -> bool:
    rated = utc(datetime.fromisoformat(row["rated"]))
    stars = int(row["stars"]) if row["stars"].isdecimal() else row["stars"]
    answer = {"stars": stars, "session": row["session"], "rated": rated}
    return _put_answer(session, Rating, {name: row[name] for name in KEY}, answer, "stars", rated)
