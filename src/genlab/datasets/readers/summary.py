"""Describe a source in lines of text, from the facts that its `summarise` returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genlab.core.text import join_first

Summary = Mapping[str, Any]
CLASSES = 12  # maximum number of classes that are named


def describe(facts: Summary) -> list[str]:
    """Describe a source in lines. facts: of pictures or of grids."""
    describe_items = _describe_grids if facts["kind"] == "grids" else _describe_pictures
    lines = [*describe_items(facts), *facts["notes"]]
    splits = facts["splits"]
    if splits:
        lines.append(f"official splits: {', '.join(_format_counts(splits))}")
    lines += [f"{trait}: {count:,}" for trait, count in facts.get("traits", {}).items()]
    lines += [
        f"left out, {reason} ({files['count']:,}): {join_first(files['names'])}"
        for reason, files in facts["left_out"].items()
        if files["count"]
    ]
    copies = facts["duplicates"]
    if copies["all"]:
        line = f"exact duplicates: {copies['all']:,}"
        if len(splits) > 1 and "across_splits" in copies:
            line += f", {copies['across_splits']:,} of them across official splits"
        if copies["dropped"]:
            line += "; dropped"
        lines.append(line)
    if facts["kind"] == "images" and facts["groups"] + copies["all"] < facts["count"]:
        lines.append(f"groups, each within one split: {facts['groups']:,}")
    crossing = facts.get("groups_across_splits")
    if crossing:
        lines.append(f"groups across official splits, which stay as they are: {crossing:,}")
    return lines


def _describe_pictures(facts: Summary) -> list[str]:
    side = facts["size"]
    colours = "grey" if facts["channels"] == 1 else "in colour"
    lines = [
        f"{facts['path']}: {facts['count']:,} pictures, {facts['convention']}",
        f"read as {side} × {side}, {colours}; values: {facts['values']}",
    ]
    sizes = [f"{s['width']} × {s['height']} ({s['count']:,})" for s in facts["sizes"]]
    if all(size["width"] == size["height"] == side for size in facts["sizes"]):
        lines.append("sizes: all as they are")
    else:
        lines.append(f"sizes before: {join_first(sizes)}; fitted by: {facts['fit']}")
    classes = facts["classes"]
    if classes:
        lines.append(f"{len(classes)} classes: {join_first(_format_counts(classes), CLASSES)}")
        if facts["unlabelled"]:
            lines.append(f"without a class: {facts['unlabelled']:,}")
    return lines


def _describe_grids(facts: Summary) -> list[str]:
    side = facts["size"]
    sizes = [f"{s['height']} × {s['width']} ({s['count']:,})" for s in facts["sizes"]]
    return [
        f"{facts['path']}: {facts['count']:,} grids of {facts['tasks']:,} tasks,"
        f" {facts['convention']}",
        f"on a canvas of {side} × {side} cells; {facts['padded']:,} are padded by a value"
        " that is no colour",
        f"sizes: {join_first(sizes)}",
        "colours: " + ", ".join(f"{c} ({s:.1%})" for c, s in facts["colours"].items() if s),
    ]


def _format_counts(counts: Mapping[str, int]) -> list[str]:
    return [f"{name} ({count:,})" for name, count in counts.items()]
