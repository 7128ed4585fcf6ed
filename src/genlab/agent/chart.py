"""The progress of a run as a picture: each attempt's number, the best so far, the goal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from genlab.agent.attempt import Attempt
from genlab.agent.goal import Goal
from genlab.core.io import atomic_write

WIDTH, HEIGHT, DPI = 5.6, 3.9, 180  # readable on a phone, too


@dataclass(frozen=True)
class Look:
    """Colours on light or on dark paper."""

    ink: str
    muted: str
    rule: str
    paper: str
    blue: str
    orange: str


LIGHT = Look("#22282e", "#66707a", "#d8dde2", "#ffffff", "#2b6ca3", "#d97a1e")
DARK = Look("#e6e9ec", "#a3acb5", "#3a4148", "#16191c", "#7db4e6", "#f0a35a")
MARKERS = {"baseline": ("s", "baseline"), "llm": ("o", "planned by the LLM"),
           "search": ("^", "planned by search")}  # fmt: skip
NAMES = {"accuracy": "accuracy on the validation part", "val_loss": "validation loss, nats an item",
         "parameters": "parameters", "seconds": "seconds of training"}  # fmt: skip


def planner_of(attempt: Attempt) -> str:
    """baseline, llm or search."""
    return "llm" if attempt.plan_origin.startswith("llm") else attempt.plan_origin


def so_far(found: Sequence[Attempt], goal: Goal) -> tuple[list[int], list[float]]:
    """Numbers of the attempts from the first one with marks on, and the best value up to each."""
    numbers: list[int] = []
    values: list[float] = []
    for each in found:
        value = each.value(goal.metric)
        best = [value] if value is not None else []
        best += values[-1:]
        if best:
            numbers.append(each.iteration)
            values.append(max(best) if goal.higher else min(best))
    return numbers, values


def progress(
    path: Path, goal: Goal, run: Sequence[Attempt], search: Sequence[Attempt], look: Look = LIGHT
) -> None:
    """Draw `path`, a PNG without a date or version in it; whole or not at all."""
    # The reader's own matplotlibrc has no say in it.
    style: dict[Any, Any] = {**mpl.rcParamsDefault, **_style(look), "backend": "agg"}
    with mpl.rc_context(style):
        figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
        axes = figure.add_subplot()
        most = max(len(run), len(search), 1)
        axes.axhline(goal.bound, color=look.orange, linestyle="--", linewidth=1.2,
                     label=f"goal, {goal.bound:g}")  # fmt: skip
        # Apart by a little, or attempts of equal worth would hide each other.
        apart = min(0.08, 0.02 * most) if search else 0.0
        if search:
            _best_so_far(axes, goal, search, apart, most, color=look.muted, linestyle=":",
                         marker="v", label="search alone, best so far")  # fmt: skip
        _best_so_far(
            axes, goal, run, -apart, most, color=look.blue, linestyle="-", label="best so far"
        )
        _points(axes, goal, run, look, -apart)
        axes.set_xlabel("attempt")
        axes.set_ylabel(NAMES[goal.metric])
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.set_xlim(0.5, most + 0.5)
        axes.margins(y=0.08)
        figure.legend(loc="outside lower center", ncols=2)
        with atomic_write(path) as temporary:
            figure.savefig(temporary, format="png", dpi=DPI, metadata={"Software": None})


def _best_so_far(
    axes: Any, goal: Goal, found: Sequence[Attempt], apart: float, most: int, **line: Any
) -> None:
    """The best value up to each attempt, as steps that go on to the plot's end."""
    numbers, values = so_far(found, goal)
    if numbers:
        places = [number + apart for number in numbers]
        axes.step([*places, most + 0.5], [*values, values[-1]], where="post", linewidth=1.6,
                  markersize=4, markevery=range(len(places)), **line)  # fmt: skip


def _points(axes: Any, goal: Goal, run: Sequence[Attempt], look: Look, apart: float) -> None:
    """A mark an attempt by who planned it, with a line over its seeds where there are several."""
    for kind, (marker, label) in MARKERS.items():
        chosen = [each for each in run if planner_of(each) == kind]
        known = [(each, each.value(goal.metric)) for each in chosen]
        points = [(each.iteration + apart, value) for each, value in known if value is not None]
        if points:
            axes.plot(*zip(*points, strict=True), marker, color=look.ink, markersize=6,
                      label=label)  # fmt: skip
        for each in chosen:
            values = each.values(goal.metric)
            if len(values) > 1:
                axes.vlines(each.iteration + apart, min(values), max(values), color=look.ink,
                            linewidth=1.2)  # fmt: skip


def _style(look: Look) -> dict[str, Any]:
    return {
        "font.family": "DejaVu Sans",
        "font.size": 10,
        "axes.edgecolor": look.muted,
        "axes.facecolor": look.paper,
        "axes.labelcolor": look.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": look.rule,
        "grid.linewidth": 0.7,
        "text.color": look.ink,
        "xtick.color": look.muted,
        "ytick.color": look.muted,
        "xtick.labelcolor": look.ink,
        "ytick.labelcolor": look.ink,
        "xtick.labelsize": 9,
        "ytick.labelsize": 9,
        "legend.frameon": False,
        "legend.fontsize": 8.5,
        "figure.facecolor": look.paper,
        "savefig.facecolor": look.paper,
    }
