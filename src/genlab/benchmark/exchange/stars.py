"""Export and import stars as CSV.

Images are identified by their SHA-256; the columns of case and tool are for readers only.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from genlab.benchmark.exchange.rows import parse_time, read_rows
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Rating
from genlab.core.io import write_text

COLUMNS = ("subject_kind", "subject_hash", "rater", "stars", "context", "session", "rated")
EXPORT = f"""
    SELECT {", ".join(COLUMNS)}, coalesce(max(case_id), '') AS case_id,
        coalesce(max(tool_id), '') AS tool_id
    FROM human_scores LEFT JOIN run_items
        ON subject_kind = 'run_item' AND image_sha256 = subject_hash
    GROUP BY rating_id ORDER BY subject_kind, subject_hash, rater, context
"""


def export_stars(store: Store, path: Path) -> int:
    """Write all stars as CSV; returns their number."""
    stars = store.table(EXPORT)
    write_text(path, stars.to_csv(index=False, lineterminator="\n"))
    return len(stars)


def import_stars(store: Store, path: Path) -> int:
    """Add the stars of a CSV file, all or none; returns how many changed anything.

    Stars belong to an image's content: they are added even if this store lacks the image's run.
    Newer stars of this store stay. Raises a `GenlabError` that names the line of the first fault.
    """
    return store.add(Rating, _read_stars(path), path)


def _read_stars(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for place, row in read_rows(path, COLUMNS):
        values: dict[str, Any] = {name: row[name] for name in COLUMNS}
        values["rated"] = parse_time(place, row["rated"], path)
        if row["stars"].isdecimal():
            values["stars"] = int(row["stars"])
        yield place, values
