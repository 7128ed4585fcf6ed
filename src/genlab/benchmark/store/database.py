"""The SQLite file of the store. Every call is one transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import pandas as pd
from sqlalchemy import inspect, text
from sqlalchemy.exc import DatabaseError
from sqlmodel import Session, SQLModel, select
from typing_extensions import Self

from genlab.benchmark.store import migrations

Table = TypeVar("Table", bound=SQLModel)


class Database:
    """The store's SQLite file. Close it, or use it as a context manager."""

    def __init__(self, path: str | Path) -> None:
        """Open the database at `path`, or create it if there is no such file.

        A file of an older genlab is migrated. Raises a `GenlabError` if the file is damaged,
        foreign or of a newer genlab; the file is then left unchanged.
        """
        self.path = Path(path)
        migrations.check_file(self.path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            migrations.migrate(self.path)
        except DatabaseError as error:
            raise migrations.describe_fault(self.path, error.orig or error) from error
        self.engine = migrations.connect(self.path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _session(self, *, write: bool = False) -> Iterator[Session]:
        """Open a transaction, which sees one state of the file.

        write: whether it first waits for other writers.
        """
        engine = self.engine.execution_options(immediate=write)
        try:
            with Session(engine, expire_on_commit=False) as session, session.begin():
                yield session
        except DatabaseError as error:
            raise migrations.describe_fault(self.path, error.orig or error) from error

    def find(self, model: type[Table], **values: Any) -> list[Table]:
        """Return the rows of a table with these values (None: any), ordered by primary key."""
        filters = {name: value for name, value in values.items() if value is not None}
        query = select(model).filter_by(**filters).order_by(*inspect(model).primary_key)
        with self._session() as session:
            return list(session.exec(query))

    def table(self, query: str, **values: Any) -> pd.DataFrame:
        """Return the rows of a SELECT, in which `:name` stands for a value."""
        with self._session() as session:
            return pd.read_sql_query(text(query), session.connection(), params=values)
