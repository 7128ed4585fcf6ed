"""Contents of a page for tests: of an HTML file, or of the app."""

import json
import shutil
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import tiny

from genlab.core.io import write_json, write_npz

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = 30

ADDRESSES = ("src", "href", "srcset", "action", "data")
TEXT_ELEMENTS = ("html", "markdown", "info", "error", "warning", "success", "caption", "code")


class Page(HTMLParser):
    """The tags, addresses and text of a page, and the attributes of every picture."""

    def __init__(self, content: str = "") -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.images: list[dict[str, str | None]] = []
        self.addresses: list[str] = []
        self.text = ""
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.addresses += [str(value) for name, value in attrs if name in ADDRESSES]
        if tag == "img":
            self.images.append(dict(attrs))

    def handle_data(self, data: str) -> None:
        self.text += data


def words(app: Any) -> str:
    """The text of a page (an AppTest), without the backslashes that escape Markdown."""
    elements = [element for kind in TEXT_ELEMENTS for element in app.get(kind)]
    texts = [getattr(element, "value", "") or element.proto.body for element in elements]
    return " ".join(map(str, texts)).replace("\\", "")


def add_results(folder: Path, **training: Any) -> None:
    """Give a project the committed results, and tiny params, data and evidence of both kinds."""
    tiny.write_params(folder, **training)
    (folder / "benchmarks").mkdir()
    for name in ("dvc.yaml", "dvc.lock", "experiments.yaml", "benchmarks/targets.yaml"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("metrics", "results", "plots"):
        shutil.copytree(ROOT / name, folder / name)
    tiny.write_dataset(folder / "data" / "arc_grids")
    tiny.write_image_dataset(folder / "data" / "fashion_mnist")
    for name, items in (("arc_grids", tiny.grids(40)), ("fashion_mnist", tiny.images(48))):
        arrays = dict.fromkeys(("predicted", "arc", "arc_predicted"), items)
        arrays |= dict.fromkeys(("samples", "sample_nearest"), items[:SAMPLES])
        arrays |= {"nats": np.zeros(len(items)), "sample_errors": np.zeros(SAMPLES)}
        write_npz(folder / "data/evaluated" / name / "evidence.npz", arrays, kind="evaluation")
        file = folder / "results" / name / "failures.json"
        failures = json.loads(file.read_text(encoding="utf-8"))
        for kind in ("items", "sample_items"):
            for index, item in enumerate(failures[kind]):
                item["index"] = index % SAMPLES  # the tiny test split is shorter than theirs
        write_json(file, failures)
