"""Take over images of earlier runs, so that nothing paid for is requested twice.

An image depends on its contender (tool, model, options, version) and on its case. Where both are
the same, a new run copies the image, or the reason why there is none, at no cost; its details name
the run that made it and what it cost as `reused`. Ratings belong to an image's content and follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from genlab.benchmark.arrivals import Place, recovered, write_record
from genlab.benchmark.cases import Case
from genlab.benchmark.cases.photographs import upright_size
from genlab.benchmark.judging import DETAIL
from genlab.benchmark.marks import marks_of
from genlab.benchmark.plugins.base import ToolFailure
from genlab.benchmark.store.repository import Store
from genlab.benchmark.store.schema import Item, Run, image_name
from genlab.core.io import write_bytes

OF_IMAGE = (DETAIL, "tool", "reused")  # details that a new score keeps
OUTCOME = (
    *("status", "score", "score_reference", "components", "details"),
    *("failure_kind", "failure", "seconds", "image", "image_sha256"),
)


def unscored(item: Item) -> dict[str, Any]:
    """The changes after which an item's image is scored again, and not requested."""
    details = {name: item.details[name] for name in OF_IMAGE if name in item.details}
    return {
        **{"status": "generated", "score": None, "score_reference": None, "components": {}},
        **{"details": details, "failure_kind": "", "failure": ""},
    }


def total_cost(item: Item) -> float:
    """Dollars that an item's image cost, in whichever run it was made."""
    return float(item.cost + item.details.get("reused", {}).get("cost", 0.0))


def reuse_images(store: Store, folder: Path, run: Run, cases: Sequence[Case]) -> None:
    """Give the items of a new run what items of earlier runs came to; the newest run counts.

    folder: of all runs. What had not arrived stays queued.
    """
    waiting = {(i.contender, i.case_id, i.repeat): i for i in store.items(run.run_id)}
    for earlier in store.runs():
        digests = {case["case_id"]: case.get("digest") for case in earlier.cases}
        same = {case.case_id: case for case in cases if digests.get(case.case_id) == case.digest}
        if earlier.run_id == run.run_id or not same:
            continue
        changes = []
        for old in store.items(earlier.run_id):
            key = old.contender, old.case_id, old.repeat
            new = waiting.get(key)
            if new and old.case_id in same and _reuse(folder, run, new, earlier, old, same):
                del waiting[key]
                changes.append((new.item_id, {name: getattr(new, name) for name in OUTCOME}))
                record = folder / run.run_id / image_name(run.contenders, new)
                write_record(record.with_suffix(".json"), new)
        store.set_items(changes)


def _reuse(
    folder: Path, run: Run, new: Item, earlier: Run, old: Item, cases: dict[str, Case]
) -> bool:
    """Whether `old` came to anything: then its image is copied and the fields of `new` are set."""
    path = folder / earlier.run_id / image_name(earlier.contenders, old)
    size = upright_size(cases[old.case_id].template)
    try:
        found = recovered(Place(path, size, marks_of(old, earlier.created)), old.image_sha256)
    except ToolFailure:  # an answer that had just arrived and is no image
        return False
    if found is None and (old.image or old.status != "failed"):
        return False
    reused = old.details.get("reused", {"run_id": old.run_id, "cost": old.cost})
    changes = {name: getattr(old, name) for name in OUTCOME}
    if found is not None:
        name = image_name(run.contenders, new)
        write_bytes(folder / run.run_id / name, path.read_bytes())
        changes |= {"image": f"{run.run_id}/{name}", "image_sha256": found.sha256}
        if old.status not in ("scored", "failed"):
            changes |= unscored(old)
    for column, value in changes.items():
        setattr(new, column, value)
    new.details = {**new.details, "reused": reused}
    return True
