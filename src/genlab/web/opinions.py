"""What people say to the explanations of failures: `runs/opinions.jsonl`, a line an opinion.

Lines are only ever added; the last one of a person about a subject and a hypothesis holds. The
file lies under `runs/`, which no stage of DVC deletes.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from pathlib import Path

from filelock import FileLock, Timeout

from genlab.core.console import GenlabError
from genlab.web.files import fresh, stamp

FILE = Path("runs/opinions.jsonl")
LONGEST_NAME = 80
PATIENCE = 5.0  # seconds for another one who writes
ANONYMOUS = "anonymous"

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Opinion:
    """One person's word about one explanation; agrees is None where it was taken back."""

    dataset: str
    sort: str
    subject: str
    hypothesis: str
    rater: str
    agrees: bool | None
    time: str

    @property
    def key(self) -> Key:
        """What a later opinion replaces."""
        return (self.subject, self.hypothesis, self.rater)


def give(
    file: Path,
    *,
    dataset: str,
    sort: str,
    subject: str,
    hypothesis: str,
    rater: str,
    agrees: bool | None,
) -> Opinion:
    """Store an opinion, and return it. Raises a GenlabError where the file cannot be written."""
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    opinion = Opinion(dataset, sort, subject, hypothesis, clean(rater), agrees, now)
    line = json.dumps(asdict(opinion), ensure_ascii=False) + "\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{file}.lock", timeout=PATIENCE):
            torn = file.is_file() and not file.read_bytes().endswith(b"\n") and file.stat().st_size
            with file.open("a", encoding="utf-8") as out:
                # A line that a crash cut short stands alone, and is passed over when read.
                out.write(f"\n{line}" if torn else line)
    except Timeout as error:
        raise GenlabError(f"{file}: another program holds it; say it again in a moment") from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise GenlabError(f"{file}: not stored ({reason}); make the folder writable") from error
    return opinion


def standing(file: Path) -> Mapping[Key, Opinion]:
    """The opinions that hold, by subject, hypothesis and rater; none where there is no file."""
    return {} if stamp(file) is None else _standing(file)


def tally(file: Path, subject: str, hypothesis: str) -> tuple[int, int]:
    """How many people agree, and how many don't."""
    said = [
        opinion.agrees
        for key, opinion in standing(file).items()
        if key[:2] == (subject, hypothesis)
    ]
    return said.count(True), said.count(False)


def clean(name: str) -> str:
    """A name as it is stored: one line, no control characters, not too long, never empty."""
    kept = "".join(c for c in name if unicodedata.category(c)[0] != "C" or c == " ")
    return " ".join(kept.split())[:LONGEST_NAME] or ANONYMOUS


@fresh(keep=2)
def _standing(file: Path) -> Mapping[Key, Opinion]:
    found: dict[Key, Opinion] = {}
    for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            opinion = Opinion(**json.loads(line))
        except (ValueError, TypeError):
            continue  # cut short, or of another version
        if opinion.agrees is None:
            found.pop(opinion.key, None)
        else:
            found[opinion.key] = opinion
    return found
