"""The shared style of all figures, and the context manager that saves one."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib.style
from matplotlib.figure import Figure

from genlab.core.io import atomic_write
from genlab.core.params import PARAMS_FILE, load_params

STYLE_FILE = Path(__file__).with_name("genlab.mplstyle")
WIDTH = 8.0
"""Inches."""
INK, MUTED, RULE = "#22282e", "#66707a", "#d8dde2"
BLUE, ORANGE, TEAL, RED, VIOLET = "#2b6ca3", "#d97a1e", "#2a8c82", "#c22f3d", "#7d5ba6"
SERIES = (BLUE, ORANGE, TEAL, VIOLET, RED, "#8a6d3b", "#5f7f2e", "#b5577f")
"""The colours of the style file's `axes.prop_cycle`; the app's charts have them, too."""


@contextmanager
def figure_file(path: str | Path, height: float) -> Iterator[Figure]:
    """A figure of the common width and `height` inches that is saved to `path` as a PNG.

    The user's own matplotlibrc has no effect. The file says which command and params made it, but
    no version or date: the same run gives the same bytes. Without pyplot, so that no state
    outlives the figure.
    """
    with matplotlib.style.context(STYLE_FILE, after_reset=True):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        yield figure
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None, **_source()})


def _source() -> dict[str, str]:
    """The command and the digest of the params' values, as text of a PNG."""
    known = Path(PARAMS_FILE).is_file()
    digest = f"params {load_params().digest()}" if known else f"no {PARAMS_FILE}"
    return {"Source": " ".join(["python", *sys.argv]), "Comment": digest}
