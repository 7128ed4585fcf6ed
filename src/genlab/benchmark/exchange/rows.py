"""Read rows of CSV files; errors name the line."""

import csv
import io
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from genlab.benchmark.store.schema import utc
from genlab.core.errors import GenlabError

Row = dict[str, str]


def read_rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[str, Row]]:
    """Yield the place (file and line) of each row of a CSV file, and the row.

    Raises a `GenlabError` if the file is no CSV file in UTF-8 or lacks one of the `columns`.
    """
    try:
        reader = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig")), strict=True)
        if missing := [name for name in columns if name not in (reader.fieldnames or ())]:
            raise csv.Error(f"line 1 has no column {missing[0]}")
        for row in reader:
            if None in row or None in row.values():
                fault = "has more or fewer fields than the first"
                raise csv.Error(f"line {reader.line_num} {fault}")
            yield f"{path}, line {reader.line_num}", row
    except (UnicodeDecodeError, csv.Error) as error:
        raise GenlabError(f"{path} is not a CSV file in UTF-8: {error}", path=path) from error


def parse_time(place: str, text: object, path: Path) -> str:
    """Parse a time of ISO 8601; returns it as the store writes it."""
    try:
        return utc(datetime.fromisoformat(str(text).replace("Z", "+00:00")))
    except (ValueError, OverflowError) as error:
        raise GenlabError(f"{place}: {error}", key="rated", path=path) from error
