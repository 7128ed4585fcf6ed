"""The one style of all figures, and how they are saved.

Figures are 8 inches wide at 150 dpi; a README shows them at about 830 pixels, where 10 points
come out as 14 pixels. Nothing may be written smaller than 8 points.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from genlab.core.io import atomic_write

WIDTH = 8.0
INK, MUTED, RULE, PAPER = "#22282e", "#66707a", "#d8dde2", "#ffffff"
BLUE, ORANGE, TEAL, RED, VIOLET = "#2b6ca3", "#d97a1e", "#2a8c82", "#c22f3d", "#7d5ba6"
SERIES = (BLUE, ORANGE, TEAL, VIOLET, RED, "#8a6d3b", "#5f7f2e", "#b5577f")

STYLE: dict[str, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 10,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "text.color": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.8,
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
    "savefig.dpi": 150,
}


@contextmanager
def drawn(path: str | Path, height: float) -> Iterator[Figure]:
    """A figure of the common width and `height` inches; saved to `path` whole or not at all.

    Figure without pyplot, so that no state outlives it. The PNG holds no version and no date.
    """
    # The reader's own matplotlibrc has no say in it.
    settings: dict[Any, Any] = {**mpl.rcParamsDefault, **STYLE, "backend": "agg"}
    with mpl.rc_context(settings):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None})
