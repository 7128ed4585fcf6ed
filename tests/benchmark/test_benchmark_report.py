"""The report: self-contained, escaped, and complete though its cases are gone."""

import html
import re
import shutil
from pathlib import Path

import swap_runs
from refusals import refused

from genlab.benchmark.cases import CASE_FILE
from genlab.benchmark.explanations import explain_item
from genlab.benchmark.report import render_report
from genlab.benchmark.store.repository import Store

LOADED = re.compile(r"<[^>]*\s(?:src|href|srcset|action|data)=\"([^\"]*)\"")


def render(place: Path) -> str:
    with Store(place / "runs" / "genlab.sqlite3") as store:
        return render_report(store, swap_runs.RUN)


def test_the_report_loads_and_runs_nothing_and_escapes_what_is_foreign(place: Path) -> None:
    page = render(place)
    assert not re.search(r"<(script|link)\b|<[^>]*\son\w+=", page)
    assert html.unescape(page).count(swap_runs.HOSTILE) >= 7  # reasons, notes, an option
    loaded = LOADED.findall(page)
    assert all(re.match(r"data:image/webp;base64,|#", target) for target in loaded)
    # A template, an avatar and three images of tools for each of seven cases.
    assert sum(target.startswith("data:") for target in loaded) == 7 * 5
    assert "Their files are marked as synthetic" in page
    assert "No case has ground truth" in page


def test_results_outlive_their_cases_and_images(place: Path) -> None:
    shutil.rmtree(place / "cases")
    shutil.rmtree(place / "runs" / swap_runs.RUN / "good_tool")
    page = render(place)
    assert len([target for target in LOADED.findall(page) if target.startswith("data:")]) == 7 * 2
    assert "case.yaml is missing" in page


def test_a_case_that_has_changed_is_neither_shown_nor_explained(place: Path) -> None:
    text = place / "cases" / "case_0" / CASE_FILE
    text.write_text(text.read_text().replace("left: 85", "left: 86"))
    page = render(place)
    assert f"case case_0 has changed since run {swap_runs.RUN}" in page
    images = [target for target in LOADED.findall(page) if target.startswith("data:")]
    assert len(images) == 7 * 5 - 2  # neither its template nor its avatar
    with Store(place / "runs" / "genlab.sqlite3") as store:
        item = next(item for item in store.items() if item.case_id == "case_0")
        with refused("case_0"):
            explain_item(store, item.item_id)
