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
from genlab.core.text import join_first
from genlab.datasets.readers.conventions.labels import Classes, name_classes, name_one_hot
from genlab.datasets.readers.files import Files
from genlab.datasets.readers.split_names import parse_split

LABEL_COLUMNS = ("label", "labels", "class", "category", "target", "species", "y")
SPLIT_COLUMNS = ("split", "set", "subset", "partition")
SUFFIXES = (".csv", ".tsv", ".jsonl")

Row = dict[str, str]


class Table(NamedTuple):
    """Rows of tables by the picture that they name. unknown: names that match no picture."""

    files: list[str]
    rows: Mapping[str, Row]
    unknown: list[str]


def find_table(
    files: Files, pictures: Sequence[str], others: Sequence[str], source: SourceParams
) -> Table | None:
    """Find the tables that name the pictures, each picture once; None where there are none.

    Names are relative to the table's folder, or base names, with their ending or without it, that
    occur once. Raises GenlabError, naming the key that decides, for tables that name only some of
    the pictures, or a picture twice.
    """
    stated = source.table
    tables = [name for name in others if name.lower().endswith(SUFFIXES)]
    if stated and stated.file:
        if stated.file not in others:
            existing = join_first(tables) or "none"
            message = f"{files.path}: holds no table {stated.file}; tables in it: {existing}"
            raise GenlabError(message, key="source.table", path=files.path)
        tables = [stated.file]
    index = _index_names(pictures)
    used: list[str] = []
    rows: dict[str, Row] = {}
    unknown: list[str] = []
    for name in tables:
        matched, unmatched = _match_rows(files, name, index, stated)
        if not matched:
            continue
        repeated = sorted(matched.keys() & rows.keys())
        if repeated:
            raise _ambiguity_error(files, f"{join_first([*used, name])} all name {repeated[0]}")
        used.append(name)
        rows |= matched
        unknown += unmatched
    if not used:
        return None
    missing = [picture for picture in pictures if picture not in rows]
    if missing:
        pictures_missing = f"{len(missing):,} pictures: {join_first(missing)}"
        raise _ambiguity_error(files, f"{join_first(used)} does not name {pictures_missing}")
    return Table(used, rows, unknown)


def _index_names(pictures: Sequence[str]) -> dict[str, str]:
    """Map every normalised name that means one picture only to that picture."""
    index: dict[str, str] = {}
    ambiguous: set[str] = set()
    for picture in pictures:
        path = PurePosixPath(normalise_name(picture))
        shorter = {path.name, path.stem, path.with_suffix("").as_posix()} - {path.as_posix()}
        for short in shorter:
            if short in index:
                ambiguous.add(short)
            index[short] = picture
    for short in ambiguous:
        del index[short]
    return index | {normalise_name(picture): picture for picture in pictures}


def _match_rows(
    files: Files, name: str, index: Mapping[str, str], stated: TableParams | None
) -> tuple[dict[str, Row], list[str]]:
    """Match rows of a table with pictures; return also the names that match none."""
    rows = list(read_rows(name, files.read(name), stated.separator if stated else None))
    columns = list(rows[0]) if rows else []
    folder = PurePosixPath(normalise_name(name)).parent

    def find_picture(cell: str) -> str | None:
        path = PurePosixPath(normalise_name(cell.strip().replace("\\", "/")))
        joined = (folder / path).as_posix()
        return index.get(joined) or index.get(path.as_posix()) or index.get(path.name)

    if stated and stated.columns:
        columns = [column for column in columns if column == stated.columns[0]]
    hits: dict[str, int] = {}  # number of pictures that a column names
    for column in columns:
        named = {find_picture(row.get(column, "")) for row in rows}
        hits[column] = len(named - {None})
    if not any(hits.values()):
        return {}, []
    name_column = max(hits, key=lambda column: hits[column])
    matched: dict[str, Row] = {}
    unknown: list[str] = []
    for row in rows:
        picture = find_picture(row[name_column])
        if picture is None:
            unknown.append(row[name_column])
        else:
            matched[picture] = {key: cell for key, cell in row.items() if key != name_column}
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
    """Read classes of pictures, a note that says why there are none, and splits from a table.

    Raises GenlabError where it has no column of the stated name.
    """
    rows = [table.rows[picture] for picture in pictures]
    columns = list(rows[0])
    by_word = {column.strip().lower(): column for column in columns}
    split_columns = [by_word[word] for word in SPLIT_COLUMNS if word in by_word]
    official: list[str | None] = [None] * len(rows)
    if split_columns:
        official = [parse_split(row[split_columns[0]].strip()) for row in rows]
    stated = source.table.columns[1] if source.table and source.table.columns else source.labels
    if stated and stated not in columns:
        message = (
            f"{join_first(table.files)}: has no column {stated}; columns: {join_first(columns)}"
        )
        raise GenlabError(message, key="source.labels", path=table.files[0])
    label_columns = [by_word[word] for word in LABEL_COLUMNS if word in by_word]
    other_columns = [column for column in columns if column not in split_columns]
    label_column = stated
    if not stated and label_columns:
        label_column = label_columns[0]
    elif not stated and len(other_columns) == 1:
        label_column = other_columns[0]
    if label_column:
        classes, note = name_classes([row.get(label_column, "") for row in rows])
        return classes, note, official
    cells = {column: [row.get(column, "") for row in rows] for column in other_columns}
    one_hot = name_one_hot(cells)
    if one_hot:
        return one_hot, "", official
    note = f"none of its columns is the label ({join_first(other_columns)}); set labels to one"
    return [None] * len(rows), note, official


def read_column(table: Table, pictures: Sequence[str], column: str | None) -> list[str]:
    """Return the cells of a column for pictures; none where the table has no such column."""
    rows = [table.rows[picture] for picture in pictures]
    return [row.get(column, "") for row in rows] if column in rows[0] else []


def _ambiguity_error(files: Files, ambiguity: str) -> GenlabError:
    fix = "set labels to none, top, leaf or path to read folders alone, or table to one file"
    message = f"{files.path}: {ambiguity}: {fix}"
    return GenlabError(message, key="source.labels", path=files.path, fix=fix)
