"""A small finished run for tests: cases, images, a store with scores, failures and ratings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from skimage import data

from genlab.core.artifacts import sha256
from genlab.core.store import Store

RUN = "2026-01-02"
HOSTILE = "<script>alert('x')</script> \"quoted\" & more"
TOOLS = {"good_tool": 0.9, "fair_tool": 0.6, "poor_tool": 0.1}
COMPONENTS = ("identity", "background", "realism", "landmarks", "faces")

CASE = """\
version: 1
title: "{title}"
consent: true
template: template.jpg
avatars: {{visitor: avatar_visitor.jpg}}
swaps:
  - region: {{left: 170, top: 60, width: 110, height: 120}}
    avatar: visitor
sources:
  template: {{licence: public domain, title: Astronaut, author: NASA, url: "https://example.org"}}
  visitor: {{licence: public domain, title: Astronaut again}}
"""


def write_cases(root: Path, count: int = 7) -> None:
    """Cases that load, from a photograph of public record."""
    photograph = Image.fromarray(data.astronaut())
    for index in range(count):
        folder = root / f"case_{index}"
        folder.mkdir(parents=True)
        photograph.save(folder / "template.jpg", quality=85)
        photograph.crop((150, 30, 300, 210)).save(folder / "avatar_visitor.jpg", quality=85)
        (folder / "case.yaml").write_text(CASE.format(title=f"Portrait {index}"), encoding="utf-8")


def write_run(folder: Path, cases: Path, *, count: int = 7, rated: bool = True) -> Path:
    """A finished run of three tools, and one that failed throughout; the store's path.

    The tools' scores lie 0.3 or more apart on every case; `hostile_tool` has a reason full of
    markup.
    """
    rng = np.random.default_rng(0)
    path = folder / "genlab.sqlite3"
    photograph = Image.fromarray(data.astronaut())
    with Store(path) as store:
        store.create_run(
            RUN,
            "2026-01-02T10:00:00+00:00",
            {"note": HOSTILE},
            [
                {"case_id": f"case_{i}", "title": HOSTILE, "folder": str(cases / f"case_{i}")}
                for i in range(count)
            ],
            [{"tool_id": tool, "title": f"The {tool}"} for tool in (*TOOLS, "hostile_tool")],
        )
        for item in store.items(RUN):
            if item.tool_id == "hostile_tool":
                changes = {"status": "failed", "failure_kind": "refused", "failure": HOSTILE}
                store.set_item(item.item_id, **changes)
                continue
            image = folder / RUN / item.tool_id / f"{item.case_id}.png"
            image.parent.mkdir(parents=True, exist_ok=True)
            shade = rng.integers(0, 255, 3).tolist()
            made = photograph.copy()
            made.paste(tuple(shade), (190, 80, 250, 150))
            made.save(image)
            score = TOOLS[item.tool_id] + float(rng.uniform(-0.08, 0.08))
            store.set_item(
                item.item_id,
                status="scored",
                image=image.relative_to(folder).as_posix(),
                image_sha256=sha256(image),
                score=score,
                components=dict.fromkeys(COMPONENTS[:-1], score) | {"faces": None},
                details={"notes": [HOSTILE], "versions": {"constants": "1"}},
                cost=0.04,
                seconds=2.0,
            )
            if rated:
                for rater, shift in (("ada", 0), ("mary", 1)):
                    stars = int(np.clip(round(5 * score) + shift, 1, 5))
                    store.rate(
                        "run_item",
                        sha256(image),
                        rater,
                        stars,
                        run_item_id=item.item_id,
                        blind=True,
                    )
    return path
