"""A SQLite file (WAL) opened with care: checked, brought up to date, its faults as one line.

What is committed is on the disk. Any number of threads and processes may read while one writes;
writers wait for each other. Not protected: a file on a network share, which SQLite can't lock.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import datetime, timezone
from pathlib import Path

from sqlalchemy import Connection, Engine, event, text
from sqlalchemy.exc import DatabaseError, IntegrityError
from sqlmodel import Session, create_engine

from genlab.benchmark.store.migrations import MIGRATIONS
from genlab.core.errors import GenlabError

BUSY_SECONDS = 30.0  # how long a writer waits for another

_MIGRATIONS = "CREATE TABLE IF NOT EXISTS migrations (name TEXT PRIMARY KEY, taken TEXT NOT NULL)"
_CURE = "restore it from a copy, or move it away and begin again"


def now() -> str:
    """This moment as the store writes it."""
    return utc(datetime.now(timezone.utc))


def utc(moment: datetime) -> str:
    """The time in UTC, ISO 8601 with microseconds, so that it sorts as text."""
    return moment.astimezone(timezone.utc).isoformat(timespec="microseconds")


class Database:
    """An open file. Close it when done."""

    def __init__(self, path: Path) -> None:
        """Open the database at `path`, or make it where there is no such file.

        Steps of `store_migrations` that it lacks are taken. Raises a `GenlabError` of one line
        where the file is damaged, foreign or of a newer genlab; it is then left as it is.
        """
        self.path = path
        _check(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        self.engine = _engine(path)
        try:
            self._migrate()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let go of the file."""
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[Session]:
        """A session that sees one state of the file."""
        with self.run_cli(), Session(self.engine, expire_on_commit=False) as session:
            yield session

    @contextmanager
    def connected(self) -> Iterator[Connection]:
        """A plain connection for reading, without objects: for tables of numbers."""
        with self.run_cli(), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction that waits for other writers before it reads anything."""
        engine = self.engine.execution_options(immediate=True)
        with self.run_cli(), engine.begin() as connection:
            yield connection

    @contextmanager
    def run_cli(self) -> Iterator[None]:
        """Faults of the file as one line."""
        try:
            yield
        except IntegrityError:
            raise
        except DatabaseError as error:
            raise GenlabError(_fault(self.path, error.orig or error)) from error

    def _migrate(self) -> None:
        with self.writing() as connection:
            connection.execute(text(_MIGRATIONS))
            taken = [name for (name,) in connection.execute(text("SELECT name FROM migrations"))]
            for name, steps in MIGRATIONS:
                if name not in taken:
                    for step in steps:
                        connection.execute(text(step))
                    values = {"name": name, "taken": now()}
                    connection.execute(
                        text("INSERT INTO migrations VALUES (:name, :taken)"), values
                    )


def _engine(path: Path) -> Engine:
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # sqlite3's own transactions begin too late
        for pragma in ("journal_mode = WAL", "synchronous = FULL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def _check(path: Path) -> None:
    """Raise a `GenlabError` where there is a file that is no sound database."""
    if path.is_dir():
        raise GenlabError(f"{path} is a folder; name a file, such as {path / 'genlab.sqlite3'}")
    if not path.exists():
        return
    if path.stat().st_size == 0:
        raise GenlabError(f"{path} is empty: {_CURE}")
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
            if verdict != "ok":
                raise GenlabError(f"{path} is damaged ({' '.join(verdict.split())}): {_CURE}")
            _check_origin(path, connection)
    except sqlite3.DatabaseError as error:
        raise GenlabError(_fault(path, error)) from error


def _check_origin(path: Path, connection: sqlite3.Connection) -> None:
    """Raise a `GenlabError` where the database is not ours, or is of a newer genlab."""
    found = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
    tables = {name for (name,) in found}
    if tables and "migrations" not in tables:
        raise GenlabError(
            f"{path} is a database of something else (table {min(tables)!r}); name another file"
        )
    taken = connection.execute("SELECT name FROM migrations") if tables else ()
    unknown = sorted({name for (name,) in taken} - {name for name, _ in MIGRATIONS})
    if unknown:
        raise GenlabError(
            f"{path} was written by a newer genlab (step {unknown[0]!r}); install that version, or"
            " name another file"
        )


def _fault(path: Path, error: BaseException) -> str:
    said = " ".join(str(error).split())
    if "not a database" in said or "malformed" in said:
        return f"{path} is damaged or no SQLite database ({said}): {_CURE}"
    if "locked" in said:
        return f"{path} is held by another process ({said}); end that one, then try again"
    if "readonly" in said or "unable to open" in said:
        return f"{path} can't be opened for writing ({said}); make it and its folder writable"
    if "full" in said:
        return f"{path}: the disk is full ({said}); free some space, then run it again"
    return f"{path}: {said}; check the file and its disk"
