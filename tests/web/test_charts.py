"""Charts leave out values that cannot be drawn; no foreign text gets into a page as HTML."""

import numpy as np
import pytest

from genlab.web.components import charts, look


def test_a_picture_escapes_its_texts_and_outlines_cells() -> None:
    grid = np.zeros((4, 4), np.uint8)
    html = look.picture(grid, '"><img>', "<script>")
    assert "<script>" not in html
    assert "<img>" not in html
    assert look.picture(grid, "", outlined=np.eye(4, dtype=bool)) != look.picture(grid, "")


@pytest.mark.parametrize("colour", ["ink", "muted", "good", "warn", "bad"])
@pytest.mark.parametrize(("dark", "ground"), [(0, "#ffffff"), (1, "#14181c")])
def test_text_has_enough_contrast(colour: str, dark: int, ground: str) -> None:
    def luminance(ink: str) -> float:
        levels = (int(ink[at : at + 2], 16) / 255 for at in (1, 3, 5))
        linear = [v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in levels]
        return sum(w * v for w, v in zip((0.2126, 0.7152, 0.0722), linear, strict=True))

    low, high = sorted(luminance(ink) for ink in (look.INKS[colour][dark], ground))
    assert (high + 0.05) / (low + 0.05) >= 4.5


def test_lines_leave_out_what_cannot_be_drawn_and_differ_in_more_than_colour() -> None:
    curves = {
        "a": [(1.0, 2.0), (2.0, float("nan")), (3.0, 0.0), (4.0, 20.0)],
        "b": [(1.0, float("inf"))],
    }
    values = charts.lines(curves, "t", log=True)["data"]["values"]
    assert [row["value"] for row in values] == [2.0, 20.0]
    chart = charts.lines(curves, "t")
    assert [row["value"] for row in chart["data"]["values"]] == [2.0, 0.0, 20.0]
    assert "a from 2 at epoch 1 to 20 at epoch 4" in chart["description"]
    encoding = chart["encoding"]
    assert encoding["color"] == encoding["strokeDash"]
    assert encoding["strokeDash"]["scale"]["domain"] == ["a", "b"]
    assert encoding["y"]["axis"]["format"] == ".6~g"  # without digits Vega shows -5e+2


@pytest.mark.parametrize(("last", "scale"), [(99.0, "linear"), (100.0, "log"), (-1.0, "linear")])
def test_values_within_a_decade_have_a_linear_scale(last: float, scale: str) -> None:
    chart = charts.lines({"a": [(1.0, 10.0), (2.0, last)]}, "t", log=True)
    assert chart["encoding"]["y"]["scale"].get("type", "linear") == scale
    assert len(chart["data"]["values"]) == 2
