"""The README's pictures of the app, of what `make repro` has made here: `make pictures`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import app_room
import pytest
from PIL import Image

from genlab.benchmark.store.repository import Store

TARGET = os.environ.get("GENLAB_SHOTS", "")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not TARGET, reason="for the README; run: make pictures"),
]
STORE = app_room.ROOT / "runs" / "genlab.sqlite3"
PAGES = {
    "overview": "",
    "data": "data",
    "training": "training?run=current+run&run=beta0",
    "evaluation": "evaluation?show=Latents",
    "failures": "failures",
    "agent": "agent",
    "benchmark": "benchmark?run={run}",
    "rate": "rate?of={run}&rater=ada",
}
DARK = ("training",)
PHONE = ("overview", "rate")
PHOTOGRAPHS = ("benchmark", "rate")
MOST_BYTES = 200_000


@pytest.fixture(scope="module")
def shown() -> Iterator[app_room.Server]:
    """A server over this repository's own results."""
    if not STORE.exists():
        pytest.skip(f"{STORE} is missing; run: make repro")
    with app_room.serving(app_room.ROOT) as served:
        yield served


def take(server: app_room.Server, browser: Any, name: str, width: int, target: Path) -> Path:
    """One page as a picture of `width`, a JPEG where it shows photographs."""
    with Store(STORE) as store:
        run_id = store.runs()[0].run_id
    scheme = "dark" if name in DARK else "light"
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.set_default_timeout(120_000)
    page.goto(f"{server.base}/{PAGES[name].format(run=run_id)}")
    page.locator("h1").first.wait_for()
    page.wait_for_function(app_room.READY)
    if name == "overview":
        page.get_by_text("up to date").first.wait_for()  # dvc has answered
    page.wait_for_function("!document.querySelector('[data-testid=stSkeleton]')")
    page.wait_for_timeout(2500)  # charts draw themselves
    kind = "jpg" if name in PHOTOGRAPHS else "png"
    made = target / f"app_{name}{'' if width > 640 else '_phone'}.{kind}"
    if kind == "jpg":
        page.screenshot(path=made, type="jpeg", quality=82)
    else:
        page.screenshot(path=made)
        Image.open(made).convert("RGB").quantize(128).save(made, optimize=True)
    context.close()
    return made


@pytest.mark.parametrize(
    ("name", "width"), [*((name, 1440) for name in PAGES), *((name, 390) for name in PHONE)]
)
def test_a_page_is_pictured(shown: app_room.Server, browser: Any, name: str, width: int) -> None:
    made = take(shown, browser, name, width, app_room.ROOT / TARGET)
    assert made.stat().st_size < MOST_BYTES
