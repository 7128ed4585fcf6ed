"""The progress of a run as a figure: each attempt, the best so far, search's best, the goal."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from genlab.agent.goals import METRICS, Goal
from genlab.agent.registry import Attempt

HEIGHT = 4.2  # inches


def best_so_far(attempts: Sequence[Attempt], goal: Goal) -> tuple[list[int], list[float]]:
    """Numbers of the attempts from the first measured one on, and the best mean up to each."""
    numbers: list[int] = []
    values: list[float] = []
    for each in attempts:
        value = each.mean(goal.metric)
        known = [*values[-1:], *([value] if value is not None else [])]
        if known:
            numbers.append(each.number)
            values.append(max(known) if goal.higher else min(known))
    return numbers, values


def draw_progress(
    path: Path, goal: Goal, run: Sequence[Attempt], search: Sequence[Attempt]
) -> None:
    """Draw the progress of a run to a PNG."""
    from matplotlib.ticker import MaxNLocator

    from genlab.evaluation.figures.style import BLUE, INK, MUTED, ORANGE, figure_file

    with figure_file(path, HEIGHT) as figure:
        axes = figure.add_subplot()
        last = max(len(run), len(search), 1) + 0.5
        axes.axhline(
            goal.threshold, color=ORANGE, linestyle="--", label=f"goal: {goal.threshold:g}"
        )
        lines = ((search, MUTED, ":", "search alone, best so far"), (run, BLUE, "-", "best so far"))
        for attempts, colour, style, label in lines:
            numbers, values = best_so_far(attempts, goal)
            if numbers:
                axes.step([*numbers, last], [*values, values[-1]], where="post", color=colour,
                          linestyle=style, label=label)  # fmt: skip
        for origin, marker in (("llm", "o"), ("search", "^")):
            chosen = [each for each in run if each.origin == origin and each.mean(goal.metric)]
            means = [each.mean(goal.metric) or 0.0 for each in chosen]
            if chosen:
                label = f"planned by {'the LLM' if origin == 'llm' else origin}"
                axes.plot([each.number for each in chosen], means, marker, color=INK, label=label)
            for each in chosen:
                values = each.values(goal.metric)
                axes.vlines(each.number, min(values), max(values), color=INK, linewidth=1.2)
        axes.set(xlabel="attempt", ylabel=f"{METRICS[goal.metric].label}, validation")
        axes.set_xlim(0.5, last)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        figure.legend(loc="outside lower center", ncols=3)
