"""Open a store's SQLite file: check it, and take the named migrations that it lacks.

Migrations are append-only: add one, never change one that was released (as simonw/llm does). A new
file takes all of them too, and its tables come from `schema` as it is now: a migration must do
nothing where its change is there already. A file that names an unknown one is of a newer genlab.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlmodel import SQLModel

from genlab.benchmark.store.schema import now
from genlab.core.errors import GenlabError

BUSY_SECONDS = 30.0  # how long a writer waits for another

MIGRATIONS: dict[str, Callable[[Connection], None]] = dict.fromkeys(
    ("0001_runs_and_items", "0002_human_scores", "0003_preferences", "0004_opinions"),
    SQLModel.metadata.create_all,  # the tables that are missing
)


def migrate(connection: Connection) -> None:
    """Take the migrations that the file lacks."""
    table = "migrations (name TEXT PRIMARY KEY, taken TEXT NOT NULL)"
    connection.execute(text(f"CREATE TABLE IF NOT EXISTS {table}"))
    taken = set(connection.scalars(text("SELECT name FROM migrations")))
    for name, migration in MIGRATIONS.items():
        if name not in taken:
            migration(connection)
            values = {"name": name, "taken": now()}
            connection.execute(text("INSERT INTO migrations VALUES (:name, :taken)"), values)


def connect(path: Path) -> Engine:
    """An engine for the SQLite file at `path` (WAL; what is committed is on the disk).

    Any number of threads and processes may read while one writes; with the execution option
    `immediate` a transaction waits for other writers before it reads anything. Not protected: a
    file on a network share, which SQLite cannot lock.
    """
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


def check_file(path: Path) -> None:
    """Raise a `GenlabError` where `path` is damaged, foreign or of a newer genlab."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
            if verdict != "ok":
                raise sqlite3.DatabaseError(f"malformed: {verdict}")
            taken = {name for (name,) in connection.execute("SELECT name FROM migrations")}
    except sqlite3.DatabaseError as error:
        raise describe_fault(path, error) from error
    if unknown := taken - set(MIGRATIONS):
        fix = "install that version, or name another file"
        raise GenlabError(
            f"{path} was written by a newer genlab ({min(unknown)}); {fix}", path=path, fix=fix
        )


def describe_fault(path: Path, fault: object) -> GenlabError:
    """An error of SQLite as one line with a fix."""
    reason = " ".join(str(fault).split())
    fix = "check its disk, restore it from a copy, or name another file"
    if "UNIQUE" in reason or "FOREIGN KEY" in reason:
        fix = "name each run once, and only items that exist"
    elif "locked" in reason:
        fix = "end the process that holds it, then try again"
    return GenlabError(f"{path}: {reason}; {fix}", path=path, fix=fix)
