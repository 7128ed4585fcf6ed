"""What was read so far: levels in a file that grows, and facts of each piece, so that a killed run
goes on where it was.

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
class Facts:
    """What was found in pictures; those of pieces add up.

    rows: numbers of those that were read. digests: of their pixels. sizes: how many had each width
    and height. low, high: least and greatest stored value. unreadable: in a line each.
    """

    rows: list[int] = field(default_factory=list)
    digests: list[bytes] = field(default_factory=list)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    traits: Counter[str] = field(default_factory=Counter)
    low: float = np.inf
    high: float = -np.inf
    unreadable: list[str] = field(default_factory=list)

    def add(self, other: Facts) -> None:
        """Add those of another piece, which comes after these."""
        self.rows += other.rows
        self.digests += other.digests
        self.sizes += other.sizes
        self.traits += other.traits
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.unreadable += other.unreadable

    def to_json(self) -> str:
        """All of it in a line."""
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
    def from_json(cls, line: str) -> Facts:
        """The inverse. Raises ValueError or LookupError for a line that was cut off."""
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
    """Levels (n, *shape) in `file` (.npy) and facts beside them; resumes where the key is the same.

    pieces: how many are finished. facts: of all of them.
    """

    def __init__(self, file: Path, shape: tuple[int, int, int], key: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file, self.shape, self.facts, self.pieces = file, shape, Facts(), 0
        self.lines = file.with_suffix(".jsonl")
        self.item_bytes = int(np.prod(shape))
        finished = self._read_lines(key)
        with file.open("r+b" if file.exists() else "w+b") as levels:
            self._write_header(levels, 0)
            self.start = levels.tell()
            held = (levels.seek(0, 2) - self.start) // self.item_bytes
        for facts in finished:
            if len(self.facts.rows) + len(facts.rows) > held:
                break
            self.facts.add(facts)
            self.pieces += 1
        with self.file.open("r+b") as levels:
            levels.truncate(self.start + len(self.facts.rows) * self.item_bytes)
        self._rewrite(key, finished[: self.pieces])

    def add(self, levels: Sequence[Levels], facts: Facts) -> None:
        """Add a piece: first its levels, then the line that says that they are there."""
        with self.file.open("ab") as file:
            for item in levels:
                file.write(item.tobytes())
        with self.lines.open("a", encoding="utf-8") as lines:
            lines.write(facts.to_json() + "\n")
        self.facts.add(facts)
        self.pieces += 1

    def finish(self) -> Levels:
        """The levels of all pieces, mapped read-only."""
        with self.file.open("r+b") as levels:
            self._write_header(levels, len(self.facts.rows))
        mapped: Levels = np.load(self.file, mmap_mode="r")
        return mapped

    def _write_header(self, file: Any, count: int) -> None:
        # numpy pads it so that the first axis may grow: its length stays the same.
        header = {"descr": "|u1", "fortran_order": False, "shape": (count, *self.shape)}
        np.lib.format.write_array_header_1_0(file, header)

    def _read_lines(self, key: str) -> list[Facts]:
        """Facts of finished pieces; none where they are of another key."""
        if not self.lines.is_file():
            return []
        first, *rest = self.lines.read_text(encoding="utf-8").split("\n")
        finished: list[Facts] = []
        for line in rest if first == key else ():
            try:
                finished.append(Facts.from_json(line))
            except (ValueError, LookupError, TypeError):  # the run was killed while it wrote this
                break
        return finished

    def _rewrite(self, key: str, finished: Sequence[Facts]) -> None:
        lines = [key, *(facts.to_json() for facts in finished)]
        self.lines.write_text("\n".join(lines) + "\n", encoding="utf-8")


def make_key(*parts: Any) -> str:
    """SHA-256 of what decides what is read."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()
