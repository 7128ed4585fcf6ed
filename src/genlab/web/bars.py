"""Metrics against their bars: values, intervals, bar and stretch, in words and as a small scale."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from genlab.evaluation.reports.formats import number, value, words
from genlab.evaluation.reports.targets import benchmark_prefix, read_targets
from genlab.web import shapes
from genlab.web.components import look
from genlab.web.components.files import json_at
from genlab.web.components.look import Column, Markup, table
from genlab.web.results import Interval, Results, interval_of, range_words

SIGNS = {">=": "≥", "<=": "≤"}


def targets(root: Path, dataset: str) -> str:
    """The bars that the project set itself, as a table."""
    found = json_at(
        root / "results" / "benchmarks.json", shapes.Benchmarks, producer_command="make bench"
    )
    rows = []
    for key, aim in read_targets(root, benchmark_prefix(dataset)).items():
        entry = found.get(key, {})
        measured, interval = entry.get("value"), _pair(entry.get("interval"))
        rows.append(
            {
                "what": aim.description,
                "value": value(measured) if measured is not None else "not measured",
                "interval": range_words(interval),
                "bar": "–" if aim.target is None else _asked(aim.sign, value(aim.target)),
                "stretch": value(aim.stretch_target),
                "scale": scale(measured, interval, aim.target, aim.stretch_target),
                "reached": reached(aim.outcome(measured)),
            }
        )
    columns = [
        Column("what", "What"),
        Column("reached", "Reached"),
        Column("value", "Value", number=True),
        Column("interval", "95 % interval", number=True),
        Column("scale", "Value, | bar, ¦ stretch"),
        Column("bar", "Bar", number=True),
        Column("stretch", "Stretch", number=True),
    ]
    return table(columns, rows, f"Bars of {dataset}, from results/benchmarks.json")


def criteria(found: Results) -> str:
    """The verdict's criteria as a table."""
    rows = [
        {
            "name": words(row["name"]),
            "value": number(row["value"]),
            "interval": range_words(interval_of(found.metrics, row["name"])),
            "asked": _asked(row["sign"], number(row["threshold"])),
            "scale": scale(
                row["value"], interval_of(found.metrics, row["name"]), row["threshold"], None
            ),
            "passed": look.tag("met", "good") if row["passed"] else look.tag("missed", "bad"),
            "why": row["why"],
        }
        for row in found.verdict["criteria"]
    ]
    columns = [
        Column("name", "Criterion"),
        Column("passed", "Verdict"),
        Column("value", "Value", number=True),
        Column("interval", "95 % interval", number=True),
        Column("asked", "Asked", number=True),
        Column("scale", "Value, | asked"),
        Column("why", "What it means"),
    ]
    return table(columns, rows, f"Verdict of {found.dataset}, from results/{found.dataset}")


SAMPLER_COLUMNS: Mapping[str, Sequence[tuple[str, str]]] = {
    "grids": (
        ("valid_rate", "Wholly legal"),
        ("legal_components", "Legal components"),
        ("unique_and_novel_share", "Unique and novel"),
        ("count_tv", "Off in objects (TV)"),
        ("colour_tv", "Off in colours (TV)"),
        ("black_share", "Black"),
    ),
    "images": (
        ("frechet_distance", "Fréchet distance"),
        ("relative_frechet", "Over its floor"),
        ("precision", "Precision"),
        ("recall", "Recall"),
    ),
}


def samplers(found: Results, kind: str) -> str:
    """The samplers side by side, each number with its interval below."""
    shown = SAMPLER_COLUMNS[kind]
    rows = []
    for name, entry in found.metrics["samplers"].items():
        picked = " (picked)" if name == found.sampler else ""
        row: dict[str, object] = {"name": words(name) + picked}
        row |= {key: _with_interval(entry, key) for key, _ in shown}
        rows.append(row)
    columns = [Column("name", "Sampler"), *(Column(key, title, True) for key, title in shown)]
    return table(columns, rows, f"Samplers of {found.dataset}, 95 % intervals below each number")


def reached(outcome: str) -> Markup:
    """The outcome of a target as a tag."""
    tone = {"reported": "quiet", "missed": "bad"}.get(outcome, "good")
    return look.tag(outcome, tone, hollow=outcome in ("reported", "met"))


def scale(
    found: float | None, interval: Interval | None, bar: float | None, stretch: float | None
) -> Markup:
    """A small scale: a dot at the value, a line over its interval, marks at bar and stretch."""
    points = [float(v) for v in (found, *(interval or ()), bar, stretch) if v is not None]
    if found is None or bar is None or max(points) == min(points):
        return Markup("")
    low, high = min(points), max(points)

    def at(value: float) -> float:
        return 100 * (value - low) / (high - low)

    parts = ['<i class="axis"></i>', f'<i class="bar" style="left:{at(bar):.1f}%"></i>']
    if stretch is not None:
        parts.append(f'<i class="stretch" style="left:{at(stretch):.1f}%"></i>')
    if interval is not None:
        middle, width = at(sum(interval) / 2), at(interval[1]) - at(interval[0])
        parts.append(f'<i class="span" style="left:{middle:.1f}%;width:{width:.1f}%"></i>')
    parts.append(f'<i class="dot" style="left:{at(found):.1f}%"></i>')
    said = escape(f"value {number(found)}, asked {number(bar)}")
    return Markup(f'<span class="g-scale" role="img" aria-label="{said}">{"".join(parts)}</span>')


def figures(root: Path, dataset: str, names: Sequence[str]) -> list[tuple[Path, str]]:
    """The figures of evaluate whose names match, with their captions."""
    folder = root / "plots" / dataset / "evaluation"
    found = [path for name in names for path in sorted(folder.glob(f"{name}.png"))]
    return [(path, words(path.stem).capitalize()) for path in found]


def _with_interval(entry: Mapping[str, Any], key: str) -> Markup:
    if key not in entry:
        return Markup("–")
    below = escape(range_words(interval_of(entry, key)))
    return Markup(f"{escape(number(entry[key]))}<br><small class='g-quiet'>{below}</small>")


def _asked(sign: str, bar: str) -> str:
    return f"{SIGNS.get(sign, sign)} {bar}"


def _pair(found: Sequence[float] | None) -> Interval | None:
    return None if found is None else (found[0], found[1])
