"""Charts of the pages, as Vega-Lite: the theme of the page gives the inks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from genlab.web.components import look

Spec = dict[str, Any]
Points = Sequence[tuple[float, float]]

HEIGHT = 230
TITLE: Spec = {"anchor": "start", "fontSize": 13}
PADDING: Spec = {"left": 2, "right": 14, "top": 2, "bottom": 2}
"""Sandbox at the right for half of the last label, which stands out over the axis."""

MOST_DECADES = 5


def lines(
    curves: Mapping[str, Points],
    title: str,
    *,
    names: Sequence[str] = (),
    unit: str = "",
    log: bool = False,
) -> Spec:
    """Curves over epochs, one line a name, in one chart.

    names: all that the legend above the charts names, so that each keeps its colour.

    curves: (epoch, value) each. What is not finite is left out, and on a log scale what is not
    over 0.
    """
    values: list[Spec] = [
        {"run": name, "epoch": epoch, "value": value}
        for name, points in curves.items()
        for epoch, value in points
        if math.isfinite(value) and (value > 0 or not log)
    ]
    names = names or list(curves)
    scale = {"type": "log"} if log else {"zero": False}
    ticks: Spec = {"tickCount": 4}
    if log:
        ticks = {"values": decades([point["value"] for point in values]), "format": "~g"}
    spec: Spec = {
        "data": {"values": values},
        "height": HEIGHT,
        "padding": PADDING,
        "title": {"text": f"{title}, {unit}" if unit else title, **TITLE},
        "mark": {"type": "line", "strokeWidth": 2, "point": len(values) <= len(names)},
        "encoding": {
            "x": {
                "field": "epoch",
                "type": "quantitative",
                "title": "epoch",
                "axis": {"tickCount": 6, "format": "d", "titlePadding": 4},
            },
            "y": {
                "field": "value",
                "type": "quantitative",
                "title": None,
                "scale": scale,
                "axis": ticks,
            },
            "color": {
                "field": "run",
                "type": "nominal",
                "sort": list(names),
                "scale": {"domain": list(names)},
                "legend": None,
            },
            "tooltip": [
                {"field": "run", "title": "run"},
                {"field": "epoch", "title": "epoch"},
                {"field": "value", "title": title, "format": ".5g"},
            ],
        },
    }
    return spec


def points(found: Sequence[Mapping[str, float]]) -> Spec:
    """Machine's score and people's stars of each picture, one point each."""
    return {
        "data": {"values": list(found)},
        "height": 360,
        "padding": PADDING,
        "mark": {"type": "point", "filled": True, "size": 70, "opacity": 0.8},
        "encoding": {
            "x": {
                "field": "machine",
                "type": "quantitative",
                "title": "machine's score",
                "scale": {"domain": [0, 1]},
                "axis": {"tickCount": 5},
            },
            "y": {
                "field": "people",
                "type": "quantitative",
                "title": "people's stars",
                "scale": {"domain": [1, 5]},
                "axis": {"tickCount": 5},
            },
            "tooltip": [
                {"field": "machine", "format": ".2f"},
                {"field": "people", "format": ".1f"},
            ],
        },
    }


def inks(*, dark: bool) -> Spec:
    """Vega's settings that give words of a chart the pages' inks: Streamlit's are too faint."""
    ink, muted = ((look.DARK if dark else look.LIGHT)[name] for name in ("ink", "muted"))
    words = {"labelColor": muted, "titleColor": muted}
    return {"axis": words, "legend": words, "title": {"color": ink}}


def decades(values: Sequence[float]) -> list[float]:
    """Powers of ten from below `values`, all over 0, to above them; not more than a few.

    Left to itself, Vega rules a line for every digit of a decade where there are few of them.
    """
    if not values:
        return []
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    step = max(1, -(-(high - low) // MOST_DECADES))
    return [10.0**power for power in range(low, high + step, step)]


def bars(shares: Mapping[str, float], title: str, *, ordered: bool = False) -> Spec:
    """Shares as bars, their names at the left; ordered: the names are numbers, at the bottom."""
    values = [{"name": name, "share": share} for name, share in shares.items()]
    named = {"field": "name", "type": "ordinal", "sort": None, "title": None}
    counted = {
        "field": "share",
        "type": "quantitative",
        "title": None,
        "axis": {"format": "~%", "tickCount": 4},
    }
    across = {**named, "axis": {"labelAngle": 0, "labelOverlap": True}}
    return {
        "data": {"values": values},
        "height": HEIGHT if ordered else 90 + 20 * len(values),
        "padding": PADDING,
        "title": {"text": title, **TITLE},
        "mark": {"type": "bar", "cornerRadiusEnd": 2},
        "encoding": {
            "x": across if ordered else counted,
            "y": counted
            if ordered
            else {**named, "axis": {"labelLimit": 160, "labelOverlap": False}},
            "tooltip": [
                {"field": "name", "title": title},
                {"field": "share", "title": "share", "format": ".2%"},
            ],
        },
    }


def summary(curves: Mapping[str, Points], title: str) -> str:
    """The chart in words: where each curve begins and ends."""
    said = [
        f"{name} from {points[0][1]:.4g} at epoch {points[0][0]:g}"
        f" to {points[-1][1]:.4g} at epoch {points[-1][0]:g}"
        for name, points in curves.items()
        if points
    ]
    return f"{title}: " + "; ".join(said)
