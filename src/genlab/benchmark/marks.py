"""Text in the PNG of a generated image: that it is synthetic, and its run, tool, case and date.

Not protected: whoever wants can remove it.
"""

from __future__ import annotations

from genlab.benchmark.store.schema import Item

SYNTHETIC = {"synthetic": "yes"}


def marks_of(item: Item, created: str) -> dict[str, str]:
    """The text of an item's PNG; created: when its run started, ISO 8601."""
    marks = {"run": item.run_id, "tool": item.tool_id, "case": item.case_id}
    number = {"draw": str(item.repeat)} if item.repeat > 1 else {}
    return {**marks, **number, "date": created[:10]}
