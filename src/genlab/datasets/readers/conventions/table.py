"""Labels in tables beside the pictures: CSV, TSV or JSON lines with a file name and a label.

All cells are text, and no word means "missing": `007`, `NA` and `None` are names of classes.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from genlab.core.errors import GenlabError
from genlab.core.params.sections import SourceParams, TableParams
from genlab.core.paths import normalise_name
from genlab.datasets.readers.conventions.labels import Classes, name_classes, name_one_hot
from genlab.datasets.readers.files import Files
from genlab.datasets.readers.layout import list_some, split_of

LABEL_COLUMNS = ("label", "labels", "class", "category", "target", "species", "y")
SPLIT_COLUMNS = ("split", "set", "subset", "partition")
SUFFIXES = (".csv", ".tsv", ".jsonl")

Row = dict[str, str]


class Table(NamedTuple):
    """What tables say of pictures, by name. unknown: names that stand for no picture."""

    files: list[str]
    rows: Mapping[str, Row]
    unknown: list[str]


def find_table(
    files: Files, pictures: Sequence[str], others: Sequence[str], source: SourceParams
) -> Table | None:
    """Find the tables that name the pictures, each once; None where there are none.

    Names are relative to the table's folder, or base names, with their ending or without it, that
    occur once. Tables that name some of the pictures are doubt: GenlabError names the key.
    """
    stated = source.table
    if stated and stated.file and stated.file not in others:
        tables = list_some(name for name in others if name.lower().endswith(SUFFIXES)) or "none"
        message = f"{files.path}: holds no table {stated.file}; tables in it: {tables}"
        raise GenlabError(message, key="source.table", path=files.path)
    if stated and stated.file:
        names = [stated.file]
    else:
        names = [name for name in others if name.lower().endswith(SUFFIXES)]
    places = _index(pictures)
    used: list[str] = []
    rows: dict[str, Row] = {}
    unknown: list[str] = []
    for name in names:
        matched, rest = _match(files, name, places, stated)
        if not matched:
            continue
        if both := sorted(matched.keys() & rows.keys()):
            raise _doubt(files, f"{list_some([*used, name])} all name {both[0]}")
        used.append(name)
        rows |= matched
        unknown += rest
    if not used:
        return None
    if missing := [picture for picture in pictures if picture not in rows]:
        what = f"{list_some(used)} does not name {len(missing):,} pictures: {list_some(missing)}"
        raise _doubt(files, what)
    return Table(used, rows, unknown)


def _index(pictures: Sequence[str]) -> dict[str, str]:
    """Pictures by every name, in its readable form, that means one of them alone."""
    places: dict[str, str] = {}
    twice: set[str] = set()
    for picture in pictures:
        path = PurePosixPath(normalise_name(picture))
        shorter = {path.name, path.stem, path.with_suffix("").as_posix()} - {path.as_posix()}
        for short in shorter:
            if short in places:
                twice.add(short)
            places[short] = picture
    for short in twice:
        del places[short]
    return places | {normalise_name(picture): picture for picture in pictures}


def _match(
    files: Files, name: str, places: Mapping[str, str], stated: TableParams | None
) -> tuple[dict[str, Row], list[str]]:
    """Rows of a table by picture, and names that stand for none."""
    rows = list(read_rows(name, files.read(name), stated.separator if stated else None))
    columns = list(rows[0]) if rows else []
    folder = PurePosixPath(normalise_name(name)).parent

    def find(cell: str) -> str | None:
        path = PurePosixPath(normalise_name(cell.strip().replace("\\", "/")))
        joined = (folder / path).as_posix()
        return places.get(joined) or places.get(path.as_posix()) or places.get(path.name)

    if stated and stated.columns:
        columns = [column for column in columns if column == stated.columns[0]]
    hits = {  # the pictures that a column names
        column: len({find(row.get(column, "")) for row in rows} - {None}) for column in columns
    }
    column = max(hits, key=lambda each: hits[each], default="")
    if not hits or not hits[column]:
        return {}, []
    matched: dict[str, Row] = {}
    unknown: list[str] = []
    for row in rows:
        picture = find(row[column])
        if picture is None:
            unknown.append(row[column])
        else:
            matched[picture] = {key: cell for key, cell in row.items() if key != column}
    return matched, unknown


def read_rows(name: str, data: bytes, separator: str | None = None) -> Iterator[Row]:
    """Read rows of a table as text. Raises GenlabError for one that is no table."""
    try:
        text = data.decode("utf-8-sig")
        if name.lower().endswith(".jsonl"):
            for line in filter(str.strip, text.splitlines()):
                yield {str(key): _as_text(value) for key, value in json.loads(line).items()}
            return
        first = text.partition("\n")[0]
        separator = separator or max("\t;,|", key=first.count)
        for row in csv.DictReader(io.StringIO(text), delimiter=separator):
            yield {key: cell or "" for key, cell in row.items() if key is not None}
    except (ValueError, AttributeError, TypeError, csv.Error, RecursionError) as error:
        reason = " ".join(str(error).split())[:120]
        raise GenlabError(f"{name}: no table in UTF-8 ({reason})", path=name) from error


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value)


def read_labels(
    table: Table, pictures: Sequence[str], source: SourceParams
) -> tuple[Classes, str, list[str | None]]:
    """Classes of pictures by a table, why there are none, and the splits that it states.

    Raises GenlabError where it has no column of the stated name.
    """
    rows = [table.rows[picture] for picture in pictures]
    columns = list(rows[0])
    by_word = {column.strip().lower(): column for column in columns}
    splits = [by_word[word] for word in SPLIT_COLUMNS if word in by_word]
    official: list[str | None] = [None] * len(rows)
    if splits:
        official = [split_of(row[splits[0]].strip()) for row in rows]
    stated = source.table.columns[1] if source.table and source.table.columns else source.labels
    if stated and stated not in columns:
        message = f"{list_some(table.files)}: has no column {stated}; columns: {list_some(columns)}"
        raise GenlabError(message, key="source.labels", path=table.files[0])
    words = [by_word[word] for word in LABEL_COLUMNS if word in by_word]
    rest = [column for column in columns if column not in splits]
    chosen = stated or (words[0] if words else rest[0] if len(rest) == 1 else None)
    if chosen:
        classes, why = name_classes([row.get(chosen, "") for row in rows])
        return classes, why, official
    hot = name_one_hot({column: [row.get(column, "") for row in rows] for column in rest})
    why = f"none of its columns is the label ({list_some(rest)}); set labels to one"
    return hot or [None] * len(rows), "" if hot else why, official


def read_column(table: Table, pictures: Sequence[str], column: str | None) -> list[str]:
    """The cells of a column for pictures; none where the table has no such column."""
    rows = [table.rows[picture] for picture in pictures]
    return [row.get(column, "") for row in rows] if column in rows[0] else []


def _doubt(files: Files, what: str) -> GenlabError:
    fix = "set labels to none, top, leaf or path to read folders alone, or table to one file"
    return GenlabError(
        f"{files.path}: {what}: {fix}", key="source.labels", path=files.path, fix=fix
    )
