"""What a new run takes over from earlier ones, so that nothing that was paid for is asked again.

An image depends on its tool's version and on its case: `making_of`. Where these are as they were, a
new run takes the image (or the reason why there is none) as its own and at no cost; which run made
it, for how many dollars, stands in the item's details as `carried`. The PNG stays as it was, marks
and all: people's stars, which belong to an image by its content, come along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from genlab.benchmark.arrivals import Place, recovered, write_record
from genlab.benchmark.cases import Case, upright_size
from genlab.benchmark.judging import COLUMN
from genlab.benchmark.marks import marks_of
from genlab.benchmark.plugins import ImageTool, ToolFailure, version_of
from genlab.benchmark.store.repository import Item, Store
from genlab.core.io import write_bytes
from genlab.core.params import digest

OF_IMAGE = (COLUMN, "tool", "carried")  # of an item's details; all others are the score's
OUTCOME = ("status", "score", "components", "details", "failure_kind", "failure", "seconds")


def making_of(cases: Sequence[Case], tools: Sequence[ImageTool]) -> dict[str, str]:
    """By `tool_id/case_id`, a digest of all that the image depends on."""
    versions = {tool.tool_id: version_of(tool) for tool in tools}
    contents = {case.case_id: case.digest for case in cases}
    return {
        f"{tool_id}/{case_id}": digest({"tool": version, "case": content})
        for tool_id, version in versions.items()
        for case_id, content in contents.items()
    }


def unscored(item: Item) -> dict[str, Any]:
    """The changes after which an item's image is scored again, and not asked for."""
    return {
        "status": "generated",
        "score": None,
        "components": {},
        "details": {name: item.details[name] for name in OF_IMAGE if name in item.details},
        "failure_kind": "",
        "failure": "",
    }


def paid(item: Item) -> float:
    """Dollars that an item's image took, in whichever run it was made."""
    return float(item.cost + item.details.get("carried", {}).get("cost", 0.0))


def take_over(
    store: Store, folder: Path, run_id: str, cases: Iterable[Case], earlier: Iterable[Item]
) -> None:
    """Give the items of a new run what `earlier`, items of the same tools and cases, came to.

    folder: the runs' folder. Of several for one item the first that came to anything counts; an
    image has to be whole. What had not arrived stays queued.
    """
    by_id = {case.case_id: case for case in cases}
    waiting = {(item.tool_id, item.case_id): item for item in store.items(run_id)}
    notes: list[tuple[int, Mapping[str, Any]]] = []
    for old in earlier:
        new = waiting.get((old.tool_id, old.case_id))
        if new is not None and _taken_over(new, old, store, folder, by_id[old.case_id]):
            del waiting[new.tool_id, new.case_id]
            notes.append((new.item_id, new.model_dump(include={*OUTCOME, "image", "image_sha256"})))
            write_record(folder / run_id / new.tool_id / f"{new.case_id}.json", new)
    store.set_items(notes)


def _taken_over(new: Item, old: Item, store: Store, folder: Path, case: Case) -> bool:
    """Whether `new` could take over from `old`: then its image is copied and its fields are set."""
    name = f"{old.tool_id}/{old.case_id}.png"
    marks = marks_of(old, store.run(old.run_id).created)
    place = Place(folder / old.run_id / name, upright_size(case.template), marks)
    changes = {column: getattr(old, column) for column in OUTCOME}
    found = None
    try:
        found = recovered(place, old.image_sha256)
    except ToolFailure as failure:  # an answer that had just arrived, and is no image
        changes |= {"status": "failed", "failure_kind": failure.kind, "failure": failure.reason}
    if found is None and (old.image or changes["status"] != "failed"):
        return False
    if found is not None:
        write_bytes(folder / new.run_id / name, place.path.read_bytes())
        changes |= {"image": f"{new.run_id}/{name}", "image_sha256": found.sha256}
        if old.status not in ("scored", "failed"):
            changes |= unscored(old)
    carried = old.details.get("carried", {"run_id": old.run_id, "cost": old.cost})
    changes["details"] = {**changes["details"], "carried": carried}
    for column, value in changes.items():
        setattr(new, column, value)
    return True
