"""Pictures of one source before they are loaded: names, splits, classes, and a loader."""

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

    def select(self, rows: range) -> Loader:
        """Return a loader of these rows only, to be sent to another process."""


@dataclass(frozen=True, eq=False)
class Collection:
    """Pictures of one source, not loaded yet.

    names: of the pictures, for messages. splits: train, val, test, or empty for a picture without
    an official split. classes: None for a picture without a class. left_out: names of files that
    are not read, by reason. groups: values of a column; pictures with equal values share a split.
    Empty where no column is stated.
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
