"""The API: what it answers, what it refuses, and that no run is lost or misreported."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import app_room
import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from genlab.core.errors import GenlabError
from genlab.web.api import make_api
from genlab.web.feed import Feed
from genlab.web.guards import MAX_BODY, Door, Guards
from genlab.web.live import MOST_WAITING, Live
from genlab.web.pictures import run_pictures

HERE = "http://127.0.0.1:8000"
TOKEN = "a-token-that-is-long-enough"
HOSTILE = [
    "<script>alert(1)</script>",
    "../../etc/passwd",
    "'; DROP TABLE runs; --",
    "\u202egnp.exe",
    "x" * 10_000,
    "a\x00b",
    "%2e%2e%2f",
    "=cmd()",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = app_room.make_project(tmp_path_factory.mktemp("project"), cases=3, hostile=True)
    sys.path.insert(0, str(folder / "package"))
    yield folder
    sys.path.remove(str(folder / "package"))


@pytest.fixture(scope="module")
def live(project: Path) -> Iterator[Live]:
    made = Live(project)
    app_room.make_run(made.store, project, run_id="2026-01-01")
    yield made
    made.close()


class Here(TestClient):
    """A client whose WebSockets, too, name the server as a browser would."""

    def websocket_connect(self, url: str, **kwargs: Any) -> Any:
        headers = {"host": "127.0.0.1:8000", **kwargs.pop("headers", {})}
        return super().websocket_connect(url, headers=headers, **kwargs)


def client(live: Live, door: Door | None = None, peer: str = "127.0.0.1") -> TestClient:
    routes = [Mount("/api", app=make_api(live)), Mount("/runs", run_pictures(live.runs_folder))]
    app = Starlette(routes=routes, middleware=[Middleware(Guards, door=door or Door())])
    return Here(app, HERE, client=(peer, 50_000), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def api(live: Live) -> TestClient:
    return client(live)


def is_problem(answer: Any, status: int) -> bool:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    reported = answer.json()
    assert set(reported) == {"type", "title", "status", "detail"}
    assert reported["status"] == status
    assert "\n" not in reported["detail"]
    assert "Traceback" not in reported["detail"]
    return True


def until_ended(api: TestClient, run_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        run: dict[str, Any] = api.get(f"/api/run/{run_id}").json()
        if run["status"] != "running":
            return run
        time.sleep(0.02)
    raise AssertionError(f"{run_id} did not end: {run['progress']}")


# what it answers


def test_the_cases_come_with_pictures_and_licences(api: TestClient) -> None:
    cases = api.get("/api/test-cases").json()
    assert [case["case_id"] for case in cases] == [f"case-{n:03d}" for n in range(1, 6)]
    for url in (cases[0]["template_url"], *cases[0]["avatar_urls"].values()):
        assert api.get(url).headers["content-type"] == "image/jpeg"
    assert cases[0]["licences"]["template"] == "CC0-1.0"


def test_a_tool_says_why_it_is_not_available(api: TestClient) -> None:
    tools = {tool["tool_id"]: tool for tool in api.get("/api/tools").json()}
    assert tools["sim_closed"]["available"] is False
    assert tools["sim_closed"]["reason"] == "SIM_KEY is not set"
    assert tools["sim_paint"]["available"] is True


def test_a_run_ends_and_says_so(api: TestClient) -> None:
    begun = api.post("/api/run", json={"case_ids": ["case-001"], "tool_ids": ["sim_fail"]})
    assert begun.status_code == 202
    run = until_ended(api, begun.json()["run_id"])
    assert run["status"] == "finished"
    assert [item["failure_kind"] for item in run["items"]] == ["refused"]
    assert run["progress"]["failed"] == 1
    listed = api.get("/api/runs").json()
    assert run["run_id"] in [line["run_id"] for line in listed]


def test_a_run_is_cancelled(api: TestClient) -> None:
    asked = {
        "case_ids": ["case-001"],
        "tool_ids": ["sim_paint"],
        "options": {"sim_paint": {"seconds": 60}},
    }
    run_id = api.post("/api/run", json=asked).json()["run_id"]
    assert api.post(f"/api/run/{run_id}/cancel").json() == {"run_id": run_id, "cancelled": True}
    run = until_ended(api, run_id)
    assert run["status"] == "cancelled"
    assert [item["failure_kind"] for item in run["items"]] == ["cancelled"]
    assert api.post(f"/api/run/{run_id}/cancel").json()["cancelled"] is False


def test_stars_count_once_and_are_taken_back(api: TestClient, live: Live) -> None:
    item = live.store.items("2026-01-01")[0].item_id
    ask = {"run_item_id": item, "rater": "ada"}
    assert api.post("/api/rate", json={**ask, "stars": 4}).json()["changed"] is True
    again = api.post("/api/rate", json={**ask, "stars": 4}).json()
    assert again == {"run_item_id": item, "changed": False, "mean_stars": 4.0, "raters": 1}
    taken = api.post("/api/rate", json={**ask, "stars": None}).json()
    assert (taken["changed"], taken["mean_stars"], taken["raters"]) == (True, None, 0)


def test_an_item_without_a_picture_has_no_stars(api: TestClient, live: Live) -> None:
    item = next(item for item in live.store.items("2026-01-01") if not item.image)
    assert is_problem(api.post("/api/rate", json={"run_item_id": item.item_id, "stars": 3}), 409)


def test_the_report_is_a_file_to_keep(api: TestClient) -> None:
    report = api.get("/api/report/2026-01-01")
    assert report.headers["content-disposition"] == 'attachment; filename="report_2026-01-01.html"'
    assert report.text.lstrip().lower().startswith("<!doctype html>")
    assert "<script>" not in report.text


def test_a_picture_is_found_by_its_content_without_its_tool(api: TestClient, live: Live) -> None:
    item = live.store.items("2026-01-01")[0]
    found = api.get(f"/api/pictures/{item.image_sha256}")
    assert found.headers["content-type"] == "image/jpeg"
    assert item.tool_id.encode() not in found.content
    assert is_problem(api.get(f"/api/pictures/{'0' * 64}"), 404)


def test_the_handbook_needs_nothing_from_elsewhere(api: TestClient) -> None:
    page = api.get("/api/docs").text
    for path in api.get("/api/openapi.json").json()["paths"]:
        assert f"/api{path}" in page
    assert "<script" not in page
    assert "http" not in page.replace("http://127.0.0.1", "")


# following


def test_a_follower_that_comes_back_loses_nothing(api: TestClient) -> None:
    asked = {"case_ids": ["case-001", "case-002", "case-003"], "tool_ids": ["sim_fail"]}
    run_id = api.post("/api/run", json=asked).json()["run_id"]
    until_ended(api, run_id)
    with api.websocket_connect(f"/api/run/{run_id}?after=0") as socket:
        last = socket.receive_json()["sequence"]
    # From every event on: all that follow it, in order, each once.
    first = last - 6
    for after in (first, last - 1, last):
        reported: list[int] = []
        with api.websocket_connect(f"/api/run/{run_id}?after={after}") as socket:
            while not reported or reported[-1] < last:
                if after == last:  # nothing more: the server closes
                    with pytest.raises(WebSocketDisconnect):
                        socket.receive_json()
                    break
                reported.append(socket.receive_json()["sequence"])
        assert reported == list(range(after + 1, last + 1))


def test_a_run_of_an_earlier_process_is_reported_from_the_store(api: TestClient) -> None:
    with api.websocket_connect("/api/run/2026-01-01?after=5") as socket:
        state = socket.receive_json()
    assert len(state["items"]) == 6
    assert state["end"]["status"] == "finished"


def test_no_follower_of_many_loses_or_reorders_an_event() -> None:
    feed = Feed("r")
    events, followers = 1000, 40

    async def follow(slow: bool) -> list[int]:
        reported: list[int] = []
        async for message in feed.follow():
            said = json.loads(message)
            reported.append(said["sequence"])
            if slow and len(reported) % 50 == 0:
                await asyncio.sleep(0.001)
        return reported

    async def all_of_them() -> list[list[int]]:
        waiting = [asyncio.create_task(follow(n % 2 == 0)) for n in range(followers)]
        await asyncio.sleep(0.01)
        threading.Thread(target=publish).start()
        return await asyncio.gather(*waiting)

    def publish() -> None:
        for number in range(events):
            feed.add({"type": "update", "run_item_id": number % 100 + 1, "status": str(number)})
            if number % 100 == 0:
                time.sleep(0.002)
        feed.add({"type": "run", "status": "finished"})

    for reported in asyncio.run(all_of_them()):
        assert reported == list(range(reported[0], reported[0] + events + 2))


# restarts


def test_a_run_that_a_server_left_goes_on_under_the_next(project: Path, live: Live) -> None:
    cases, tools = live.cases()[:2], live.tools()
    first = Live(project)
    run_id = first.start(
        cases, [tools["sim_fail"], tools["sim_paint"]], options={"sim_paint": {"seconds": 60}}
    )
    first.close()  # as a kill: what was under way is left as it is
    assert live.status(live.store.run(run_id))[0] == "interrupted"
    second = Live(project)
    assert second.resume() == [run_id]
    assert second.status(second.store.run(run_id))[0] == "running"
    second.cancel(run_id)
    run = until_ended(client(second), run_id)
    assert (run["status"], run["reason"]) == ("cancelled", "")
    second.close()


def test_a_run_that_cannot_go_on_says_why(project: Path, live: Live, tmp_path: Path) -> None:
    live.store.create_run(
        "2026-01-02",
        "2026-01-02T00:00:00+00:00",
        {},
        [{"case_id": "gone", "title": "gone", "folder": str(tmp_path / "gone"), "digest": "0"}],
        [{"tool_id": "sim_fail", "title": ""}],
    )
    other = Live(project)
    other.resume()
    run = until_ended(client(other), "2026-01-02")
    assert run["status"] == "interrupted"
    assert "gone" in run["reason"]
    other.close()
    live.store.end_run("2026-01-02", "cancelled")


def test_there_is_an_end_to_how_many_runs_wait(api: TestClient) -> None:
    asked = {
        "case_ids": ["case-001"],
        "tool_ids": ["sim_paint"],
        "options": {"sim_paint": {"seconds": 60}},
    }
    begun = [api.post("/api/run", json=asked) for _ in range(MOST_WAITING + 1)]
    assert [one.status_code for one in begun] == [202] * MOST_WAITING + [429]
    assert is_problem(begun[-1], 429)
    for one in begun[:-1]:
        api.post(f"/api/run/{one.json()['run_id']}/cancel")
    for one in begun[:-1]:
        assert until_ended(api, one.json()["run_id"])["status"] == "cancelled"


# what it refuses


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_refused_and_named_nowhere(api: TestClient, name: str) -> None:
    run = {"case_ids": [name], "tool_ids": [name], "options": {name: {name: name}}}
    assert is_problem(api.post("/api/run", json=run), 422)
    assert api.post("/api/rate", json={"run_item_id": name, "stars": name}).status_code == 422
    part = quote(name, safe="")
    for path in (f"/api/run/{part}", f"/api/report/{part}", f"/api/test-cases/{part}/{part}"):
        assert api.get(path).status_code in (404, 422)


@pytest.mark.parametrize("rater", HOSTILE)
def test_a_hostile_rater_is_kept_as_text_or_refused(
    api: TestClient, live: Live, rater: str
) -> None:
    item = live.store.items("2026-01-01")[0].item_id
    answer = api.post("/api/rate", json={"run_item_id": item, "stars": 5, "rater": rater})
    assert answer.status_code in (200, 422)
    kept = [rating.rater for rating in live.store.ratings("run_item")]
    assert (rater in kept) == (answer.status_code == 200)
    assert live.store.runs()
    if answer.status_code == 200:
        api.post("/api/rate", json={"run_item_id": item, "stars": None, "rater": rater})


@pytest.mark.parametrize(
    "path",
    [
        "/runs/genlab.sqlite3",
        "/runs/../params.yaml",
        "/runs/..%2fparams.yaml",
        "/runs/2026-01-01/sim_paint/../../../params.yaml",
        "/runs/2026-01-01/sim_paint/..%2f..%2f..%2fparams.yaml",
        "/runs/2026-01-01/sim_paint/case-001.json",
        "/runs/2026-01-01/sim_paint/link.png",
        "/runs/2026-01-01/%2e%2e/2026-01-01",
        "/runs/2026-01-01/sim_paint/case-001.png%00.jpg",
        "/runs/2026-01-01/.lock/case-001.png",
    ],
)
def test_nothing_but_the_pictures_of_runs_is_served(api: TestClient, live: Live, path: str) -> None:
    link = live.runs_folder / "2026-01-01" / "sim_paint" / "link.png"
    if not link.exists():
        link.symlink_to(live.root / "params.yaml")
    (link.parent / "case-001.json").write_text("{}", encoding="utf-8")
    answer = api.get(path)
    assert answer.status_code == 404
    assert b"datasets" not in answer.content


def test_numbers_out_of_range_are_refused(api: TestClient) -> None:
    for item in (0, -1, 2**63, 2**64, 1.5, True, "1", None):
        answer = api.post("/api/rate", json={"run_item_id": item, "stars": 3})
        assert is_problem(answer, 422)
    for stars in (0, 6, 2.5, True, "5"):
        assert is_problem(api.post("/api/rate", json={"run_item_id": 1, "stars": stars}), 422)
    many = {"case_ids": ["case-001"] * 501, "tool_ids": ["sim_fail"]}
    assert is_problem(api.post("/api/run", json=many), 422)
    assert is_problem(api.post("/api/rate", content=b'{"run_item_id": 1, "stars": NaN}'), 422)


def test_what_is_not_there_is_a_404(api: TestClient) -> None:
    for path in ("/api/run/2000-01-01", "/api/report/2000-01-01", "/api/test-cases/no/template"):
        assert is_problem(api.get(path), 404)
    absent = {"case_ids": ["no-such"], "tool_ids": ["sim_fail"]}
    assert is_problem(api.post("/api/run", json=absent), 404)
    assert is_problem(api.get("/api/nothing"), 404)
    for path in ("/api/run/a%0Ab", "/api/run/..%2f..", "/runs/..%5c..", "/api/%2e%2e/params.yaml"):
        assert is_problem(api.get(path), 404)
    assert is_problem(api.post("/api/tools"), 405)
    with pytest.raises(WebSocketDenialResponse), api.websocket_connect("/api/run/2000-01-01"):
        pass


def test_a_case_that_has_changed_is_read_again(tmp_path: Path) -> None:
    folder = app_room.make_project(tmp_path, cases=1) / "cases" / "case-001"
    other = Live(tmp_path)
    (before,) = other.cases()
    digest = before.digest
    assert other.cases()[0] is before
    (folder / "template.jpg").write_bytes((folder / "avatar_anna.jpg").read_bytes())
    (after,) = other.cases()
    assert after.digest != digest
    (folder / "template.jpg").unlink()
    with pytest.raises(GenlabError, match=r"template\.jpg is not there"):
        other.cases()


# who may ask


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"host": "localhost@evil.example"},
        {"host": ""},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9000"},
        {"origin": "https://localhost:8000"},
        {"origin": "http://["},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
    ],
)
@pytest.mark.parametrize("path", ["/api/tools", "/runs/2026-01-01/sim_paint/case-001.png"])
def test_a_foreign_site_is_refused(api: TestClient, path: str, headers: dict[str, str]) -> None:
    assert is_problem(api.get(path, headers=headers), 403)


@pytest.mark.parametrize("header", [{"origin": "http://evil.example"}, {"host": "evil.example"}])
def test_a_foreign_site_cannot_follow(api: TestClient, header: dict[str, str]) -> None:
    with (
        pytest.raises(WebSocketDenialResponse) as refused,
        api.websocket_connect("/api/run/2026-01-01", headers=header),
    ):
        pass
    assert refused.value.status_code == 403


def test_our_own_pages_may_ask(api: TestClient) -> None:
    for name in ("127.0.0.1:8000", "localhost:8000", "[::1]:8000"):
        headers = {"host": name, "origin": f"http://{name}", "sec-fetch-site": "same-origin"}
        assert api.get("/api/runs", headers=headers).status_code == 200


def test_another_machine_needs_a_token(live: Live) -> None:
    assert is_problem(client(live, peer="192.0.2.7").get("/api/runs"), 403)
    away = client(live, Door(frozenset({"127.0.0.1"}), TOKEN), peer="192.0.2.7")
    assert is_problem(away.get("/api/runs"), 401)
    for wrong in ("", "x", TOKEN[:-1], TOKEN + "x", "\u202e"):
        headers = {"authorization": f"Bearer {wrong}".encode()}
        assert away.get("/api/runs", headers=headers).status_code == 401
    right = {"authorization": f"Bearer {TOKEN}"}
    assert away.get("/api/runs", headers=right).status_code == 200
    with pytest.raises(WebSocketDenialResponse), away.websocket_connect("/api/run/2026-01-01"):
        pass
    with away.websocket_connect("/api/run/2026-01-01", headers=right) as socket:
        assert socket.receive_json()["type"] == "state"


def test_a_token_in_the_address_becomes_a_cookie_and_goes(live: Live) -> None:
    away = client(live, Door(token=TOKEN))
    opened = away.get(f"{HERE}//evil.example/x?token={TOKEN}&run=1", follow_redirects=False)
    assert opened.status_code == 303
    assert opened.headers["location"] == "/evil.example/x?run=1"
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=lax" in cookie.lower()
    away.cookies.set("genlab_token", TOKEN)
    assert away.get("/api/runs").status_code == 200


def test_a_short_token_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENLAB_TOKEN", "short")
    with pytest.raises(GenlabError, match="GENLAB_TOKEN must have at least 16 characters, got 5"):
        Door.from_environment()


def test_a_body_that_is_too_long_is_refused(api: TestClient) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(20):
            yield b"x" * 10_000

    assert is_problem(api.post("/api/run", content=b"x" * (MAX_BODY + 1)), 413)
    assert is_problem(api.post("/api/run", content=pieces()), 413)


def test_every_answer_forbids_guessing_and_framing(api: TestClient) -> None:
    for path in ("/api/tools", "/api/nothing", "/runs/2026-01-01/sim_paint/case-001.png"):
        headers = api.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "SAMEORIGIN"
        assert headers["content-security-policy"].startswith("default-src 'none'")


def test_an_option_that_a_tool_does_not_take_is_refused_before_anything_runs(
    api: TestClient,
) -> None:
    run = {"case_ids": ["case-001"], "tool_ids": ["control_blurred"]}
    for options, words in (
        ({"stength": 1}, ("no option 'stength'", "did you mean strength")),
        ({"strength": 9}, ("must be 1 or 2 or 3", "'9'")),
    ):
        answer = api.post("/api/run", json={**run, "options": {"control_blurred": options}})
        assert is_problem(answer, 422)
        assert all(word in answer.text for word in words), answer.text
