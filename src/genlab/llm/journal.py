"""Record of every answered question, by which a run is resumed and replayed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any


class Journal(AbstractContextManager["Journal"]):
    """Append-only file of entries, a line of JSON each."""

    def __init__(
        self,
        path: Path,
        *,
        replay: bool = False,
        note: Callable[[str], None] = print,
        secrets: Sequence[str] = (),
    ) -> None:
        raise NotImplementedError

    def remember(
        self, kind: str, request: Any, produce: Callable[[], dict[str, Any]]
    ) -> dict[str, Any]:
        raise NotImplementedError

    def __exit__(self, *_: object) -> None:
        raise NotImplementedError
