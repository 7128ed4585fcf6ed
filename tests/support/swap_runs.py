"""A small finished run for tests: cases, images, a store with scores, failures and ratings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from skimage import data

from genlab.benchmark.scorer import Score
from genlab.benchmark.store.repository import Store
from genlab.core.io import sha256

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
  - region: {{left: 85, top: 30, width: 55, height: 60}}
    avatar: visitor
sources:
  template: {{licence: public domain, title: Astronaut, author: NASA, url: "https://example.org"}}
  visitor: {{licence: public domain, title: Astronaut again}}
"""


def write_cases(root: Path, count: int = 7) -> None:
    """Cases that load, from a photograph of public record."""
    photograph = Image.fromarray(data.astronaut()).reduce(2)
    for index in range(count):
        folder = root / f"case_{index}"
        folder.mkdir(parents=True)
        photograph.save(folder / "template.jpg", quality=85)
        photograph.crop((75, 15, 150, 105)).save(folder / "avatar_visitor.jpg", quality=85)
        (folder / "case.yaml").write_text(CASE.format(title=f"Portrait {index}"), encoding="utf-8")


def write_run(folder: Path, cases: Path, *, count: int = 7, rated: bool = True) -> Path:
    """A finished run of three tools, and one that failed throughout; the store's path.

    The tools' scores lie 0.3 or more apart on every case; `hostile_tool` has a reason full of
    markup.
    """
    rng = np.random.default_rng(0)
    path = folder / "genlab.sqlite3"
    photograph = Image.fromarray(data.astronaut()).reduce(2)
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
        changes: list[tuple[int, dict[str, Any]]] = []
        for item in store.items(RUN):
            if item.tool_id == "hostile_tool":
                refused = {"status": "failed", "failure_kind": "refused", "failure": HOSTILE}
                changes.append((item.item_id, refused))
                continue
            image = folder / RUN / item.tool_id / f"{item.case_id}.png"
            image.parent.mkdir(parents=True, exist_ok=True)
            made = photograph.copy()
            made.paste(tuple(rng.integers(0, 255, 3).tolist()), (95, 40, 125, 75))
            made.save(image, compress_level=1)
            score = TOOLS[item.tool_id] + float(rng.uniform(-0.08, 0.08))
            changes.append((item.item_id, _scored(folder, image, score)))
        store.set_items(changes)
        for item_id, values in changes if rated else []:
            for rater, shift in (("ada", 0), ("mary", 1)):
                if values["status"] == "scored":
                    stars = int(np.clip(round(5 * values["score"]) + shift, 1, 5))
                    shown = {"run_item_id": item_id, "blind": True}
                    store.rate("run_item", values["image_sha256"], rater, stars, **shown)
    return path


def _scored(folder: Path, image: Path, score: float) -> dict[str, Any]:
    return {
        "status": "scored",
        "image": image.relative_to(folder).as_posix(),
        "image_sha256": sha256(image),
        "score": score,
        "components": dict.fromkeys(COMPONENTS[:-1], score) | {"faces": None},
        "details": {"notes": [HOSTILE], "versions": {"constants": "1"}},
        "cost": 0.04,
        "seconds": 2.0,
    }


def bright(template: Path, avatars: Any, swaps: Any, image: Path) -> Score:
    """A scorer for the runner's processes: the mean brightness of the picture."""
    with Image.open(image) as picture:
        return Score("scored", float(np.asarray(picture).mean()) / 255)


def dark(template: Path, avatars: Any, swaps: Any, image: Path) -> Score:
    """Another scorer: the opposite."""
    return Score("scored", 1 - (bright(template, avatars, swaps, image).total or 0.0))
