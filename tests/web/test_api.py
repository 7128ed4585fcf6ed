"""The API: what it answers, what it refuses, and that no run is lost or misreported."""

import asyncio
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import app_room
import pytest
from fastapi.testclient import TestClient
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocketDisconnect

from genlab.benchmark.cases import CASE_FILE
from genlab.benchmark.events import EventLog
from genlab.benchmark.plugins.registry import make_contenders
from genlab.benchmark.runner import is_locked, lock_of
from genlab.benchmark.store.schema import Contender
from genlab.core.errors import GenlabError
from genlab.web.api.app import make_api
from genlab.web.images import make_image_app
from genlab.web.jobs import MAX_WAITING, Jobs
from genlab.web.security import MAX_BODY, Access, Security

HERE = "http://127.0.0.1:8000"
TOKEN = "a-token-that-is-long-enough"
RUN = "2026-01-01"
PICTURE = f"/runs/{RUN}/sim_paint/case-001.png"
FAILING = {"case_ids": ["case-001"], "tool_ids": ["sim_fail"]}
ENDLESS = {"case_ids": ["case-001"], "tool_ids": ["sim_paint"],
           "options": {"sim_paint": {"seconds": 60}}}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = app_room.make_project(tmp_path_factory.mktemp("project"), cases=3, hostile=True)
    sys.path.insert(0, str(folder / "package"))
    yield folder
    sys.path.remove(str(folder / "package"))


@pytest.fixture(scope="module")
def jobs(project: Path) -> Iterator[Jobs]:
    made = Jobs(project)
    app_room.make_run(made.store, project, run_id=RUN)
    yield made
    made.store.close()


class Here(TestClient):
    """A client whose WebSockets, too, name the server as a browser would."""

    def websocket_connect(self, url: str, **kwargs: Any) -> Any:
        headers = {"host": "127.0.0.1:8000", **kwargs.pop("headers", {})}
        return super().websocket_connect(url, headers=headers, **kwargs)


def client(jobs: Jobs, access: Access | None = None, peer: str = "127.0.0.1") -> TestClient:
    images = make_image_app(jobs.runs_folder)
    routes = [Mount("/api", app=make_api(jobs)), Mount("/runs", images)]
    app = Starlette(routes=routes, middleware=[Middleware(Security, access=access or Access())])
    return Here(app, HERE, client=(peer, 50_000), raise_server_exceptions=False)


@pytest.fixture(scope="module")
def api(jobs: Jobs) -> TestClient:
    return client(jobs)


def is_problem(answer: Any, *statuses: int) -> bool:
    assert answer.status_code in statuses, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    reported = answer.json()
    assert set(reported) == {"type", "title", "status", "detail"}
    assert reported["status"] == answer.status_code
    assert "\n" not in reported["detail"]
    assert "Traceback" not in reported["detail"]
    return True


def begin(api: TestClient, asked: dict[str, Any]) -> str:
    answer = api.post("/api/run", json=asked)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["run_id"])


def until_ended(api: TestClient, run_id: str) -> dict[str, Any]:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        state: dict[str, Any] = api.get(f"/api/run/{run_id}").json()
        if state["end"]:
            return state | state["end"]
        time.sleep(0.02)
    raise AssertionError(f"{run_id} did not end: {state}")


# what it answers


def test_cases_and_tools_are_listed(api: TestClient) -> None:
    cases = api.get("/api/test-cases").json()
    assert [case["case_id"] for case in cases] == [f"case-{n:03d}" for n in range(1, 6)]
    for url in (cases[0]["template_url"], *cases[0]["avatar_urls"].values()):
        assert api.get(url).headers["content-type"] == "image/png"
    tools = {tool["tool_id"]: tool for tool in api.get("/api/tools").json()}
    assert tools["sim_paint"]["available"] is True
    closed = tools["sim_closed"]
    assert (closed["available"], closed["reason"]) == (False, "SIM_KEY is not set")


def test_a_run_is_started_and_listed(api: TestClient) -> None:
    run = until_ended(api, begin(api, FAILING))
    assert run["status"] == "finished"
    assert [(i["status"], i["failure_kind"]) for i in run["items"]] == [("failed", "refused")]
    assert run["run_id"] in [line["run_id"] for line in api.get("/api/runs").json()]


def test_a_repeated_value_of_an_option_makes_one_contender(api: TestClient) -> None:
    options = {"sim_fail": {"note": ["a", "b", "a"]}}
    run = until_ended(api, begin(api, {**FAILING, "options": options}))
    assert [item["status"] for item in run["items"]] == ["failed", "failed"]


def test_runs_beyond_the_limit_are_refused_and_those_that_wait_are_cancelled_at_once(
    api: TestClient, jobs: Jobs
) -> None:
    def cancel(run_id: str) -> None:
        assert api.post(f"/api/run/{run_id}/cancel").json()["run_id"] == run_id
        run = until_ended(api, run_id)
        assert run["status"] == jobs.store.run(run_id).ending == "cancelled"
        assert [item["failure_kind"] for item in run["items"]] == ["cancelled"]

    runs = [begin(api, ENDLESS) for _ in range(MAX_WAITING)]
    assert is_problem(api.post("/api/run", json=ENDLESS), 429)
    cancel(runs[-1])  # the first ones still work
    assert api.post(f"/api/run/{runs[-1]}/resume").status_code == 202
    for run_id in reversed(runs):
        cancel(run_id)
    assert is_problem(api.post(f"/api/run/{runs[0]}/cancel"), 409)


def test_stars_count_once_and_are_taken_back(api: TestClient, jobs: Jobs) -> None:
    items = jobs.store.items(RUN)
    ask = {"run_item_id": items[0].item_id, "rater": "ada"}
    assert api.post("/api/rate", json={**ask, "stars": 4}).json()["changed"] is True
    again = api.post("/api/rate", json={**ask, "stars": 4}).json()
    assert (again["changed"], again["mean_stars"], again["raters"]) == (False, 4.0, 1)
    taken = api.post("/api/rate", json={**ask, "stars": None}).json()
    assert (taken["changed"], taken["mean_stars"], taken["raters"]) == (True, None, 0)
    without = next(item.item_id for item in items if not item.image)
    assert is_problem(api.post("/api/rate", json={"run_item_id": without, "stars": 3}), 409)


def test_a_picture_is_found_by_its_content_without_its_tool(api: TestClient, jobs: Jobs) -> None:
    item = jobs.store.items(RUN)[0]
    path = f"/api/pictures/{item.image_sha256}"
    found = api.get(path)
    assert found.headers["content-type"] == "image/jpeg"
    assert item.tool_id.encode() not in found.content
    assert api.get(path, headers={"if-none-match": found.headers["etag"]}).status_code == 304
    assert api.get(f"{PICTURE}?width=320").headers["content-type"] == "image/jpeg"
    for width in ("7", "x"):
        assert is_problem(api.get(f"{PICTURE}?width={width}"), 422)


def test_a_damaged_picture_is_refused_without_its_tool(tmp_path: Path) -> None:
    jobs = Jobs(app_room.make_project(tmp_path, cases=1))
    app_room.make_run(jobs.store, tmp_path, run_id=RUN, cases=1)
    [item] = [item for item in jobs.store.items(RUN) if item.image]
    (jobs.runs_folder / item.image).write_bytes(b"no image")
    answer = client(jobs).get(f"/api/pictures/{item.image_sha256}")
    assert is_problem(answer, 409)
    assert item.tool_id not in answer.text
    assert is_problem(client(jobs).get(PICTURE), 409)
    jobs.store.close()


def test_an_image_is_served_as_what_it_is_whatever_its_suffix(tmp_path: Path) -> None:
    folder = app_room.make_project(tmp_path, cases=1) / "cases" / "case-001"
    (folder / "template.png").rename(folder / "template.jfif")
    text = (folder / CASE_FILE).read_text().replace("template.png", "template.jfif")
    (folder / CASE_FILE).write_text(text)
    answer = client(Jobs(tmp_path)).get("/api/test-cases/case-001/template")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "image/png"


def test_the_report_needs_nothing_from_elsewhere(api: TestClient) -> None:
    report = api.get(f"/api/report/{RUN}")
    assert f"report_{RUN}.html" in report.headers["content-disposition"]
    assert "<script>" not in report.text


# following


def test_a_follower_that_comes_back_loses_nothing(api: TestClient) -> None:
    run_id = begin(api, {**FAILING, "case_ids": ["case-001", "case-002", "case-003"]})
    until_ended(api, run_id)
    with api.websocket_connect(f"/api/run/{run_id}?after=0") as socket:
        last = socket.receive_json()["sequence"]
    for after in (last - 6, last - 1, last):
        with api.websocket_connect(f"/api/run/{run_id}?after={after}") as socket:
            reported = [socket.receive_json()["sequence"] for _ in range(last - after)]
            with pytest.raises(WebSocketDisconnect):  # the server closes after the last event
                socket.receive_json()
        assert reported == list(range(after + 1, last + 1))


def test_a_run_of_an_earlier_process_is_reported_from_the_store(api: TestClient) -> None:
    with api.websocket_connect(f"/api/run/{RUN}?after=5") as socket:
        state = socket.receive_json()
    assert len(state["items"]) == 6
    assert state["end"]["status"] == "finished"


def test_no_follower_of_many_loses_or_reorders_an_event() -> None:
    async def follow_all() -> list[list[int]]:
        log = EventLog("r")

        async def follow() -> list[int]:
            return [event["sequence"] async for event in log.follow()]

        waiting = [asyncio.create_task(follow()) for _ in range(40)]
        for number in range(1000):
            log.publish({"type": "update", "run_item_id": number % 100 + 1, "status": str(number)})
            if number % 7 == 0:
                await asyncio.sleep(0)
        log.close("finished")
        return await asyncio.gather(*waiting)

    for reported in asyncio.run(follow_all()):
        assert reported == list(range(reported[0], reported[-1] + 1))


def test_a_run_of_another_process_is_followed_through_the_store(project: Path) -> None:
    run_id = "2026-01-03"

    async def follow() -> list[dict[str, Any]]:
        jobs = Jobs(project)
        case, tool = jobs.cases()[0], jobs.tools()["sim_paint"]
        facts = [{"case_id": case.case_id, "folder": str(case.folder), "digest": case.digest}]
        jobs.store.create_run(run_id, f"{run_id}T00:00", facts, make_contenders([tool], {}))
        with lock_of(jobs.runs_folder, run_id):
            stream = jobs.follow(run_id)
            events = [await anext(stream)]
            assert jobs.status(jobs.store.run(run_id)) == ("running", "")
            [item] = jobs.store.items(run_id)
            jobs.store.set_items([(item.item_id, {"status": "failed"})])
            events.append(await anext(stream))
        jobs.store.set_run(run_id, ending="finished")
        events += [event async for event in stream]
        jobs.store.close()
        return events

    state, *events = asyncio.run(follow())
    assert [item["status"] for item in state["items"]] == ["queued"]
    assert [event["status"] for event in events] == ["failed", "finished"]


def test_questions_at_the_same_time_do_not_take_an_ended_run_for_one_under_way(jobs: Jobs) -> None:
    with lock_of(jobs.runs_folder, RUN):
        assert jobs.status(jobs.store.run(RUN)) == ("finished", "")  # the lock does not matter
    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(lambda _: is_locked(jobs.runs_folder, RUN), range(400)))


# restarts


def test_a_server_resumes_its_own_runs_and_says_why_where_it_cannot(
    project: Path, jobs: Jobs, tmp_path: Path
) -> None:
    cases = [{"case_id": "gone", "title": "", "folder": str(tmp_path / "gone"), "digest": "0"}]
    reasons = {"2026-01-02": "gone", "2026-01-04": "its process ended"}  # ours, another's
    for run_id, reason in reasons.items():
        contenders = [Contender(tool_id="sim_fail")]
        ours = reason == "gone"
        jobs.store.create_run(run_id, f"{run_id}T00:00", cases, contenders, server=ours)
    other = Jobs(project)
    other.resume_own()
    for run_id, reason in reasons.items():
        run = until_ended(client(other), run_id)
        assert run["status"] == "interrupted"
        assert reason in run["reason"]
        jobs.store.set_run(run_id, ending="cancelled")
    other.store.close()


def test_a_case_that_has_changed_is_read_again(tmp_path: Path) -> None:
    folder = app_room.make_project(tmp_path, cases=1) / "cases" / "case-001"
    jobs = Jobs(tmp_path)
    digest = jobs.cases()[0].digest
    (folder / "template.png").write_bytes((folder / "avatar_one.png").read_bytes())
    assert jobs.cases()[0].digest != digest
    (folder / "template.png").unlink()
    assert is_problem(client(jobs).get("/api/test-cases"), 409)
    assert is_problem(client(jobs).get("/api/test-cases/case-001/template"), 409)


CASE = {"case_id": "mine", "title": "My case", "consent": True, "licence": "mine",
        "regions": [{"left": 179, "top": 83, "width": 88, "height": 88}]}  # fmt: skip


@pytest.mark.slow
def test_a_case_is_created_from_photographs_and_listed_at_once(root: Path, tmp_path: Path) -> None:
    app_room.make_project(tmp_path, cases=1)
    api = client(Jobs(tmp_path))
    folder = root / "cases" / "astronaut-officer"
    template, avatar, many = (
        path.read_bytes()
        for path in (folder / "template.jpg", folder / "avatar_officer.jpg",
                     root / "cases/window-four-avatars/template.jpg")
    )  # fmt: skip

    def create(case: dict[str, Any] | str, *avatars: bytes) -> Any:
        files = [("template", ("t.jpg", template)), *(("avatars", ("a.jpg", a)) for a in avatars)]
        content = case if isinstance(case, str) else json.dumps(CASE | case)
        return api.post("/api/test-cases", data={"case": content}, files=files)

    answer = create({}, avatar)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    assert (made["case_id"], made["private"], made["consent"]) == ("mine", True, True)
    assert made in api.get("/api/test-cases").json()
    assert api.get(made["avatar_urls"]["person-1"]).status_code == 200
    for case, *avatars in (
        ({}, avatar),  # the name is taken
        ({"case_id": "other"}, b"no image"),
        ({"case_id": "other"}, many),  # several faces
        ({"case_id": "other"}, avatar, avatar),  # for one region
        ({"case_id": "../x"}, avatar),
        ("no JSON", avatar),
    ):
        assert is_problem(create(case, *avatars), 422)


# what it refuses


@pytest.mark.parametrize(
    "path",
    [
        f"/runs/{RUN}/sim_paint/case-001.json",
        f"/runs/{RUN}/sim_paint/link.png",
        f"/runs/{RUN}/.lock/case-001.png",
        "/api/run/2000-01-01",
        "/api/report/2000-01-01",
        "/api/test-cases/case-001/nobody",
        f"/api/pictures/{'0' * 64}",
    ],
)
def test_what_is_not_offered_is_not_found(api: TestClient, jobs: Jobs, path: str) -> None:
    link = jobs.runs_folder / RUN / "sim_paint" / "link.png"
    if not link.exists():
        link.symlink_to(jobs.root / "params.yaml")
    (link.parent / "case-001.json").write_text("{}", encoding="utf-8")
    answer = api.get(path)
    assert is_problem(answer, 404, 422)
    assert b"datasets" not in answer.content


RATE: dict[str, Any] = {"run_item_id": 1, "stars": 3}


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        *[("rate", {**RATE, "run_item_id": n}, 422) for n in (0, 2**64, 1.5, True, "1", None)],
        *[("rate", {**RATE, "stars": stars}, 422) for stars in (0, 6, 2.5, True, "5")],
        ("rate", b'{"run_item_id": 1, "stars": NaN}', 422),
        ("rate", b'{"run_item_id"', 422),
        ("rate", {**RATE, "rater": "=cmd()"}, 422),
        ("rate", {**RATE, "run_item_id": 999}, 404),
        ("run", {**FAILING, "case_ids": ["case-001"] * 501}, 422),
        ("run", {**FAILING, "case_ids": ["../../etc"]}, 422),
        ("run", {**FAILING, "case_ids": ["no-such"]}, 404),
        ("run", {**FAILING, "options": {"sim_paint": {}}}, 404),
        ("run", {**FAILING, "tool_ids": ["control_blurred"],
                 "options": {"control_blurred": {"stength": 1}}}, 422),
        ("run", b"x" * (MAX_BODY + 1), 413),
        ("run", [b"x" * 10_000] * 20, 413),
        ("tools", {}, 405),
    ],
)  # fmt: skip
def test_a_body_that_does_not_fit_is_refused(
    api: TestClient, path: str, body: Any, status: int
) -> None:
    sent = {"json": body} if isinstance(body, dict) else {"content": body}
    assert is_problem(api.post(f"/api/{path}", **sent), status)


# who may ask


def bearer(token: str) -> dict[str, bytes]:
    return {"authorization": f"Bearer {token}".encode()}


def denied(api: TestClient, path: str, **headers: Any) -> int:
    """The status with which a WebSocket is refused."""
    with pytest.raises(WebSocketDenialResponse) as refused, api.websocket_connect(path, **headers):
        pass
    return refused.value.status_code


def test_our_own_pages_may_ask(api: TestClient) -> None:
    opened = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}
    assert api.get(PICTURE, headers={**opened, "sec-fetch-dest": "document"}).status_code == 200
    for name in ("127.0.0.1:8000", "localhost:8000", "[::1]:8000"):
        headers = {"host": name, "origin": f"http://{name}", "sec-fetch-site": "same-origin"}
        assert api.get("/api/runs", headers=headers).status_code == 200


def test_another_machine_needs_a_token(jobs: Jobs) -> None:
    for peer in ("192.0.2.7", "elsewhere"):
        assert is_problem(client(jobs, peer=peer).get("/api/runs"), 403)
    away = client(jobs, Access(frozenset({"127.0.0.1"}), TOKEN), peer="192.0.2.7")
    assert is_problem(away.get("/api/runs"), 401)
    for wrong in ("", "x", TOKEN[:-1], TOKEN + "x", "\u202e"):
        assert away.get("/api/runs", headers=bearer(wrong)).status_code == 401
    assert away.get("/api/runs", headers=bearer(TOKEN)).status_code == 200
    assert denied(away, f"/api/run/{RUN}") == 401
    with away.websocket_connect(f"/api/run/{RUN}", headers=bearer(TOKEN)) as socket:
        assert socket.receive_json()["type"] == "state"
    assert denied(away, "/api/run/2000-01-01", headers=bearer(TOKEN)) == 404


def test_a_token_in_the_address_becomes_a_cookie(jobs: Jobs) -> None:
    away = client(jobs, Access(token=TOKEN))
    opened = away.get(f"{HERE}//evil.example/x?token={TOKEN}&run=1", follow_redirects=False)
    assert opened.status_code == 303
    assert opened.headers["location"] == "/evil.example/x?run=1"
    cookie = opened.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    away.cookies.set("genlab_token", TOKEN)
    assert away.get("/api/runs").status_code == 200
    foreign = away.get("/?token=somebody-elses-token", follow_redirects=False)
    assert "set-cookie" not in foreign.headers
    assert foreign.status_code == 404  # of this application; it is handed on


def test_hosts_and_a_token_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENLAB_HOSTS", "Lab.example, ,other")
    monkeypatch.setenv("GENLAB_TOKEN", TOKEN)
    assert Access.from_environment() == Access(frozenset({"lab.example", "other"}), TOKEN)
    monkeypatch.setenv("GENLAB_TOKEN", "short")
    with pytest.raises(GenlabError, match="GENLAB_TOKEN"):
        Access.from_environment()
    monkeypatch.setenv("GENLAB_TOKEN", "")
    monkeypatch.setenv("GENLAB_RATER_TOKEN", TOKEN)
    with pytest.raises(GenlabError, match="needs GENLAB_TOKEN"):
        Access.from_environment()


def test_a_token_of_raters_opens_rating_alone(jobs: Jobs) -> None:
    rater = "a-token-for-raters-alone"
    api = client(jobs, Access(token=TOKEN, rater_token=rater))
    headers = bearer(rater)
    item = jobs.store.items(RUN)[0]
    rating = {"run_item_id": item.item_id, "stars": 4, "blind": True}
    given = api.post("/api/rate", json=rating, headers=headers).json()
    assert given["rater"].startswith("guest-")
    for path in (f"/api/pictures/{item.image_sha256}", "/api/test-cases/case-001/template"):
        assert api.get(path, headers=headers).status_code == 200
    for path in ("/api/runs", "/api/test-cases", "/api/tools", PICTURE, f"/api/report/{RUN}"):
        assert is_problem(api.get(path, headers=headers), 403)
    assert is_problem(api.post("/api/run", json=FAILING, headers=headers), 403)
    for method in ("PUT", "POST", "DELETE"):
        answer = api.request(method, "/_stcore/upload_file/session/file", headers=headers)
        assert is_problem(answer, 403)
    assert api.get("/_stcore/health", headers=headers).status_code == 404  # it is let in
    assert api.get("/benchmark", headers=headers).status_code == 403
    assert denied(api, f"/api/run/{RUN}", headers=headers) == 403


def test_every_answer_forbids_guessing_and_framing(api: TestClient) -> None:
    for path in ("/api/tools", "/api/nothing", PICTURE):
        headers = api.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "SAMEORIGIN"
        assert headers["content-security-policy"].startswith("default-src 'none'")
