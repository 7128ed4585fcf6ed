"""The pages in a real Chromium: they follow a training, and hostile names are plain text."""

import re
from typing import Any

import app_room
import pytest
from stage_runs import start_stage

EPOCH = "Number(document.body.innerText.match(/training now, epoch (\\d+)/)?.[1] ?? 0)"
PATIENCE = 180_000  # milliseconds until a training has imported torch on a busy machine
RUN = "2026-01-01"
LONG = "x" * 10_000
MARKUP = "<img src=x onerror=alert(1)>"


def wait_for_script(page: Any) -> None:
    """Wait until a page's script has ended."""
    page.locator("h1").first.wait_for()
    page.wait_for_function(app_room.READY)
    page.wait_for_timeout(300)


def check_unharmed(page: Any) -> None:
    """Foreign text is shown as text: it ran no script, fetched nothing and widened no block."""
    assert page.title() != "owned"
    assert page.locator("img[src='x'], img[src^='http://x']").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]
    for block in page.locator("[data-testid=stMainBlockContainer]").all():
        assert block.evaluate("one => one.scrollWidth <= one.clientWidth + 1")


def test_a_training_is_followed_and_a_reload_keeps_the_view(
    server: app_room.Server, page: Any
) -> None:
    process = start_stage(server.folder, "train")
    try:
        page.goto(f"{server.base}/training")
        page.get_by_text(re.compile("^training now, epoch")).wait_for(timeout=PATIENCE)
        page.get_by_text("Log scale").click()
        page.wait_for_url("**log=false**")
        page.evaluate("window.untouched = true")
        first = page.evaluate(EPOCH)
        page.wait_for_function(f"{EPOCH} > {first + 1}")
        assert page.evaluate("window.untouched")  # it came without a reload
        page.reload()
        page.wait_for_function(f"{EPOCH} > {first + 1}")
        assert not page.get_by_role("switch", name="Log scale").is_checked()
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "training",
        "evaluation",
        "failures",
        "agent",
        f"benchmark?run={RUN}",
        "benchmark",
        "benchmark?run=<script>alert(1)</script>",
        "rate?rater=<script>alert(1)</script>&of=../../etc",
    ],
)
def test_hostile_names_are_plain_text(server: app_room.Server, page: Any, path: str) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(f"{server.base}/{path}")
    wait_for_script(page)
    check_unharmed(page)


def test_a_hostile_goal_is_refused_in_a_sentence(server: app_room.Server, page: Any) -> None:
    page.goto(f"{server.base}/agent")
    page.get_by_text("Start a run").click()
    page.get_by_label("Goal, with the number that decides").fill(f"{MARKUP} ../../ \u202e" + LONG)
    page.get_by_role("button", name="Start or resume").click()
    page.locator("[data-testid=stAlert]").first.wait_for()
    check_unharmed(page)
    names = {path.name for path in (server.folder / "workspaces").iterdir()}
    assert names <= {"project", "logs"}


def test_a_hostile_grid_is_reported_where_it_is_wrong(server: app_room.Server, page: Any) -> None:
    page.goto(f"{server.base}/data?view=Paste+a+grid")
    area = page.locator("textarea")
    for words in (MARKUP, "../../etc/passwd", "\u202eelttil", LONG):
        area.fill(words)
        area.press("Control+Enter")
        page.locator("[data-testid=stAlert]").first.wait_for()
        wait_for_script(page)
        check_unharmed(page)
