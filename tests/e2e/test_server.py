"""A real server and a real browser: the benchmark's flow, rating by keys, restarts, tokens."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import app_room
import httpx
import pytest
from streamlit.proto.BackMsg_pb2 import BackMsg
from streamlit.proto.ClientState_pb2 import ClientState
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from genlab.benchmark.service.rating_session import PAUSE
from genlab.benchmark.store.repository import Store

RUN = "2026-01-01"
WAIT = 180_000  # milliseconds; a loaded machine is slow
LONG = {"sim_paint": {"seconds": 300}}
TOKEN = "a-token-that-nobody-guesses"
RATERS_TOKEN = "a-token-for-raters-alone"


def begin_run(server: app_room.Server, **request: Any) -> str:
    answer = httpx.post(f"{server.base}/api/run", json=request, timeout=60)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run_id"])


def state(server: app_room.Server, run_id: str) -> dict[str, Any]:
    run = httpx.get(f"{server.base}/api/run/{run_id}", timeout=60).json()
    ending = run["end"] or {"status": "running"}
    return {**ending, "progress": Counter(item["status"] for item in run["items"])}


def until(server: app_room.Server, run_id: str, *statuses: str) -> dict[str, Any]:
    return wait_for(lambda: state(server, run_id), lambda run: run["status"] in statuses)


def wait_for(read: Callable[[], Any], holds: Callable[[Any], bool]) -> Any:
    """Call `read` until `holds` is true of its answer; return that answer."""
    deadline = time.monotonic() + 60
    while not holds(answer := read()):
        assert time.monotonic() < deadline, answer
        time.sleep(0.1)
    return answer


def test_a_run_of_chosen_tools_is_started_and_followed(server: app_room.Server, page: Any) -> None:
    from playwright.sync_api import expect

    page.goto(f"{server.base}/benchmark")
    page.get_by_role("button", name=re.compile("^Run [0-9]+ images")).wait_for()
    assert page.title() != "owned"
    active = page.locator("button[data-variant=pills][aria-pressed=true]")
    for remaining in reversed(range(active.count())):
        active.first.click()
        expect(active).to_have_count(remaining)
    page.get_by_role("button", name=re.compile("refusal")).click()
    page.get_by_role("button", name="Run 4 images").click()
    page.wait_for_url("**run=*")
    page.locator("[data-status=failed]").nth(3).wait_for()
    page.get_by_role("link", name="Export report").wait_for()
    run_id = page.url.split("run=")[1].split("&")[0]
    assert until(server, run_id, "finished")["progress"]["failed"] == 4


def test_a_case_is_made_run_rated_and_reported(tmp_path: Path, root: Path, page: Any) -> None:
    folder = app_room.make_project(tmp_path, cases=1)
    with app_room.serving(folder) as server:
        report = app_room.take_photographs_to_report(server, page, root / "cases")
    assert "My case" in report
    with Store(folder / "runs" / "genlab.sqlite3") as store:
        assert [rating.stars for rating in store.ratings(rater="ann")] == [4]


def test_two_browsers_follow_one_run_and_a_reload_keeps_it(
    server: app_room.Server, browser: Any, page: Any
) -> None:
    run_id = begin_run(server, case_ids=["case-001"], tool_ids=["sim_paint"], options=LONG)
    second_page = browser.new_page()
    second_page.set_default_timeout(WAIT)
    for tab in (page, second_page):
        tab.goto(f"{server.base}/benchmark?run={run_id}")
        tab.locator("[data-status=generating]").wait_for(timeout=WAIT)
    page.reload()
    page.locator("[data-status=generating]").wait_for()
    second_page.get_by_role("button", name="Cancel").click()
    for tab in (page, second_page):
        tab.get_by_role("link", name="Export report").wait_for(timeout=WAIT)
    assert until(server, run_id, "cancelled")
    second_page.close()


def test_a_blind_session_by_keys(server: app_room.Server, page: Any) -> None:
    page.goto(f"{server.base}/rate?of={RUN}&rater=keys")
    page.get_by_text("0 of 4 rated").wait_for()
    assert "sim_" not in page.content()
    image = page.locator(".b-main img")
    first = image.get_attribute("src")
    page.keyboard.press("4")
    page.get_by_text("1 of 4 rated").wait_for()
    assert image.get_attribute("src") != first
    page.keyboard.press("u")
    page.get_by_text("0 of 4 rated").wait_for()
    assert image.get_attribute("src") == first
    for number, key in enumerate("1235", 1):
        page.keyboard.press(key)
        page.get_by_text(f"{number} of 4 rated").wait_for()
        page.wait_for_timeout(1000 * PAUSE)
    page.get_by_text("All done").wait_for()
    with Store(server.folder / "runs" / "genlab.sqlite3") as store:
        ratings = store.ratings("run_item", rater="keys")
    assert sorted(rating.stars for rating in ratings) == [1, 2, 3, 5]
    page.reload()
    page.get_by_text("4 of 4 rated").wait_for()


def test_name_run_and_view_are_remembered(server: app_room.Server, page: Any) -> None:
    page.goto(f"{server.base}/benchmark?run={RUN}")
    page.get_by_label("Your name").fill("grace")
    page.keyboard.press("Enter")
    page.wait_for_url("**rater=grace**")
    page.get_by_text("Leaderboard", exact=True).click()
    page.wait_for_url("**view=Leaderboard**")
    page.reload()
    page.get_by_text("The ranking mean counts").wait_for()
    page.get_by_role("link", name="Rate").click()
    page.get_by_text("grace rates").wait_for()
    page.get_by_text("0 of 4 rated").wait_for()
    assert f"of={RUN}" in page.url
    page.get_by_role("link", name="Benchmark").click()
    page.get_by_text(f"Run {RUN}").wait_for()
    page.get_by_role("button", name="New run").click()
    page.get_by_text("Images per case and tool").wait_for()
    assert "run=" not in page.url


def test_the_next_server_resumes_the_run_of_a_killed_one(tmp_path: Path) -> None:
    folder = app_room.make_project(tmp_path, cases=1)
    with app_room.serving(folder) as first:
        run_id = begin_run(
            first, case_ids=["case-001"], tool_ids=["sim_paint", "sim_fail"], options=LONG
        )
        wait_for(lambda: state(first, run_id), lambda run: run["progress"]["failed"] == 1)
        app_room.stop(first.process, kill=True)
    with app_room.serving(folder) as second:
        run = until(second, run_id, "running")
        assert run["progress"]["failed"] == 1  # what had ended is not done again
        wait_for(lambda: state(second, run_id), lambda run: run["progress"]["generating"] == 1)
        httpx.post(f"{second.base}/api/run/{run_id}/cancel", timeout=60)
        assert until(second, run_id, "cancelled")


@pytest.fixture(scope="module")
def token_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[app_room.Server]:
    """A server that needs tokens, and whose log has a line per request."""
    folder = app_room.make_project(tmp_path_factory.mktemp("token_server"), cases=1)
    variables = {"GENLAB_TOKEN": TOKEN, "GENLAB_RATER_TOKEN": RATERS_TOKEN}
    with app_room.serving(folder, with_uvicorn=True, environment=variables) as served:
        yield served


def test_no_log_holds_a_token(token_server: app_room.Server) -> None:
    for path in ("/", "/api/tools", "/api/nothing", "/runs/a/b/c.png"):
        for offered in (TOKEN, "a-token-that-is-wrong-all-the-same"):
            httpx.get(f"{token_server.base}{path}?a=1&token={offered}", timeout=60)
    assert httpx.get(f"{token_server.base}/api/tools?token={TOKEN}", timeout=60).status_code == 200
    log = wait_for(lambda: token_server.log.read_text("utf-8"), lambda log: log.count("a=1") >= 8)
    assert "a-token-" not in log


def test_a_token_of_raters_shows_the_page_rate_alone(
    token_server: app_room.Server, browser: Any
) -> None:
    page = browser.new_page()
    page.set_default_timeout(WAIT)
    page.goto(f"{token_server.base}/?token={RATERS_TOKEN}")
    page.get_by_role("heading", name="Rate").wait_for()
    answer = page.goto(f"{token_server.base}/benchmark")
    assert answer.status == 403
    page.close()
    # Without cookies, the token in the header or the address decides.
    assert list_pages(token_server, TOKEN) > {"Rate"}
    assert list_pages(token_server, RATERS_TOKEN) == {"Rate"}
    assert list_pages(token_server, RATERS_TOKEN, f"?token={RATERS_TOKEN}") == {"Rate"}


def list_pages(server: app_room.Server, token: str, query: str = "") -> set[str]:
    """The pages that Streamlit offers over a bare WebSocket."""
    headers = {"Authorization": f"Bearer {token}"}
    address = f"{server.socket}/_stcore/stream{query}"
    protocol = [Subprotocol("streamlit")]
    with connect(address, additional_headers=headers, subprotocols=protocol) as socket:
        request = BackMsg(rerun_script=ClientState(query_string="", page_script_hash=""))
        socket.send(request.SerializeToString())
        while True:
            message = ForwardMsg.FromString(socket.recv(timeout=60, decode=False))
            if message.WhichOneof("type") == "navigation":
                return {page.page_name for page in message.navigation.app_pages}
