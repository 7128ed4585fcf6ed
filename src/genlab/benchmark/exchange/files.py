"""Which format a file of people's answers has: by its name where it is written, else by content."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from genlab.benchmark.exchange import label_studio, stars, votes
from genlab.benchmark.store.repository import Store

JSON = ".json"


def write_ratings(store: Store, path: Path) -> Iterator[str]:
    """Write stars, and preferences beside them; yields a line for each file."""
    if path.suffix.lower() == JSON:
        count = label_studio.export_tasks(store, path)
        config = path.with_suffix(".xml")
        yield f"wrote {path}: {count} tasks for Label Studio; its project takes {config}"
    else:
        yield f"wrote {path}: {stars.export_stars(store, path)} ratings"
    beside = path.with_name(f"{path.stem}-votes.csv")
    yield f"wrote {beside}: {votes.export_votes(store, beside)} preferences"


def read_ratings(store: Store, path: Path) -> Iterator[str]:
    """Read stars or preferences; yields a line for what changed, and for what is left out."""
    if path.suffix.lower() == JSON:
        changed, left_out = label_studio.import_tasks(store, path)
        yield f"{path}: {changed} new ratings"
        yield from (f"left out: {line}" for line in left_out)
    elif _is_votes(path):
        changed, missing = votes.import_votes(store, path)
        yield f"{path}: {changed} new preferences"
        if missing:
            yield f"left out: {missing} preferences between images that no run in {store.path} has"
    else:
        yield f"{path}: {stars.import_stars(store, path)} new ratings"


def _is_votes(path: Path) -> bool:
    """Whether the first line names the columns of votes."""
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        names = "".join(islice(lines, 1)).strip().split(",")
    return "winner" in [name.strip('"') for name in names]
