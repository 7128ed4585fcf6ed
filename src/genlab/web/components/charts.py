"""Charts as Vega-Lite specifications, coloured by the page's theme."""

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
    # The contrast of Streamlit's default text is too low.
    theme = 1 if st.context.theme.type == "dark" else 0
    ink = look.INKS["ink"][theme]
    muted = look.INKS["muted"][theme]
    text = {"labelColor": muted, "titleColor": muted}
    heading = {"color": ink, "anchor": "start", "fontSize": 13}
    spec["padding"] = {"right": 14}  # room for half of an axis's last label
    spec["config"] = {"axis": text, "legend": text, "title": heading}
    st.vega_lite_chart(spec, alt=spec.pop("description"))


def lines(
    curves: Mapping[str, Points], title: str, *, x: str = "epoch", log: bool = False
) -> dict[str, Any]:
    """Make the specification of a chart, whose description says where each curve begins and ends.

    Values that cannot be drawn are left out: infinite ones and, on a log scale, those <= 0. Values
    within one decade get a linear scale, since a log scale would show no tick.
    """
    curves = {name: points for name, points in curves.items() if points}
    positive = [value for points in curves.values() for _, value in points if 0 < value < math.inf]
    log = log and bool(positive) and max(positive) >= 10 * min(positive)
    values = [
        {"run": name, x: position, "value": value}
        for name, points in curves.items()
        for position, value in points
        if math.isfinite(value) and (value > 0 or not log)
    ]
    descriptions = [
        f"{name} from {points[0][1]:.4g} at {x} {points[0][0]:g}"
        f" to {points[-1][1]:.4g} at {x} {points[-1][0]:g}"
        for name, points in curves.items()
    ]
    # By default, Vega draws a tick for every digit if there are few decades, and rounds labels to
    # the digits in which ticks differ: -500 would be -5e+2.
    ticks = {"values": DECADES, "labelOverlap": True} if log else {"tickCount": 4}
    scale = {"type": "log"} if log else {"zero": False}
    y = {"scale": scale, "axis": {**ticks, "format": ".6~g"}}
    legend = None
    if len(curves) > 1:  # strokes: dashed circles would look like flowers
        legend = {"orient": "top", "columns": 4, "title": None, "symbolType": "stroke"}
    run = {"field": "run", "legend": legend, "scale": {"domain": list(curves)}}
    return {
        "data": {"values": values},
        "height": 290 if legend else 230,
        "title": title,
        "description": f"{title}: {'; '.join(descriptions)}",
        "mark": {"type": "line", "point": len(values) <= 2 * len(curves), "tooltip": True},
        "encoding": {
            "x": {"field": x, "type": "quantitative", "axis": {"tickMinStep": 1, "format": "d"}},
            "y": {"field": "value", "type": "quantitative", "title": None, **y},
            "color": run,
            "strokeDash": run,  # curves are distinct without colours, too
        },
    }
