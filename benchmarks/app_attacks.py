"""Attacks on the server: strangers, paths, bodies, SQL and markup in every field.

Each attack is a request as an attacker would send it, over a plain socket so that no client mends
it first, and what must not come of it. It succeeds where the answer is of a kind that lets it
through, where a secret of the disk is in it, where markup comes back unescaped in a page, where
the store has changed, or where the server no longer answers.
"""

from __future__ import annotations

import http.client
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from app_room import Server, chromium, is_fault, make_project, make_run, serving
from genlab.benchmark.store.repository import Store

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


def listed() -> list[Attack]:
    """All attacks that are a single request."""
    return [*strangers(), *paths(), *bodies(), *fields()]


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
    yield Attack("a form of another site runs", "/api/run", "POST",
                 {"origin": f"http://{EVIL}", "content-type": "text/plain"}, run)  # fmt: skip
    for host in (EVIL, f"127.0.0.1.{EVIL}", f"{EVIL}:80", f"localhost@{EVIL}", "127.0.0.2.nip.io"):
        head = {"host": host}
        yield Attack(f"host {host} reads", "/api/runs", headers=head)
        yield Attack(f"host {host} sees", image, headers=head)
    yield Attack("a foreign host rates", "/api/rate", "POST", {"host": EVIL} | TYPE, rate)
    yield Attack("a foreign host opens the pages' socket", "/_stcore/stream",
                 headers={"host": EVIL} | upgrade)  # fmt: skip
    yield Attack("a foreign origin opens the pages' socket", "/_stcore/stream",
                 headers={"origin": f"http://{EVIL}"} | upgrade)  # fmt: skip
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
    yield Attack("a body longer than it says", "/api/run", "POST",
                 TYPE | {"content-length": "-1"}, b"{}")  # fmt: skip
    yield Attack("a deep body", "/api/run", "POST", TYPE, b"[" * 30_000 + b"]" * 30_000)
    yield Attack("a long number", "/api/rate", "POST", TYPE,
                 b'{"run_item_id": ' + b"9" * 5000 + b', "stars": 1}')  # fmt: skip
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


def attacks() -> tuple[int, int]:
    """(attacks that succeeded, attacks made)."""
    folder = make_project(Path(tempfile.mkdtemp(prefix="genlab-app-")), cases=2, hostile=True)
    database = folder / "runs" / "genlab.sqlite3"
    with Store(database) as store:
        make_run(store, folder, run_id=RUN, cases=4)
    with serving(folder) as server:
        before = _state(database)
        won = []
        for attack in listed():
            if came_through(server, attack):
                won.append(attack.name)
        if _state(database) != before:
            won.append("the store has changed")
        made = len(listed()) + 1
        for name, succeeded in (*_kept_markup(server), *_in_a_browser(server)):
            made += 1
            if succeeded:
                won.append(name)
    for name in won:
        print(f"  came through: {name}")
    return len(won), made


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


def _state(database: Path) -> tuple[object, ...]:
    with Store(database) as store:
        counts = [
            store.rows(f"SELECT count(*) FROM {table}")[0][0]
            for table in ("runs", "run_items", "human_scores", "preferences", "migrations")
        ]
    return tuple(counts)


def _kept_markup(server: Server) -> Iterator[tuple[str, bool]]:
    """Markup that is lawfully kept (a rater, a reason, a title) must come out as text."""
    for rater in (SCRIPT, "<img src=x onerror=alert(1)>", SQL):
        body = json.dumps({"run_item_id": 1, "stars": 2, "rater": rater}).encode()
        send(server, Attack("rater", "/api/rate", "POST", TYPE, body))
    _, report = send(server, Attack("report", f"/api/report/{RUN}"))
    yield "a rater in the report", b"<img src=x" in report
    yield "a title in the report", SCRIPT.encode() in report
    yield "a reason in the report", b"<b>policy</b>" in report
    _, page = send(server, Attack("docs", "/api/docs?x=" + quote(SCRIPT)))
    yield "markup in the handbook", SCRIPT.encode() in page


def _in_a_browser(server: Server) -> Iterator[tuple[str, bool]]:
    """Hostile names on every page that shows them: nothing runs."""
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
            yield f"{address} in a browser", page.title() == "owned" or bool(ran)
            page.close()
