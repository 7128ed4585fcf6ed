"""Progress bars: live on a terminal, a line every ten seconds in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from tqdm import tqdm

LOG_SECONDS = 10.0
# tqdm prints an empty bar at once unless there is a delay, and a last line unless it is noticeable.
NO_EMPTY_BAR = 1e-9
# tqdm's own thread redraws bars whose steps grow slow; it warns where there is no memory for it.
tqdm.monitor_interval = 0


class _LogLines:
    """A stream that takes tqdm's redrawn line as lines of their own."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        if line := text.strip():
            self._stream.write(line + "\n")

    def flush(self) -> None:
        self._stream.flush()


def progress(iterable: Iterable[Any] | None = None, **options: Any) -> tqdm[Any]:
    """Return a tqdm bar with `options`; where stderr is no terminal, it prints lines.

    In a log there is one line every LOG_SECONDS and one at the end, the latter not with
    `leave=False`. `set_postfix` needs `refresh=False`, or prints another line.
    """
    if not sys.stderr.isatty():
        every = {"mininterval": LOG_SECONDS, "maxinterval": LOG_SECONDS, "delay": NO_EMPTY_BAR}
        options = {"file": _LogLines(sys.stderr), "ncols": 100, **every, **options}
    return tqdm(iterable, miniters=1, **options)  # each step looks at the clock
