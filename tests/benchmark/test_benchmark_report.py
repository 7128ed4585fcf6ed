"""The report: self-contained, escaped, and complete though its cases are gone."""

from __future__ import annotations

import base64
import html
import io
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import pytest
import swap_runs
from PIL import Image

from genlab.benchmark.marks import SOURCE_TYPE
from genlab.benchmark.report import write_report
from genlab.benchmark.store.repository import Store

LOADED = re.compile(r"<[^>]*\s(?:src|href|srcset|action|data)=\"([^\"]*)\"")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    swap_runs.write_cases(tmp_path / "cases")
    swap_runs.write_run(tmp_path / "runs", tmp_path / "cases")
    return tmp_path


def write(place: Path) -> str:
    with Store(place / "runs" / "genlab.sqlite3") as store:
        return write_report(store, swap_runs.RUN, place / "report.html").read_text("utf-8")


def test_the_report_loads_and_runs_nothing_and_marks_what_is_synthetic(place: Path) -> None:
    page = write(place)
    assert not re.search(r"<(script|link)\b|<[^>]*\son\w+=", page)
    assert html.unescape(page).count(swap_runs.HOSTILE) >= 7  # reasons, notes, an option
    loaded = LOADED.findall(page)
    assert all(re.match(r"data:image/webp;base64,|#", target) for target in loaded)
    texts = []
    for target in loaded:
        if target.startswith("data:"):
            with Image.open(io.BytesIO(base64.b64decode(target.partition(",")[2]))) as image:
                texts.append(image.info.get("xmp", b"").decode())
    # A template, an avatar and three made pictures for each of seven cases.
    marked = [text for text in texts if "synthetic: yes" in text]
    assert (len(texts), len(marked)) == (7 * 5, 7 * 3)
    assert set(texts) - set(marked) == {""}
    assert all(SOURCE_TYPE in text and ElementTree.fromstring(text) for text in marked)


def test_results_outlive_their_cases_and_images(place: Path) -> None:
    shutil.rmtree(place / "cases")
    shutil.rmtree(place / "runs" / swap_runs.RUN / "good_tool")
    page = write(place)
    assert len([target for target in LOADED.findall(page) if target.startswith("data:")]) == 7 * 2
    assert "case.yaml is missing" in page
    assert "case_0.png is missing" in page
