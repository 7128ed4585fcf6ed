"""The progress of the agent's run as a chart of the page, as Vega-Lite and in words."""

from __future__ import annotations

from typing import Any

from genlab.agent.chart import LIGHT, NAMES, planner_of, so_far
from genlab.agent.report import values
from genlab.agent.story import Story

PLANNERS = {"baseline": "baseline", "llm": "by the LLM", "search": "by search"}
SHAPES = {"baseline": "square", "llm": "circle", "search": "triangle-up"}
BEST, SEARCH, GOAL = "best so far", "search alone, best", "goal"
INKS = {BEST: "#3f86c0", SEARCH: "#88919a", GOAL: LIGHT.orange}  # on light and on dark paper
DASHES = {BEST: [1, 0], SEARCH: [2, 3], GOAL: [6, 4]}
POINT_INK = "#7d8791"
HEIGHT = 360  # legends included


def points(told: Story) -> list[dict[str, Any]]:
    """A point each attempt that has a number."""
    metric = told.settings.goal.metric
    return [
        {"attempt": each.iteration, "value": value, "by": PLANNERS[planner_of(each)],
         "model": each.model_name}
        for each in told.attempts
        if (value := each.value(metric)) is not None
    ]  # fmt: skip


def lines(told: Story) -> list[dict[str, Any]]:
    """The goal, the best so far, and search's where it was run."""
    goal = told.settings.goal
    last = max(len(told.attempts), len(told.search), 1)
    curves = {
        BEST: zip(*so_far(told.attempts, goal), strict=True),
        SEARCH: zip(*so_far(told.search, goal), strict=True),
        GOAL: zip((1, last), (goal.bound, goal.bound), strict=True),
    }
    return [
        {"attempt": at, "value": value, "line": name}
        for name, found in curves.items()
        for at, value in found
    ]


def chart(told: Story) -> dict[str, Any]:
    """Progress as Vega-Lite: each attempt's number, and the lines."""
    metric, found = told.settings.goal.metric, points(told)
    drawn, known = lines(told), {each["by"] for each in found}
    names = [name for name in INKS if any(each["line"] == name for each in drawn)]
    kinds = [kind for kind, words in PLANNERS.items() if words in known]
    legend = {"orient": "bottom", "columns": 1, "title": None, "labelLimit": 220}
    x = {"field": "attempt", "type": "quantitative", "title": "attempt", "scale": {"nice": False},
         "axis": {"tickMinStep": 1, "format": "d", "grid": False}}  # fmt: skip
    y = {"field": "value", "type": "quantitative", "title": NAMES[metric], "scale": {"zero": False},
         "axis": {"tickCount": 5}}  # fmt: skip
    line = {"field": "line", "type": "nominal", "legend": {**legend, "symbolType": "stroke"}}
    inks, dashes = ([table[name] for name in names] for table in (INKS, DASHES))
    by = {"field": "by", "type": "nominal", "legend": legend}
    return {
        "height": HEIGHT,
        "layer": [
            {
                "data": {"values": drawn},
                "mark": {"type": "line", "interpolate": "step-after", "strokeWidth": 2},
                "encoding": {
                    "x": x,
                    "y": y,
                    "color": {**line, **_scale(names, inks)},
                    "strokeDash": {**line, "legend": None, **_scale(names, dashes)},
                },
            },
            {
                "data": {"values": found},
                "mark": {"type": "point", "filled": True, "size": 90, "opacity": 1,
                         "color": POINT_INK},
                "encoding": {
                    "x": x,
                    "y": y,
                    "shape": {**by, **_scale([PLANNERS[kind] for kind in kinds],
                                             [SHAPES[kind] for kind in kinds])},
                    "tooltip": [
                        {"field": "attempt"},
                        {"field": "model"},
                        {"field": "value", "title": metric, "format": ".5g"},
                        {"field": "by", "title": "who"},
                    ],
                },
            },
        ],
        "resolve": {"scale": {"color": "independent", "shape": "independent"}},
    }  # fmt: skip


def _scale(domain: list[str], values: list[Any]) -> dict[str, Any]:
    return {"scale": {"domain": domain, "range": values}}


def chart_words(told: Story) -> str:
    """The chart in words."""
    metric = told.settings.goal.metric
    said = ", ".join(f"attempt {each.iteration} {values(each, metric)}" for each in told.attempts)
    return f"{metric} by attempt, the goal at {told.settings.goal.bound:g}: {said or 'none yet'}"
