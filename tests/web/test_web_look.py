"""One palette on pages and figures, read well in both lights; nothing foreign gets in as HTML."""

from __future__ import annotations

import pytest

from genlab.web.components import charts, look


def test_a_table_escapes_what_it_shows() -> None:
    columns = [look.Column("name", "<b>"), look.Column("value", "Value", number=True)]
    rows = [{"name": "<script>alert(1)</script>", "value": look.tag("a&b", "good")}]
    shown = look.table(columns, rows, '"><img>')
    assert "<script>" not in shown
    assert "<img>" not in shown
    assert '<span class="g-tag g-good">' in shown
    assert "a&amp;b" in shown


def test_lines_leave_out_what_cannot_be_drawn() -> None:
    curves = {"a": [(1.0, 2.0), (2.0, float("nan")), (3.0, 0.0)], "b": [(1.0, float("inf"))]}
    values = charts.lines(curves, "t", log=True)["data"]["values"]
    assert values == [{"run": "a", "epoch": 1.0, "value": 2.0}]
    assert len(charts.lines(curves, "t")["data"]["values"]) == 2
    assert "a from 2 at epoch 1 to 0 at epoch 3" in charts.summary(curves, "t")
    assert charts.bars({"x": 0.5}, "t")["data"]["values"] == [{"name": "x", "share": 0.5}]


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ([], []),
        ([0.002, 30], [0.001, 0.01, 0.1, 1, 10, 100]),
        ([40, 1000], [10, 100, 1000]),
        ([1e-30, 1e30], [1e-30, 1e-18, 1e-6, 1e6, 1e18, 1e30]),
    ],
)
def test_a_log_axis_has_a_few_powers_of_ten(values: list[float], ticks: list[float]) -> None:
    assert charts.decades(values) == pytest.approx(ticks)
