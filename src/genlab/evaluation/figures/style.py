"""The shared style of all figures, and the context manager that saves one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure

from genlab.core.io import atomic_write

STYLE_FILE = Path(__file__).with_name("genlab.mplstyle")
WIDTH = 8.0
"""Width of every figure in inches."""
INK = "#22282e"
MUTED = "#66707a"
BLUE = "#2b6ca3"
ORANGE = "#d97a1e"
TEAL = "#2a8c82"
RED = "#c22f3d"
VIOLET = "#7d5ba6"
SERIES = (BLUE, ORANGE, TEAL, VIOLET, RED, "#8a6d3b", "#5f7f2e", "#b5577f")
"""The colours of the style file's `axes.prop_cycle`; the app's charts have them, too."""


@contextmanager
def figure_file(path: str | Path, height: float) -> Iterator[Figure]:
    """Yield a figure of the common width and `height` inches; on success, save it as a PNG.

    The user's own matplotlibrc has no effect. The file holds no version, date or other text, so
    that equal figures are equal bytes. pyplot is not used: no state outlives the figure.
    """
    with matplotlib.style.context(STYLE_FILE, after_reset=True):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None})
