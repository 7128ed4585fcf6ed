"""Plot the leaderboard: score by contender, with intervals."""

from collections.abc import Sequence
from pathlib import Path

from genlab.benchmark.leaderboard.standings import Standing
from genlab.evaluation.figures.style import BLUE, MUTED, ORANGE, figure_file

CONTROL = "control_"
"""Prefix of the ids of controls."""


def draw_scores(path: Path, standings: Sequence[Standing]) -> None:
    """Draw the mean score of each contender with its 95 % interval; deterministic.

    Controls are orange. A contender without a score shows its failures.
    """
    with figure_file(path, 1.1 + 0.42 * max(2, len(standings))) as figure:
        axes = figure.add_subplot()
        for y, s in enumerate(reversed(standings)):
            colour = ORANGE if s.tool_id.startswith(CONTROL) else BLUE
            if s.score is None:
                why = ", ".join(f"{kind} {n}" for kind, n in s.failures.items()) or "not run"
                axes.text(0.01, y, why.replace("_", " "), va="center", color=MUTED)
                continue
            if s.low is not None and s.high is not None:
                axes.plot([s.low, s.high], [y, y], color=colour, linewidth=5, alpha=0.35)
            axes.plot(s.score, y, "o", color=colour, markersize=7)
            axes.text(1.06, y, f"{s.score:.2f}", va="center", ha="right")
            axes.text(1.17, y, f"n = {s.scored}", va="center", ha="right", color=MUTED)
        axes.grid(visible=False, axis="x")
        axes.set_yticks(range(len(standings)), [s.label for s in reversed(standings)])
        axes.set_xlim(-0.01, 1.0)
        axes.set_ylim(-0.6, len(standings) - 0.4)
        axes.set_xlabel("score (mean over cases, 95 % interval; controls in orange)")
        axes.set_title("Person swap: score by contender")
