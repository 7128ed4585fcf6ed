"""Record of the pictures read so far, from which a killed run resumes.

Levels are in a file that grows; facts of each chunk are in a file beside it.

Levels are written, not mapped: pages of a mapping would count as memory.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Levels = npt.NDArray[np.uint8]


@dataclass
class PictureFacts:
    """What was found in pictures; the facts of several chunks add up.

    rows: numbers of the pictures that were read. digests: of their pixels. sizes: number of
    pictures of each width and height. low, high: minimum and maximum stored value. unreadable: a
    line per picture that could not be read.
    """

    rows: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    traits: Counter[str] = field(default_factory=Counter)
    low: float = np.inf
    high: float = -np.inf
    unreadable: list[str] = field(default_factory=list)

    def add(self, chunk: PictureFacts) -> None:
        """Add the facts of a chunk of pictures that comes after these."""
        self.rows += chunk.rows
        self.digests += chunk.digests
        self.sizes += chunk.sizes
        self.traits += chunk.traits
        self.low = min(self.low, chunk.low)
        self.high = max(self.high, chunk.high)
        self.unreadable += chunk.unreadable

    def to_json(self) -> str:
        """Return the facts as one line of JSON."""
        values: dict[str, Any] = {
            "rows": self.rows,
            "digests": [digest.hex() for digest in self.digests],
            "sizes": [[*size, count] for size, count in self.sizes.items()],
            "traits": self.traits,
            "range": [self.low, self.high],
            "unreadable": self.unreadable,
        }
        return json.dumps(values)

    @classmethod
    def from_json(cls, line: str) -> PictureFacts:
        """Parse a line of `to_json`. Raises ValueError or LookupError for a truncated one."""
        values = json.loads(line)
        return cls(
            rows=values["rows"],
            digests=[bytes.fromhex(digest) for digest in values["digests"]],
            sizes=Counter({(width, height): n for width, height, n in values["sizes"]}),
            traits=Counter(values["traits"]),
            low=values["range"][0],
            high=values["range"][1],
            unreadable=values["unreadable"],
        )


class Ledger:
    """Levels (n, *shape) in a growing `file` (.npy), and facts of each chunk in a file beside it.

    It resumes from files that were written with the same key. chunks: number of finished chunks.
    facts: of all of them.
    """

    def __init__(self, file: Path, shape: tuple[int, int, int], key: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        self.shape = shape
        self.facts = PictureFacts()
        self.chunks = 0
        self.lines = file.with_suffix(".jsonl")
        self.item_bytes = int(np.prod(shape))
        finished = self._read_lines(key)
        with file.open("r+b" if file.exists() else "w+b") as levels:
            self._write_header(levels, 0)
            self.start = levels.tell()
            items = (levels.seek(0, 2) - self.start) // self.item_bytes
        for facts in finished:
            if len(self.facts.rows) + len(facts.rows) > items:
                break
            self.facts.add(facts)
            self.chunks += 1
        with self.file.open("r+b") as levels:
            levels.truncate(self.start + len(self.facts.rows) * self.item_bytes)
        self._rewrite(key, finished[: self.chunks])

    def add(self, levels: Sequence[Levels], facts: PictureFacts) -> None:
        """Add a chunk: first its levels, then the line that records them."""
        with self.file.open("ab") as file:
            for item in levels:
                file.write(item.tobytes())
        with self.lines.open("a", encoding="utf-8") as lines:
            lines.write(facts.to_json() + "\n")
        self.facts.add(facts)
        self.chunks += 1

    def finish(self) -> Levels:
        """Return the levels of all chunks, mapped read-only."""
        with self.file.open("r+b") as levels:
            self._write_header(levels, len(self.facts.rows))
        mapped: Levels = np.load(self.file, mmap_mode="r")
        return mapped

    def _write_header(self, file: Any, count: int) -> None:
        # numpy pads it so that the first axis may grow: its length stays the same.
        header = {"descr": "|u1", "fortran_order": False, "shape": (count, *self.shape)}
        np.lib.format.write_array_header_1_0(file, header)

    def _read_lines(self, key: str) -> list[PictureFacts]:
        """Read the facts of finished chunks; none where they are of another key."""
        if not self.lines.is_file():
            return []
        first, *lines = self.lines.read_text(encoding="utf-8").split("\n")
        if first != key:
            return []
        finished: list[PictureFacts] = []
        for line in lines:
            try:
                finished.append(PictureFacts.from_json(line))
            except (ValueError, LookupError, TypeError):  # the run was killed while it wrote this
                break
        return finished

    def _rewrite(self, key: str, finished: Sequence[PictureFacts]) -> None:
        lines = [key, *(facts.to_json() for facts in finished)]
        self.lines.write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_key(*inputs: Any) -> str:
    """Compute the SHA-256 of everything that decides the result of reading."""
    return hashlib.sha256(repr(inputs).encode()).hexdigest()
