"""A small finished run for tests: cases, images, a store with scores, failures and ratings."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from skimage import data
from small_benchmark import change_items, make_noise

from genlab.benchmark.cases import Case, Region, Source, Swap, load_cases
from genlab.benchmark.cases.files import write_case
from genlab.benchmark.store.items import ScoreDetails
from genlab.benchmark.store.repository import STORE, Store
from genlab.benchmark.store.schema import Contender
from genlab.core.io import sha256

RUN = "2026-01-02"
HOSTILE = "<script>alert('x')</script> \"quoted\" & more"
TOOLS = {"good_tool": 0.9, "fair_tool": 0.6, "poor_tool": 0.1, "hostile_tool": None}
COMPONENTS = ("identity", "background", "realism", "landmarks")


def write_project(folder: Path) -> Path:
    """Cases of a photograph of public record, and a finished run that two people rated.

    The tools' scores lie 0.3 or more apart on every case; `hostile_tool` failed throughout, for a
    reason full of markup. Returns `folder`.
    """
    photograph = Image.fromarray(data.astronaut()).reduce(2)
    source = Source(licence="public domain", author="NASA", url="https://example.org")
    region = Region(left=85, top=30, width=55, height=60)
    for index in range(7):
        write_case(
            folder / "cases" / f"case_{index}",
            title=f"Portrait {index}",
            consent=True,
            template=photograph,
            avatars={"visitor": photograph.crop((75, 15, 150, 105))},
            swaps=[Swap(region=region, avatar="visitor")],
            sources=dict.fromkeys(("template", "visitor"), source),
        )
    with Store(folder / "runs" / STORE) as store:
        add_run(store, RUN, load_cases(folder / "cases"), TOOLS, HOSTILE)
        for item in store.items(RUN):
            for rater in ("ada", "mary") if item.score is not None else ():
                stars = 1 + round(4 * item.score)
                store.rate("run_item", item.image_sha256, rater, stars, "blind")
    return folder


def add_run(
    store: Store, run_id: str, cases: list[Case], tools: Mapping[str, float | None], words: str
) -> None:
    """Add a finished run; each tool has its mean score, or refuses every case where that is None.

    run_id: a date; words: the reason of every refusal, and a note and an option.
    """
    facts = [case.run_record | {"folder": f"cases/{case.case_id}"} for case in cases]
    options = {"note": words}
    listed = [Contender(tool_id=tool, title=f"The {tool}", options=options) for tool in tools]
    store.create_run(run_id, f"{run_id}T10:00:00+00:00", facts, listed)
    rng = np.random.default_rng(0)
    changes: list[tuple[int, dict[str, Any]]] = []
    for item in store.items(run_id):
        mean = tools[item.tool_id]
        if mean is None:
            refused = {"status": "failed", "failure_kind": "refused", "failure": words}
            changes.append((item.item_id, {**refused, "attempts": 1}))
            continue
        image = store.path.parent / run_id / item.tool_id / f"{item.case_id}.png"
        image.parent.mkdir(parents=True, exist_ok=True)
        make_noise(rng, 256).save(image, compress_level=1)
        score = mean + float(rng.uniform(-0.08, 0.08))
        values = {
            "status": "scored",
            "image": image.relative_to(store.path.parent).as_posix(),
            "image_sha256": sha256(image),
            "score": score,
            "components": {**dict.fromkeys(COMPONENTS, score), "faces": None},
            "scoring": ScoreDetails(notes=[words], versions={"constants": "1"}),
            "score_version": "1",
            "attempts": 1,
            "cost": 0.04,
            "seconds": 2.0,
        }
        changes.append((item.item_id, values))
    change_items(store, changes)
    store.set_run(run_id, ending="finished")
