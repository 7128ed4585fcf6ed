"""Charts as Vega-Lite specifications; the theme of the page colours the marks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from genlab.web.components import look

Spec = dict[str, Any]
Points = Sequence[tuple[float, float]]

DECADES = [10.0**power for power in range(-12, 13)]


def lines(curves: Mapping[str, Points], title: str, *, x: str = "epoch", log: bool = False) -> Spec:
    """Curves by name in one chart, (x, value) each; what cannot be drawn is left out.

    log: use a log scale; the chart shows no value of 0 or below.
    """
    values = [
        {"run": name, x: at, "value": value}
        for name, points in curves.items()
        for at, value in points
        if math.isfinite(value) and (value > 0 or not log)
    ]
    # Left to itself, Vega draws a tick for every digit where there are few decades.
    ticks = {"values": DECADES, "labelOverlap": True} if log else {"tickCount": 4}
    scale = {"type": "log"} if log else {"zero": False}
    y = {"scale": scale, "axis": {**ticks, "format": "~g"}}
    legend = {"orient": "bottom", "columns": 4, "title": None} if len(curves) > 1 else None
    point = len(values) <= 2 * len(curves)
    return {
        "data": {"values": values},
        "height": 290 if legend else 230,
        "title": title,
        "mark": {"type": "line", "strokeWidth": 2, "point": point, "tooltip": True},
        "encoding": {
            "x": {"field": x, "type": "quantitative", "axis": {"tickMinStep": 1, "format": "d"}},
            "y": {"field": "value", "type": "quantitative", "title": None, **y},
            "color": {"field": "run", "scale": {"domain": list(curves)}, "legend": legend},
        },
    }


def summary(curves: Mapping[str, Points], title: str, x: str = "epoch") -> str:
    """A chart of lines in words: where each curve begins and ends."""
    return f"{title}: " + "; ".join(
        f"{name} from {points[0][1]:.4g} at {x} {points[0][0]:g}"
        f" to {points[-1][1]:.4g} at {x} {points[-1][0]:g}"
        for name, points in curves.items()
        if points
    )


def inks(*, dark: bool) -> Spec:
    """Vega's settings for the text of a chart; Streamlit's own have too little contrast."""
    ink, muted = (look.INKS[name][dark] for name in ("ink", "muted"))
    words = {"labelColor": muted, "titleColor": muted}
    heading = {"color": ink, "anchor": "start", "fontSize": 13}
    # Half of the last label of an axis needs room at the right.
    return {"axis": words, "legend": words, "title": heading, "padding": {"right": 14}}
