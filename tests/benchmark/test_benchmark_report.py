"""The report: self-contained, escaped, and whole though its cases are gone."""

from __future__ import annotations

import base64
import io
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
import swap_runs
from PIL import Image

from genlab.benchmark.marks import SOURCE_TYPE
from genlab.benchmark.report import write_report
from genlab.benchmark.store.repository import Store


class _Page(HTMLParser):
    """What a page would load or run, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.loaded: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "data"):
                self.loaded.append(str(value))
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("swap")
    swap_runs.write_cases(folder / "cases")
    swap_runs.write_run(folder / "runs", folder / "cases")
    return folder


@pytest.fixture(scope="module")
def page(place: Path) -> _Page:
    with Store(place / "runs" / "genlab.sqlite3") as store:
        return _Page(write_report(store, swap_runs.RUN, place / "report.html"))


def test_it_loads_nothing_and_runs_nothing(page: _Page) -> None:
    assert "script" not in page.tags
    assert "link" not in page.tags
    assert page.handlers == []
    assert all(re.match(r"data:image/webp;base64,|#", target) for target in page.loaded)
    images = [target for target in page.loaded if target.startswith("data:")]
    # A template, an avatar and three pictures for each of seven cases.
    assert len(images) == 7 * 5


def test_every_made_picture_says_that_it_is_synthetic_and_no_photograph_does(page: _Page) -> None:
    said = []
    for target in page.loaded:
        if target.startswith("data:"):
            with Image.open(io.BytesIO(base64.b64decode(target.partition(",")[2]))) as image:
                said.append(image.info.get("xmp", b"").decode())
    marked = [text for text in said if "synthetic: yes" in text]
    assert len(marked) == 7 * 3  # not the template and the avatar
    assert set(said) - set(marked) == {""}
    assert all(SOURCE_TYPE in text and ElementTree.fromstring(text) for text in marked)


def test_markup_from_outside_is_shown_as_text(page: _Page) -> None:
    assert page.text.count(swap_runs.HOSTILE) >= 7  # reasons, notes, an option


def test_results_outlive_their_cases_and_images(place: Path, tmp_path: Path) -> None:
    moved = tmp_path / "runs"
    shutil.copytree(place / "runs", moved)
    shutil.rmtree(moved / swap_runs.RUN / "good_tool")
    with Store(moved / "genlab.sqlite3") as store:
        hidden = place / "hidden"
        (place / "cases").rename(hidden)
        try:
            page = _Page(write_report(store, swap_runs.RUN, tmp_path / "report.html"))
        finally:
            hidden.rename(place / "cases")
    assert len([target for target in page.loaded if target.startswith("data:")]) == 7 * 2
    assert "case.yaml is missing" in page.text
    assert "case_0.png is missing" in page.text
