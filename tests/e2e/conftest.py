"""One furnished project, one server over it, one Chromium: for all tests of a process."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import app_room
import pytest

# Benchmarks are scripts: they find each other because their folder comes first on the path.
from furnished import RUN, furnish

from genlab.benchmark.store.repository import Store

WAIT = 180_000  # milliseconds; a loaded machine is slow
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app_room.Server]:
    folder = app_room.make_project(tmp_path_factory.mktemp("served"), cases=2, hostile=True)
    with Store(folder / "runs" / "genlab.sqlite3") as store:
        app_room.make_run(store, folder, run_id=RUN, cases=4)
    with app_room.serving(furnish(folder)) as served:
        yield served


@pytest.fixture(scope="module")  # its event loop is in the way of tests that run one
def browser() -> Iterator[Any]:
    pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
    if not any(map(shutil.which, BROWSERS)):
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    with app_room.chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page of which every error on the console and every dialog fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    opened = context.new_page()
    faults: list[str] = []
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("console", lambda said: faults.append(said.text) if app_room.is_fault(said) else None)

    def refuse(dialog: Any) -> None:
        faults.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    opened.on("dialog", refuse)
    opened.set_default_timeout(WAIT)
    yield opened
    context.close()
    assert faults == []
