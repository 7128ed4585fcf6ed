"""Shared by all tests: a project with content on every page, a server over it, a Chromium."""

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import app_room
import pytest
from agent_runs import GOAL, attempt, write_attempts
from pages import add_results

from genlab.agent.workspace import create_project
from genlab.benchmark.store.repository import Store
from genlab.core.io import write_json

RUN = "2026-01-01"
HOSTILE = (
    "<script>document.title='owned'</script><img src=x onerror=alert(1)>"
    " ![x](http://x) ../../ \u202eelttil "
)
LONG = "x" * 10_000
# Epochs of a moment each, and more of them than any test waits for.
TRAINING = {"epochs": 400, "samples_per_epoch": 128, "patience": 400}
WAIT = 180_000  # milliseconds; a loaded machine is slow


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app_room.Server]:
    """A server over results, small data, an agent's workspace and a run, all with hostile names."""
    folder = app_room.make_project(tmp_path_factory.mktemp("served"), cases=2, hostile=True)
    with Store(folder / "runs" / "genlab.sqlite3") as store:
        app_room.make_run(store, folder, run_id=RUN, cases=4)
    add_results(folder, **TRAINING)
    _change(folder / "results/arc_grids/failures.json", _make_failures_hostile)
    _change(folder / "results/arc_grids/diagnosis.json", _make_diagnosis_hostile)
    workspace = create_project(
        folder / "workspaces" / "project", replace(GOAL, text=HOSTILE + LONG)
    )
    evil = {"model_name": HOSTILE, "change": HOSTILE, "decision": HOSTILE, "notes": [HOSTILE, LONG]}
    write_attempts(workspace, attempt(1, 0.5), attempt(2, 0.95, 0.95, 0.95, **evil), code=HOSTILE)
    with app_room.serving(folder) as served:
        yield served


def _change(file: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads(file.read_text(encoding="utf-8"))
    change(content)
    write_json(file, content)


def _make_failures_hostile(failures: dict[str, Any]) -> None:
    for item, words in zip(failures["items"], (HOSTILE, LONG), strict=False):
        item |= {"class": words, "faults": [words]}
    failures["tests"][0]["sentence"] = HOSTILE


def _make_diagnosis_hostile(diagnosis: dict[str, Any]) -> None:
    diagnosis["diagnoses"][0] |= {"name": HOSTILE, "found": True}


@pytest.fixture(scope="module")  # its event loop would disturb other tests that run one
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if not any(map(shutil.which, app_room.BROWSERS)):
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    with app_room.chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page on which any console error and any dialog fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))

    def note(message: Any) -> None:
        if app_room.is_fault(message):
            faults.append(message.text)

    def refuse(dialog: Any) -> None:
        faults.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    opened.on("console", note)
    opened.on("dialog", refuse)
    opened.set_default_timeout(WAIT)
    yield opened
    context.close()
    assert faults == []
