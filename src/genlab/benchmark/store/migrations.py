"""Open the store's SQLite file: check it and apply the named migrations that it lacks.

Migrations are append-only: add one, never change one that was released (as simonw/llm does). A new
file takes all of them, and its tables come from the current `schema`: a migration does nothing if
its change is present already. A file that names an unknown migration is of a newer genlab.
"""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    RowMapping,
    create_engine,
    event,
    insert,
    inspect,
    text,
)
from sqlmodel import SQLModel

from genlab.benchmark.store.items import ItemResult, Judging, Reused, ScoreDetails
from genlab.benchmark.store.schema import Contender, Preference, Rating, Run, now
from genlab.core.errors import GenlabError

BUSY_SECONDS = 30.0  # how long a writer waits for another


def add_contenders(connection: Connection) -> None:
    """Turn tools with options into contenders, and `blind` of a rating into its context."""
    if "options" not in {column["name"] for column in inspect(connection).get_columns("runs")}:
        return
    old = {}
    for name in ("runs", "run_items", "human_scores"):
        old[name] = connection.execute(text(f"SELECT * FROM {name}")).mappings().all()
        connection.exec_driver_sql(f"DROP TABLE {name}")
    SQLModel.metadata.create_all(connection)
    contenders: dict[tuple[str, str], str] = {}
    for row in old["runs"]:
        options = json.loads(row["options"])
        server_options = options.pop("_run", None)  # only servers wrote them
        tools = [
            Contender(**{**tool, "options": options.get(tool["tool_id"], {})})
            for tool in json.loads(row["tools"])
        ]
        contenders |= {(row["run_id"], tool.tool_id): tool.contender_id for tool in tools}
        values = {name: row[name] for name in ("run_id", "created", "ended", "ending")}
        values["cases"] = json.loads(row["cases"])
        values["tools"] = [tool.model_dump() for tool in tools]
        values["max_cost"] = (server_options or {}).get("max_cost", 0.0)
        values["server"] = server_options is not None
        connection.execute(insert(Run).values(values))
    for row in old["run_items"]:
        contender = contenders.get((row["run_id"], row["tool_id"]), row["tool_id"])
        values = {**type_item(row), "contender": contender}
        connection.execute(insert(ItemResult).values(values))
    for row in old["human_scores"]:
        values = {name: row[name] for name in row if name not in ("blind", "run_item_id")}
        context = "blind" if row["blind"] else "grid"
        connection.execute(insert(Rating).values({**values, "context": context}))


def has_details(connection: Connection) -> bool:
    """Whether items have one column of JSON, `details`, in place of typed columns."""
    return "details" in {column["name"] for column in inspect(connection).get_columns("run_items")}


def add_judging_costs(connection: Connection) -> None:
    """Add the cost of judging an item, which its details held, to the item's cost."""
    if has_details(connection):
        connection.exec_driver_sql("""
            UPDATE run_items SET cost = cost + json_extract(details, '$.judge.cost'),
                details = json_remove(details, '$.judge.cost')
            WHERE json_extract(details, '$.judge.cost') IS NOT NULL
        """)


def type_items(connection: Connection) -> None:
    """Give each value of an item's details its own column."""
    if not has_details(connection):
        return
    rows = connection.execute(text("SELECT * FROM run_items")).mappings().all()
    connection.exec_driver_sql("DROP TABLE run_items")
    SQLModel.metadata.create_all(connection)
    if rows:
        connection.execute(insert(ItemResult), [type_item(row) for row in rows])


def type_item(row: RowMapping) -> dict[str, Any]:
    """Return the columns of an item whose details are in one column."""
    values = {name: value for name, value in row.items() if name != "details"}
    details = json.loads(row["details"])
    values["components"] = json.loads(row["components"])
    values["note"] = details.get("tool", "")
    values["reused"] = Reused(**details["reused"]) if "reused" in details else None
    judging = details.get("judge") or {}
    values["cost"] = row["cost"] + judging.pop("cost", 0.0)
    values["judging"] = Judging(**judging) if judging else None
    names = ScoreDetails.model_fields.keys() & details.keys()
    values["scoring"] = ScoreDetails(**{name: details[name] for name in names}) if names else None
    values["score_version"] = details.get("versions", {}).get("constants", "")
    return values


def add_outcomes(connection: Connection) -> None:
    """Turn the winner of a preference into its outcome, which may also be a tie or both bad."""
    columns = inspect(connection).get_columns("preferences")
    if "winner" not in {column["name"] for column in columns}:
        return
    rows = connection.execute(text("SELECT * FROM preferences")).mappings().all()
    connection.exec_driver_sql("DROP TABLE preferences")
    SQLModel.metadata.create_all(connection)
    for row in rows:
        outcome = "first" if row["winner"] == row["first_item"] else "second"
        values = {name: value for name, value in row.items() if name != "winner"}
        connection.execute(insert(Preference).values({**values, "outcome": outcome}))


def type_records(connection: Connection) -> None:
    """Give items and preferences their typed columns."""
    type_items(connection)
    add_outcomes(connection)


MIGRATIONS: dict[str, Callable[[Connection], None]] = {
    **dict.fromkeys(
        ("0001_runs_and_items", "0002_human_scores", "0003_preferences", "0004_opinions"),
        SQLModel.metadata.create_all,  # creates missing tables
    ),
    "0005_contenders": add_contenders,
    "0006_judging_costs": add_judging_costs,
    "0007_typed_items_and_votes": type_records,
}


def migrate(path: Path) -> None:
    """Apply the migrations that the file lacks, all or none."""
    # Without foreign keys: replacing a table must not delete the rows that refer to it.
    engine = connect(path, foreign_keys=False)
    try:
        with engine.execution_options(immediate=True).begin() as connection:
            table = "migrations (name TEXT PRIMARY KEY, taken TEXT NOT NULL)"
            connection.execute(text(f"CREATE TABLE IF NOT EXISTS {table}"))
            applied = set(connection.scalars(text("SELECT name FROM migrations")))
            for name, migration in MIGRATIONS.items():
                if name not in applied:
                    migration(connection)
                    values = {"name": name, "taken": now()}
                    query = text("INSERT INTO migrations VALUES (:name, :taken)")
                    connection.execute(query, values)
    finally:
        engine.dispose()


def connect(path: Path, *, foreign_keys: bool = True) -> Engine:
    """Create an engine for the SQLite file at `path` (WAL; a commit is flushed to disk).

    Any number of threads and processes may read while one writes. With the execution option
    `immediate`, a transaction waits for other writers before it reads anything. Not protected: a
    file on a network share, which SQLite cannot lock.
    """
    address = URL.create("sqlite", database=str(path))
    engine = create_engine(address, connect_args={"timeout": BUSY_SECONDS})

    @event.listens_for(engine, "connect")
    def prepare(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None  # sqlite3's own transactions begin too late
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        immediate = connection.get_execution_options().get("immediate")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if immediate else "BEGIN")

    return engine


def check_file(path: Path) -> None:
    """Raise a `GenlabError` if `path` is damaged, foreign or of a newer genlab."""
    if not path.exists():
        return
    try:
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as connection:
            ((verdict,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
            if verdict != "ok":
                raise sqlite3.DatabaseError(f"malformed: {verdict}")
            if connection.execute("SELECT name FROM sqlite_master").fetchone() is None:
                return  # new: another process is about to fill it, or was killed before it did
            applied = {name for (name,) in connection.execute("SELECT name FROM migrations")}
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # SQLite quotes damaged text
        raise describe_fault(path, error) from error
    if unknown := applied - set(MIGRATIONS):
        fix = "install that version, or name another file"
        raise GenlabError(
            f"{path} was written by a newer genlab ({min(unknown)}); {fix}", path=path, fix=fix
        )


def describe_fault(path: Path, fault: object) -> GenlabError:
    """Turn an error of SQLite into an error of one line with a fix."""
    reason = " ".join(str(fault).split())
    fix = "restore it with: genlab benchmark restore FILE --replace; or name another file"
    if "UNIQUE" in reason or "FOREIGN KEY" in reason:
        fix = "name each run once, and only items that exist"
    elif "locked" in reason:
        fix = "end the process that holds it, then try again"
    return GenlabError(f"{path}: {reason}; {fix}", path=path, fix=fix)
