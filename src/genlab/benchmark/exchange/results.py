"""Export results as CSV: a row per item, with the columns of docs/reference/files.md."""

from pathlib import Path
from typing import Any

import pandas as pd

from genlab.benchmark.store.repository import Store
from genlab.core.io import write_text

COPIED = (
    *("item_id", "run_id", "case_id", "contender", "tool_id", "repeat", "status"),
    *("failure_kind", "failure", "score", "score_reference", "score_version"),
    *("cost", "seconds", "attempts", "image", "image_sha256", "note", "updated"),
)
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
"""First characters of cells that a spreadsheet may run as a formula."""

_STARS = """
    SELECT subject_hash, avg(stars) AS blind_stars, count(*) AS blind_raters
    FROM human_scores WHERE subject_kind = 'run_item' AND context = 'blind' GROUP BY subject_hash
"""


def export_results(store: Store, path: Path, run_id: str | None = None) -> int:
    """Write the items of a run (None: of all runs) as CSV; returns their number."""
    items = store.items(run_id)
    runs = {run.run_id: run.contenders for run in store.runs()}
    stars = store.table(_STARS).set_index("subject_hash").to_dict("index")
    rows: list[dict[str, Any]] = []
    components = sorted({name for item in items for name in item.components})
    for item in items:
        contender = runs[item.run_id].get(item.contender)
        row = {name: getattr(item, name) for name in COPIED}
        row["label"] = contender.label if contender else item.tool_id
        row |= {f"component_{name}": item.components.get(name) for name in components}
        rows.append(row | stars.get(item.image_sha256, {}))
    names = [f"component_{name}" for name in components]
    columns = [*COPIED, "label", *names, "blind_stars", "blind_raters"]
    table = pd.DataFrame(rows, columns=columns, dtype=object).map(_defuse)
    write_text(path, table.to_csv(index=False, lineterminator="\n"))
    return len(items)


def _defuse(cell: Any) -> Any:
    """Put an apostrophe in front of text that a spreadsheet would run as a formula."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA) else cell
