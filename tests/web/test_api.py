"""The API: what it answers, what it refuses, and that no run is lost or misreported."""

import asyncio
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import app_room
import pytest
from fastapi.testclient import TestClient
from refusals import refused
from small_benchmark import change_items
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.routing import Mount
from starlette.testclient import WebSocketDenialResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from genlab.benchmark.cases import CASE_FILE, Region
from genlab.benchmark.run.events import EventLog
from genlab.benchmark.run.runner import is_locked, lock_of
from genlab.benchmark.service import cases
from genlab.benchmark.service.jobs import MAX_RUNS, Jobs
from genlab.benchmark.store.schema import Contender
from genlab.web.api.app import make_api
from genlab.web.api.runs import follow
from genlab.web.images import make_image_app
from genlab.web.security import MAX_BODY, Access, Security

ORIGIN = "http://127.0.0.1:8000"
TOKEN = "a-token-that-is-long-enough"
RUN = "2026-01-01"
PICTURE = f"/runs/{RUN}/sim_paint/case-001.png"
FAILING = {"case_ids": ["case-001"], "tool_ids": ["sim_fail"]}
ENDLESS = {"case_ids": ["case-001"], "tool_ids": ["sim_paint"],
           "options": {"sim_paint": {"seconds": 60}}}  # fmt: skip


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Jobs]:
    """A project with hostile cases, an installed package of tools, and a finished run."""
    folder = app_room.make_project(tmp_path_factory.mktemp("project"), hostile=True)
    jobs = Jobs(folder)
    app_room.make_run(jobs.store, folder, run_id=RUN)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder / "package"))
        yield jobs
    jobs.store.close()


@pytest.fixture
def fresh_jobs(tmp_path: Path) -> Iterator[Jobs]:
    """A project of one case that a test may damage, with a finished run."""
    jobs = Jobs(app_room.make_project(tmp_path, cases=1))
    app_room.make_run(jobs.store, tmp_path, run_id=RUN)
    yield jobs
    jobs.store.close()


class BrowserClient(TestClient):
    """A client that names the server in Host as a browser does, for WebSockets, too."""

    def websocket_connect(self, url: str, **kwargs: Any) -> Any:
        headers = {"host": "127.0.0.1:8000", **kwargs.pop("headers", {})}
        return super().websocket_connect(url, headers=headers, **kwargs)


def client(jobs: Jobs, access: Access | None = None, peer: str = "127.0.0.1") -> TestClient:
    images = make_image_app(jobs.runs_folder)
    routes = [Mount("/api", app=make_api(jobs)), Mount("/runs", images)]
    app = Starlette(routes=routes, middleware=[Middleware(Security, access=access or Access())])
    return BrowserClient(app, ORIGIN, client=(peer, 50_000), raise_server_exceptions=False)


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


def begin(api: TestClient, request: dict[str, Any]) -> str:
    answer = api.post("/api/run", json=request)
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


def test_a_run_of_contenders_is_started_listed_and_reported(api: TestClient) -> None:
    options = {"sim_fail": {"note": ["a", "b", "a"]}}  # a repeated value makes one contender
    run = until_ended(api, begin(api, {**FAILING, "options": options}))
    assert run["status"] == "finished"
    ended = [(item["status"], item["failure_kind"]) for item in run["items"]]
    assert ended == [("failed", "refused")] * 2
    assert run["run_id"] in [line["run_id"] for line in api.get("/api/runs").json()]
    report = api.get(f"/api/report/{run['run_id']}")
    assert f"report_{run['run_id']}.html" in report.headers["content-disposition"]


def test_the_images_of_a_run_are_limited(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("genlab.benchmark.service.jobs.MAX_ITEMS", 0)
    assert is_problem(client(jobs).post("/api/run", json=ENDLESS), 422)


def test_runs_are_limited_and_waiting_ones_end_at_once(api: TestClient, jobs: Jobs) -> None:
    def cancel(run_id: str) -> None:
        assert api.post(f"/api/run/{run_id}/cancel").json()["run_id"] == run_id
        run = until_ended(api, run_id)
        assert run["status"] == jobs.store.run(run_id).ending == "cancelled"
        assert [item["failure_kind"] for item in run["items"]] == ["cancelled"]

    runs = [begin(api, ENDLESS) for _ in range(MAX_RUNS)]
    assert is_problem(api.post("/api/run", json=ENDLESS), 429)
    cancel(runs[-1])  # the first ones still work
    last = begin(api, ENDLESS)
    assert is_problem(api.post(f"/api/run/{runs[-1]}/resume"), 429)
    cancel(last)
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
    answer = api.get(path)
    assert answer.headers["content-type"] == "image/jpeg"
    assert item.tool_id.encode() not in answer.content
    assert api.get(path, headers={"if-none-match": answer.headers["etag"]}).status_code == 304
    assert api.get(f"{PICTURE}?width=320").headers["content-type"] == "image/jpeg"
    for width in ("7", "x"):
        assert is_problem(api.get(f"{PICTURE}?width={width}"), 422)


def test_a_picture_is_served_from_whichever_run_still_has_it(fresh_jobs: Jobs) -> None:
    [item] = [item for item in fresh_jobs.store.items(RUN) if item.image]
    app_room.make_run(fresh_jobs.store, fresh_jobs.root, run_id=f"{RUN}-2")  # the same images
    (fresh_jobs.runs_folder / item.image).unlink()
    assert client(fresh_jobs).get(f"/api/pictures/{item.image_sha256}").status_code == 200


def test_a_damaged_picture_is_refused_without_its_tool(fresh_jobs: Jobs) -> None:
    [item] = [item for item in fresh_jobs.store.items(RUN) if item.image]
    (fresh_jobs.runs_folder / item.image).write_bytes(b"no image")
    answer = client(fresh_jobs).get(f"/api/pictures/{item.image_sha256}")
    assert is_problem(answer, 409)
    assert item.tool_id not in answer.text
    assert is_problem(client(fresh_jobs).get(PICTURE), 409)


def test_a_case_that_changes_is_read_again_and_its_image_served_as_what_it_is(
    fresh_jobs: Jobs,
) -> None:
    [case] = fresh_jobs.cases()
    template = case.template.with_suffix(".jfif")
    text = case.folder / CASE_FILE
    template.write_bytes((case.folder / "avatar_one.png").read_bytes())
    text.write_text(text.read_text().replace("template.png", template.name))
    assert fresh_jobs.cases()[0].digest != case.digest
    served = client(fresh_jobs).get("/api/test-cases/case-001/template")
    assert (served.status_code, served.headers["content-type"]) == (200, "image/png")
    template.unlink()
    assert is_problem(client(fresh_jobs).get("/api/test-cases"), 409)
    assert is_problem(client(fresh_jobs).get("/api/test-cases/case-001/template"), 409)


# following


def test_a_follower_that_comes_late_gets_the_state(api: TestClient) -> None:
    run_id = begin(api, {**FAILING, "case_ids": ["case-001", "case-002", "case-003"]})
    until_ended(api, run_id)
    for followed, items in ((run_id, 3), (RUN, 6)):  # RUN is of an earlier process
        with api.websocket_connect(f"/api/run/{followed}") as socket:
            state = socket.receive_json()
            with pytest.raises(WebSocketDisconnect):  # the server closes after the last event
                socket.receive_json()
        assert (len(state["items"]), state["end"]["status"]) == (items, "finished")


def test_a_run_of_another_process_is_followed_through_the_store(jobs: Jobs) -> None:
    run_id = "2026-01-03"

    async def follow() -> list[dict[str, Any]]:
        cases = [jobs.cases()[0].run_record]
        contenders = [Contender(tool_id="sim_paint")]
        jobs.store.create_run(run_id, f"{run_id}T00:00", cases, contenders)
        lock = lock_of(jobs.runs_folder, run_id).acquire()
        async with jobs.watch(run_id) as log:
            stream = log.follow()
            events = [await anext(stream)]
            assert jobs.status(jobs.store.run(run_id)) == ("running", "")
            [item] = jobs.store.items(run_id)
            change_items(jobs.store, [(item.item_id, {"status": "failed"})])
            events.append(await anext(stream))
            lock.lock.release()
            jobs.store.set_run(run_id, ending="finished")
            return events + [event async for event in stream]

    state, *events = asyncio.run(follow())
    assert [item["status"] for item in state["items"]] == ["queued"]
    assert [event["status"] for event in events] == ["failed", "finished"]


def test_a_run_that_another_process_has_continued_is_as_the_store_says(jobs: Jobs) -> None:
    jobs._logs[RUN] = EventLog(RUN)
    jobs._logs[RUN].close("cancelled")
    assert until_ended(client(jobs), RUN)["status"] == jobs.store.run(RUN).ending == "finished"


def test_a_follower_that_leaves_is_noticed_though_no_event_comes(jobs: Jobs) -> None:
    messages = iter([{"type": "websocket.connect"}, {"type": "websocket.receive", "text": "hi"}])
    left = asyncio.Event()

    async def receive() -> dict[str, str]:
        if (message := next(messages, None)) is None:
            await left.wait()
        return message or {"type": "websocket.disconnect"}

    async def send(message: Any) -> None:
        if message["type"] == "websocket.send":
            left.set()

    async def leave() -> None:
        socket = WebSocket({"type": "websocket"}, receive, send)
        await asyncio.wait_for(follow(socket, jobs, jobs.store.run(RUN)), 10)

    jobs.store.set_run(RUN, ending="")
    with lock_of(jobs.runs_folder, RUN):  # another process executes it
        asyncio.run(leave())
    jobs.store.set_run(RUN, ending="finished")


def test_simultaneous_queries_do_not_report_an_ended_run_as_running(jobs: Jobs) -> None:
    with lock_of(jobs.runs_folder, RUN):
        assert jobs.status(jobs.store.run(RUN)) == ("finished", "")  # the lock does not matter
    with ThreadPoolExecutor(8) as pool:
        assert not any(pool.map(lambda _: is_locked(jobs.runs_folder, RUN), range(400)))


# restarts


def test_a_server_resumes_its_own_runs_and_says_why_where_it_cannot(jobs: Jobs) -> None:
    cases = [{"case_id": "gone", "folder": "gone"}]
    contenders = [Contender(tool_id="sim_fail")]
    reasons = {"2026-01-02": "gone", "2026-01-04": "its process ended"}  # ours, another's
    for run_id, reason in reasons.items():
        ours = reason == "gone"
        jobs.store.create_run(run_id, f"{run_id}T00:00", cases, contenders, server=ours)
    restarted = Jobs(jobs.root)
    restarted.resume_server_runs()
    for run_id, reason in reasons.items():
        run = until_ended(client(restarted), run_id)
        assert run["status"] == "interrupted"
        assert reason in run["reason"]
        fix = restarted.status(jobs.store.run(run_id))[1]
        assert fix.endswith(f"genlab benchmark run --resume {run_id}")
        jobs.store.set_run(run_id, ending="cancelled")
    restarted.store.close()


CASE = {"case_id": "mine", "title": "My case", "consent": True, "licence": "mine",
        "regions": [{"left": 179, "top": 83, "width": 88, "height": 88}]}  # fmt: skip


@pytest.mark.slow
def test_a_case_is_created_from_photographs_and_listed_at_once(
    root: Path, fresh_jobs: Jobs
) -> None:
    api = client(fresh_jobs)
    folder = root / "cases" / "astronaut-officer"
    template, avatar = (folder / f"{name}.jpg" for name in ("template", "avatar_officer"))
    many = root / "cases" / "window-four-avatars" / "template.jpg"

    def create(case: dict[str, Any] | str, *avatars: Path) -> Any:
        sent = [("template", template), *(("avatars", avatar) for avatar in avatars)]
        files = [(field, (path.name, path.read_bytes())) for field, path in sent]
        content = case if isinstance(case, str) else json.dumps(CASE | case)
        return api.post("/api/test-cases", data={"case": content}, files=files)

    answer = create({}, avatar)
    assert answer.status_code == 201, answer.text
    created = answer.json()
    assert (created["case_id"], created["private"], created["consent"]) == ("mine", True, True)
    assert created in api.get("/api/test-cases").json()
    assert api.get(created["avatar_urls"]["person-1"]).status_code == 200
    for case, *avatars in (
        ({}, avatar),  # the name is taken
        ({"case_id": "other"}, folder / CASE_FILE),  # no image
        ({"case_id": "other"}, many),  # several faces
        ({"case_id": "other"}, avatar, avatar),  # for one region
        ({"case_id": "../x"}, avatar),
        ("no JSON", avatar),
    ):
        assert is_problem(create(case, *avatars), 422)


# what it refuses


def test_what_is_not_offered_is_not_found(api: TestClient, jobs: Jobs) -> None:
    folder = jobs.runs_folder / RUN / "sim_paint"
    (folder / "link.png").symlink_to(jobs.root / "params.yaml")
    (folder / "case-001.json").write_text("{}", encoding="utf-8")
    for path in (
        f"/runs/{RUN}/sim_paint/case-001.json",
        f"/runs/{RUN}/sim_paint/link.png",
        f"/runs/{RUN}/.lock/case-001.png",
        "/api/run/2000-01-01",
        "/api/report/2000-01-01",
        "/api/test-cases/case-001/nobody",
        f"/api/pictures/{'0' * 64}",
    ):
        answer = api.get(path)
        assert is_problem(answer, 404, 422), path
        assert b"datasets" not in answer.content, path


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
def test_an_invalid_body_is_refused(api: TestClient, path: str, body: Any, status: int) -> None:
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
    opened = away.get(f"{ORIGIN}//evil.example/x?token={TOKEN}&run=1", follow_redirects=False)
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
    with refused("GENLAB_TOKEN"):
        Access.from_environment()
    monkeypatch.setenv("GENLAB_TOKEN", "")
    monkeypatch.setenv("GENLAB_RATER_TOKEN", TOKEN)
    with refused("GENLAB_TOKEN", "GENLAB_RATER_TOKEN"):
        Access.from_environment()


def test_a_script_without_a_name_is_one_guest_per_token(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    rater_token = "a-token-for-raters-alone"
    monkeypatch.setenv("GENLAB_TOKEN", TOKEN)
    monkeypatch.setenv("GENLAB_RATER_TOKEN", rater_token)
    item = jobs.store.items(RUN)[0]
    for token in (TOKEN, rater_token):
        for count in range(20):
            api = client(jobs, Access.from_environment())  # without the cookies of the last one
            rating = {"run_item_id": item.item_id, "stars": 1 + count % 5, "blind": True}
            stored = api.post("/api/rate", json=rating, headers=bearer(token)).json()
        assert token not in stored["rater"]
    assert (stored["raters"], stored["mean_stars"]) == (2, 5.0)


def test_a_token_of_raters_opens_rating_alone(jobs: Jobs) -> None:
    rater = "a-token-for-raters-alone"
    api = client(jobs, Access(token=TOKEN, rater_token=rater))
    headers = bearer(rater)
    item = jobs.store.items(RUN)[0]
    rating = {"run_item_id": item.item_id, "stars": 4, "blind": True}
    stored = api.post("/api/rate", json=rating, headers=headers).json()
    assert stored["rater"].startswith("guest-")
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


def test_a_face_at_the_lower_edge_stays_within_a_smaller_template() -> None:
    region = Region(left=0, top=102, width=150, height=1900)  # of 3000 × 2002 pixels
    assert cases._scale(region, 1024 / 3000, (1024, 683)).box == (0, 35, 51, 683)
