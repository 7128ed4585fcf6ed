"""Progress bars: live on a terminal, a line every ten seconds in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any, TextIO

from tqdm import tqdm

LOG_SECONDS = 10.0
# tqdm prints an empty bar at once unless there is a delay, and a last line unless it is noticeable.
NO_EMPTY_BAR = 1e-9


class _LogLines:
    """A stream that takes tqdm's redrawn line as lines of their own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        if line := text.strip():
            self._stream.write(line + "\n")

    def flush(self) -> None:
        self._stream.flush()


class _LogBar(tqdm):  # type: ignore[type-arg]
    """A bar whose postfix waits for the next line."""

    def set_postfix(
        self,
        ordered_dict: Mapping[str, object] | None = None,
        refresh: bool | None = False,
        **values: Any,
    ) -> None:
        """Set the postfix without printing a line for it."""
        super().set_postfix(ordered_dict, refresh=False, **values)


def progress(iterable: Iterable[Any] | None = None, **options: Any) -> tqdm[Any]:
    """Return a tqdm bar with `options`; where stderr is no terminal, it prints lines.

    In a log there is one line every LOG_SECONDS and one at the end, the latter not with
    `leave=False`.
    """
    if not sys.stderr.isatty():
        every = {"mininterval": LOG_SECONDS, "maxinterval": LOG_SECONDS, "delay": NO_EMPTY_BAR}
        lines = _LogLines(sys.stderr)
        return _LogBar(iterable, **{"file": lines, "ncols": 100, **every, **options})
    return tqdm(iterable, **options)
