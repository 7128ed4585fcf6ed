"""Write and read files of people's answers in the format that their name or content says."""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from genlab.benchmark.exchange import label_studio, stars, votes
from genlab.benchmark.store.repository import Store

JSON = ".json"


def write_ratings(store: Store, path: Path) -> Iterator[str]:
    """Write stars to `path`, and preferences to a file beside it; yields a line per file."""
    if path.suffix.lower() == JSON:
        count = label_studio.export_tasks(store, path)
        config = path.with_suffix(".xml")
        yield f"wrote {path}: {count} tasks for Label Studio; its project takes {config}"
    else:
        yield f"wrote {path}: {stars.export_stars(store, path)} ratings"
    votes_path = path.with_name(f"{path.stem}-votes.csv")
    yield f"wrote {votes_path}: {votes.export_votes(store, votes_path)} preferences"


def read_ratings(store: Store, path: Path) -> Iterator[str]:
    """Read stars or preferences; yields lines on what has changed and what is left out."""
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
    """Whether the first line has a column of votes."""
    with path.open(encoding="utf-8-sig", errors="replace") as lines:
        names = "".join(islice(lines, 1)).strip().split(",")
    return "winner" in [name.strip('"') for name in names]
