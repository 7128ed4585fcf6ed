"""Charts as Vega-Lite specifications; the theme of the page colours the marks."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import streamlit as st

from genlab.web.components import look

Points = Sequence[tuple[float, float]]

DECADES = [10.0**power for power in range(-12, 13)]


def draw(curves: Mapping[str, Points], title: str, *, x: str = "epoch", log: bool = False) -> None:
    """Draw curves by name in one chart, (x, value) each. log: use a log scale."""
    spec = lines(curves, title, x=x, log=log)
    # Streamlit's own text has too little contrast.
    ink, muted = (look.INKS[name][st.context.theme.type == "dark"] for name in ("ink", "muted"))
    text = {"labelColor": muted, "titleColor": muted}
    heading = {"color": ink, "anchor": "start", "fontSize": 13}
    spec["padding"] = {"right": 14}  # room for half of an axis's last label
    spec["config"] = {"axis": text, "legend": text, "title": heading}
    st.vega_lite_chart(spec, alt=spec.pop("description"))


def lines(
    curves: Mapping[str, Points], title: str, *, x: str = "epoch", log: bool = False
) -> dict[str, Any]:
    """The chart of `draw`, described in words: where each curve begins and ends.

    What cannot be drawn is left out; on a log scale that is every value of 0 or below. Values
    within one decade, of which a log scale would show no tick, have a linear one.
    """
    curves = {name: points for name, points in curves.items() if points}
    above = [value for points in curves.values() for _, value in points if 0 < value < math.inf]
    log = log and bool(above) and max(above) >= 10 * min(above)
    values = [
        {"run": name, x: at, "value": value}
        for name, points in curves.items()
        for at, value in points
        if math.isfinite(value) and (value > 0 or not log)
    ]
    described = [
        f"{name} from {points[0][1]:.4g} at {x} {points[0][0]:g}"
        f" to {points[-1][1]:.4g} at {x} {points[-1][0]:g}"
        for name, points in curves.items()
    ]
    # Left to itself, Vega draws a tick for every digit where there are few decades, and rounds
    # labels to the digits in which ticks differ: -500 would be -5e+2.
    ticks = {"values": DECADES, "labelOverlap": True} if log else {"tickCount": 4}
    scale = {"type": "log"} if log else {"zero": False}
    y = {"scale": scale, "axis": {**ticks, "format": ".6~g"}}
    # Circles in dashes would look like flowers.
    shown = {"orient": "top", "columns": 4, "title": None, "symbolType": "stroke"}
    legend = shown if len(curves) > 1 else None
    run = {"field": "run", "legend": legend, "scale": {"domain": list(curves)}}
    return {
        "data": {"values": values},
        "height": 290 if legend else 230,
        "title": title,
        "description": f"{title}: {'; '.join(described)}",
        "mark": {"type": "line", "point": len(values) <= 2 * len(curves), "tooltip": True},
        "encoding": {
            "x": {"field": x, "type": "quantitative", "axis": {"tickMinStep": 1, "format": "d"}},
            "y": {"field": "value", "type": "quantitative", "title": None, **y},
            "color": run,
            "strokeDash": run,  # curves differ without their colours, too
        },
    }
