"""What a convention makes of files: names, splits, classes, and a way to load each picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from genlab.core.picture import DecodedPicture


class Loader(Protocol):
    """Loads pictures by their number."""

    def __call__(self, index: int, side: int) -> DecodedPicture:
        """Load a picture that will be reduced to `side`; may raise UnreadablePictureError."""

    def part(self, rows: range) -> Loader:
        """Return a loader of these rows alone, to be sent to another process."""


@dataclass(frozen=True, eq=False)
class Collection:
    """Pictures of one source, not loaded yet.

    names: for messages, in order. splits: train, val, test, or empty where none is official.
    classes: None where there are none, or for a picture without one. left_out: names by reason.
    groups: values of a column, by which pictures share a split; empty where none is stated.
    """

    path: Path
    convention: str
    names: Sequence[str]
    splits: Sequence[str]
    classes: Sequence[str | None]
    load: Loader
    left_out: dict[str, list[str]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    groups: Sequence[str] = ()
