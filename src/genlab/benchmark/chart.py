"""Figure of the leaderboard: score by contender, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from genlab.benchmark.leaderboard.standings import Standing
from genlab.core.io import atomic_write

INK, MUTED, RULE, BLUE, ORANGE = "#22282e", "#66707a", "#d8dde2", "#2b6ca3", "#d97a1e"
WIDTH = 8.0
CONTROL = "control_"
"""Prefix of the ids of controls."""

STYLE: dict[Any, Any] = {
    "backend": "agg",
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "text.color": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "ytick.left": False,
    "savefig.dpi": 150,
}


def draw_scores(path: Path, standings: Sequence[Standing]) -> None:
    """Draw the mean score of each contender with its 95 % interval; deterministic.

    Controls are orange. A contender without a score shows its failures.
    """
    with mpl.rc_context({**mpl.rcParamsDefault, **STYLE}):
        figure = Figure(figsize=(WIDTH, 1.1 + 0.42 * max(2, len(standings))), layout="constrained")
        axes = figure.add_subplot()
        for place, s in enumerate(reversed(standings)):
            colour = ORANGE if s.tool_id.startswith(CONTROL) else BLUE
            axes.axhline(place, color=RULE, linewidth=0.7, zorder=0)
            if s.score is None:
                why = ", ".join(f"{kind} {n}" for kind, n in s.failures.items()) or "not run"
                axes.text(0.01, place, why.replace("_", " "), va="center", color=MUTED)
                continue
            if s.low is not None and s.high is not None:
                axes.plot([s.low, s.high], [place, place], color=colour, linewidth=5, alpha=0.35)
            axes.plot(s.score, place, "o", color=colour, markersize=7)
            axes.text(1.06, place, f"{s.score:.2f}", va="center", ha="right")
            axes.text(1.17, place, f"n = {s.scored}", va="center", ha="right", color=MUTED)
        axes.set_yticks(range(len(standings)), [s.label for s in reversed(standings)])
        axes.set_xlim(-0.01, 1.0)
        axes.set_ylim(-0.6, len(standings) - 0.4)
        axes.set_xlabel("score (mean over cases, 95 % interval; controls in orange)")
        axes.set_title("Person swap: score by contender")
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="png", metadata={"Software": None})
