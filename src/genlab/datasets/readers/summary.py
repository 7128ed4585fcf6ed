"""What was understood of a source, in lines: of the facts that `summarise` gives to programs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from genlab.datasets.readers.layout import list_some

Facts = Mapping[str, Any]
CLASSES = 12  # that are named


def describe(facts: Facts) -> list[str]:
    """What was understood, in lines. facts: of pictures or of grids."""
    begin = _describe_grids if facts["kind"] == "grids" else _describe_pictures
    lines = [*begin(facts), *facts["notes"]]
    if splits := facts["splits"]:
        lines.append(f"official splits: {', '.join(_count(splits))}")
    lines += [f"{trait}: {count:,}" for trait, count in facts.get("traits", {}).items()]
    lines += [
        f"left out, {reason} ({files['count']:,}): {list_some(files['names'])}"
        for reason, files in facts["left_out"].items()
        if files["count"]
    ]
    copies = facts["duplicates"]
    if copies["all"]:
        between = len(splits) > 1 and "across_splits" in copies
        across = f", {copies['across_splits']:,} of them across official splits" if between else ""
        dropped = "; dropped" if copies["dropped"] else ""
        lines.append(f"exact duplicates: {copies['all']:,}{across}{dropped}")
    if facts["kind"] == "images" and facts["groups"] + copies["all"] < facts["count"]:
        lines.append(f"groups, each within one split: {facts['groups']:,}")
    if crossing := facts.get("groups_across_splits"):
        lines.append(f"groups across official splits, which stay as they are: {crossing:,}")
    return lines


def _describe_pictures(facts: Facts) -> list[str]:
    side = facts["size"]
    colours = "grey" if facts["channels"] == 1 else "in colour"
    lines = [
        f"{facts['path']}: {facts['count']:,} pictures, {facts['convention']}",
        f"read as {side} × {side}, {colours}; values: {facts['values']}",
    ]
    named = [f"{s['width']} × {s['height']} ({s['count']:,})" for s in facts["sizes"]]
    if all(size["width"] == size["height"] == side for size in facts["sizes"]):
        lines.append("sizes: all as they are")
    else:
        lines.append(f"sizes before: {list_some(named)}; fitted by: {facts['fit']}")
    if classes := facts["classes"]:
        lines.append(f"{len(classes)} classes: {list_some(_count(classes), CLASSES)}")
        if unlabelled := facts["unlabelled"]:
            lines.append(f"without a class: {unlabelled:,}")
    return lines


def _describe_grids(facts: Facts) -> list[str]:
    side = facts["size"]
    sizes = [f"{s['height']} × {s['width']} ({s['count']:,})" for s in facts["sizes"]]
    return [
        f"{facts['path']}: {facts['count']:,} grids of {facts['tasks']:,} tasks,"
        f" {facts['convention']}",
        f"on a canvas of {side} × {side} cells; {facts['padded']:,} are padded by a value"
        " that is no colour",
        f"sizes: {list_some(sizes)}",
        "colours: " + ", ".join(f"{c} ({s:.1%})" for c, s in facts["colours"].items() if s),
    ]


def _count(counts: Mapping[str, int]) -> list[str]:
    return [f"{name} ({count:,})" for name, count in counts.items()]
