"""The README's pictures of the app over the results of `make repro`; run by `make pictures`."""

import os
from collections.abc import Iterator
from typing import Any

import app_room
import pytest

from genlab.benchmark.store.repository import Store

TARGET = os.environ.get("GENLAB_SHOTS", "")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not TARGET, reason="for the README; run: make pictures"),
]
STORE = app_room.ROOT / "runs" / "genlab.sqlite3"
PAGES = {
    "overview": "",
    "training": "training",
    "evaluation": "evaluation?dataset=fashion_mnist&show=Samplers",
    "cases": "cases",
    "benchmark": "benchmark?run={run}",
    "rate": "rate?of={run}&rater=ada",
}
MOST_BYTES = 200_000


@pytest.fixture(scope="module")
def own_server() -> Iterator[app_room.Server]:
    """A server over this repository's own results."""
    if not STORE.exists():
        pytest.skip(f"{STORE} is missing; run: make repro")
    with app_room.serving(app_room.ROOT) as served:
        yield served


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_pictured(own_server: app_room.Server, browser: Any, name: str) -> None:
    with Store(STORE) as store:
        run_id = store.runs()[0].run_id
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.set_default_timeout(120_000)
    page.goto(f"{own_server.base}/{PAGES[name].format(run=run_id)}")
    page.locator("h1").first.wait_for()
    page.wait_for_function(app_room.READY)
    if name == "overview":
        page.get_by_text("up to date").first.wait_for()  # dvc has answered
    page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')")
    page.wait_for_timeout(2500)  # charts draw themselves
    file = app_room.ROOT / TARGET / f"app_{name}.jpg"
    page.screenshot(path=file, type="jpeg", quality=82)
    page.close()
    assert file.stat().st_size < MOST_BYTES
