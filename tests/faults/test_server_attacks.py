"""Attacks on the server: strangers, paths, bodies, SQL and markup in every field.

Each attack is a request as an attacker would send it, over a plain socket so that no client repairs
it first. It succeeds where its status lets it through, where a secret of the disk is in the answer,
where markup comes back unescaped in a page, where the store has changed, or where the server no
longer answers.
"""

from __future__ import annotations

import http.client
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
from app_room import Server, chromium, is_fault, make_project, make_run, serving

from genlab.benchmark.store.repository import Store

pytestmark = pytest.mark.e2e
RUN = "2026-01-01"
EVIL = "evil.example"
SCRIPT = "<script>document.title='owned'</script>"
SQL = "'; DROP TABLE human_scores; --"
SECRET = b"datasets:"  # params.yaml holds it, the store's first bytes are the other
OTHER_SECRET = b"SQLite format 3"
TYPE = {"content-type": "application/json"}


@dataclass(frozen=True)
class Attack:
    """A request. through: statuses that mean it came through."""

    name: str
    path: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    through: tuple[int, ...] = (200, 202, 101)


def strangers() -> Iterator[Attack]:
    """Other sites, by their names and by what browsers say of them."""
    image = f"/runs/{RUN}/sim_paint/case-001.png"
    run = json.dumps({"case_ids": ["case-001"], "tool_ids": ["sim_fail"]}).encode()
    rate = json.dumps({"run_item_id": 1, "stars": 1}).encode()
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    for origin in (
        f"http://{EVIL}",
        "null",
        "http://localhost:1",
        "http://127.0.0.1.evil.example",
        "http://[",
    ):
        head = {"origin": origin}
        yield Attack(f"origin {origin} reads", "/api/runs", headers=head)
        yield Attack(f"origin {origin} runs", "/api/run", "POST", head | TYPE, run)
        yield Attack(f"origin {origin} follows", f"/api/run/{RUN}", headers=head | upgrade)
    yield Attack(
        "a form of another site runs",
        "/api/run",
        "POST",
        {"origin": f"http://{EVIL}", "content-type": "text/plain"},
        run,
    )
    for host in (EVIL, f"127.0.0.1.{EVIL}", f"{EVIL}:80", f"localhost@{EVIL}", "127.0.0.2.nip.io"):
        head = {"host": host}
        yield Attack(f"host {host} reads", "/api/runs", headers=head)
        yield Attack(f"host {host} sees", image, headers=head)
    yield Attack("a foreign host rates", "/api/rate", "POST", {"host": EVIL} | TYPE, rate)
    yield Attack(
        "a foreign host opens the pages' socket",
        "/_stcore/stream",
        headers={"host": EVIL} | upgrade,
    )
    yield Attack(
        "a foreign origin opens the pages' socket",
        "/_stcore/stream",
        headers={"origin": f"http://{EVIL}"} | upgrade,
    )
    for kind in ("image", "iframe", "script"):
        head = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}
        yield Attack(
            f"another site embeds as {kind}", image, headers=head | {"sec-fetch-dest": kind}
        )


def paths() -> Iterator[Attack]:
    """Ways out of the folders."""
    up = ["..", "%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e", "..%5c..", "....//"]
    for step in up:
        yield Attack(f"runs, {step}", f"/runs/{step}/params.yaml")
        yield Attack(f"a picture, {step}", f"/runs/{RUN}/sim_paint/{step}/{step}/params.yaml")
    yield Attack("the store", "/runs/genlab.sqlite3")
    yield Attack("the store by its tool", "/runs/./genlab.sqlite3")
    yield Attack("an absolute path", "/runs//etc/passwd")
    yield Attack("a byte of zero", f"/runs/{RUN}/sim_paint/case-001.png%00.yaml")
    yield Attack("a case's file", "/api/test-cases/case-001/case.yaml")
    yield Attack("a case outside", "/api/test-cases/..%2f..%2fruns/template")
    yield Attack("a run outside", "/api/run/..%2f..")
    yield Attack("a report outside", "/api/report/..%2f..%2fparams")


def bodies() -> Iterator[Attack]:
    """More than anybody needs."""
    long = b'{"case_ids": ["' + b"x" * (1 << 20) + b'"], "tool_ids": ["sim_fail"]}'
    yield Attack("a long body", "/api/run", "POST", TYPE, long)
    yield Attack(
        "a body longer than it says", "/api/run", "POST", TYPE | {"content-length": "-1"}, b"{}"
    )
    yield Attack("a deep body", "/api/run", "POST", TYPE, b"[" * 30_000 + b"]" * 30_000)
    yield Attack(
        "a long number",
        "/api/rate",
        "POST",
        TYPE,
        b'{"run_item_id": ' + b"9" * 5000 + b', "stars": 1}',
    )
    many = json.dumps({"case_ids": ["case-001"] * 5000, "tool_ids": ["sim_fail"]}).encode()
    yield Attack("many cases", "/api/run", "POST", TYPE, many)


def fields() -> Iterator[Attack]:
    """SQL and markup where a name belongs."""
    for text in (SQL, SCRIPT):
        part = quote(text, safe="")
        yield Attack(f"{text[:8]} as run", f"/api/run/{part}")
        yield Attack(f"{text[:8]} as report", f"/api/report/{part}")
        yield Attack(f"{text[:8]} as case", f"/api/test-cases/{part}/template")
        yield Attack(f"{text[:8]} as picture", f"/api/pictures/{part}")
        yield Attack(f"{text[:8]} as width", f"/api/test-cases/case-001/template?width={part}")
        for asked in (
            {"case_ids": [text], "tool_ids": ["sim_fail"]},
            {"case_ids": ["case-001"], "tool_ids": [text]},
            {"case_ids": ["case-001"], "tool_ids": ["sim_fail"], "options": {text: {}}},
        ):
            yield Attack(
                f"{text[:8]} in a run", "/api/run", "POST", TYPE, json.dumps(asked).encode()
            )
        for rated in ({"run_item_id": text, "stars": 1}, {"run_item_id": 1, "stars": text}):
            yield Attack(
                f"{text[:8]} as stars", "/api/rate", "POST", TYPE, json.dumps(rated).encode()
            )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = make_project(tmp_path_factory.mktemp("served"), cases=2, hostile=True)
    with Store(database(folder)) as store:
        make_run(store, folder, run_id=RUN, cases=4)
    with serving(folder) as served:
        yield served


def test_no_attack_comes_through(server: Server, record: Callable[..., None]) -> None:
    before = count_rows(server)
    attacks = [*strangers(), *paths(), *bodies(), *fields()]
    failed = [attack.name for attack in attacks if came_through(server, attack)]
    failed += ["the store has changed"] if count_rows(server) != before else []
    record("app.attacks", len(failed), n=len(attacks) + 1)
    assert failed == []


def test_markup_that_is_kept_comes_out_as_text(server: Server) -> None:
    for rater in (SCRIPT, "<img src=x onerror=alert(1)>", SQL):
        body = json.dumps({"run_item_id": 1, "stars": 2, "rater": rater}).encode()
        send(server, Attack("rater", "/api/rate", "POST", TYPE, body))
    _, report = send(server, Attack("report", f"/api/report/{RUN}"))
    for markup in (b"<img src=x", SCRIPT.encode(), b"<b>policy</b>"):
        assert markup not in report
    _, page = send(server, Attack("docs", "/api/docs?x=" + quote(SCRIPT)))
    assert SCRIPT.encode() not in page


@pytest.mark.usefixtures("only_full_size")
def test_nothing_runs_in_a_browser(server: Server, record: Callable[..., None]) -> None:
    pytest.importorskip("playwright.sync_api")
    if not any(map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))):
        pytest.skip("needs Chromium (Debian: apt-get install chromium)")
    outcomes = dict(open_hostile_addresses(server))
    failed = [address for address, succeeded in outcomes.items() if succeeded]
    record("app.attacks_in_a_browser", len(failed), n=len(outcomes))
    assert failed == []


def came_through(server: Server, attack: Attack) -> bool:
    """Whether an attack got what it wanted, or took the server down."""
    status, answer = send(server, attack)
    leaked = SECRET in answer or OTHER_SECRET in answer or b"root:" in answer
    alive, _ = send(server, Attack("alive", "/api/runs"))
    return status in attack.through or status >= 500 or leaked or alive != 200


def send(server: Server, attack: Attack) -> tuple[int, bytes]:
    """Send it as it is; (0, b"") where the server hangs up."""
    host = server.base.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=30)
    try:
        connection.putrequest(attack.method, attack.path, skip_host=True)
        head = {"host": host, "content-length": str(len(attack.body))} | attack.headers
        for name, value in head.items():
            connection.putheader(name, value)
        connection.endheaders(attack.body or None)
        answer = connection.getresponse()
        # A socket that was opened has no end: its status says enough.
        return answer.status, b"" if answer.status == 101 else answer.read()
    except (OSError, http.client.HTTPException):
        return 0, b""
    finally:
        connection.close()


def database(folder: Path) -> Path:
    return folder / "runs" / "genlab.sqlite3"


def count_rows(server: Server) -> list[int]:
    tables = ("runs", "run_items", "human_scores", "preferences", "migrations")
    with Store(database(server.folder)) as store:
        return [store.rows(f"SELECT count(*) FROM {table}")[0][0] for table in tables]


def open_hostile_addresses(server: Server) -> Iterator[tuple[str, bool]]:
    """Each page with hostile names in its address, and whether anything ran."""
    part = quote(SCRIPT)
    addresses = (
        "/benchmark",
        f"/benchmark?run={RUN}",
        f"/benchmark?run={RUN}&view=Compare",
        f"/benchmark?run={part}",
        f"/benchmark?run={RUN}&rater={part}&view={part}",
        f"/rate?rater={part}&of={RUN}",
        f"/rate?kind={part}&of={part}&rater=x",
    )
    with chromium() as browser:
        for address in addresses:
            page = browser.new_page()
            ran: list[str] = []
            page.on("dialog", lambda dialog, ran=ran: ran.append(dialog.message))
            page.on("console", lambda said, ran=ran: is_fault(said) and ran.append(said.text))
            page.goto(server.base + address, timeout=120_000)
            page.locator("h1").first.wait_for(timeout=120_000)
            page.wait_for_timeout(1500)
            yield address, page.title() == "owned" or bool(ran)
            page.close()
