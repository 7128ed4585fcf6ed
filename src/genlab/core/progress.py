"""Progress bars: live on a terminal, one line every ten seconds in a log."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any, TextIO

from tqdm import tqdm

LOG_SECONDS = 10.0
# Any delay keeps tqdm from printing an empty bar at once; a longer one would drop the last line.
NO_EMPTY_BAR = 1e-9
# tqdm's thread, which redraws bars whose steps become slow, warns if there is no memory for it.
tqdm.monitor_interval = 0


class _LogLines:
    """A stream that writes each redrawn bar of tqdm as a line."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        if line := text.strip():
            self._stream.write(line + "\n")

    def flush(self) -> None:
        self._stream.flush()


def progress(iterable: Iterable[Any] | None = None, **options: Any) -> tqdm[Any]:
    """Return a tqdm bar with `options`; if stderr is not a terminal, the bar prints lines.

    A log gets one line every LOG_SECONDS and, unless `leave=False`, one at the end. Call
    `set_postfix` with `refresh=False`: it would print another line.
    """
    if not sys.stderr.isatty():
        timing = {"mininterval": LOG_SECONDS, "maxinterval": LOG_SECONDS, "delay": NO_EMPTY_BAR}
        options = {"file": _LogLines(sys.stderr), "ncols": 100, **timing, **options}
    return tqdm(iterable, miniters=1, **options)  # the clock is checked at each step
