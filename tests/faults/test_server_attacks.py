"""Attacks on the server: strangers, paths, bodies, SQL and markup in every field.

Each attack is a request as an attacker would send it, over a plain socket so that no client repairs
it first. It succeeds where its status lets it through, where a secret of the disk is in the answer,
where markup comes back unescaped in a page, where the store has changed, or where the server no
longer answers.
"""

import http.client
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

import pytest
from app_room import Server, make_project, make_run, serving

from genlab.benchmark.store.repository import Store

pytestmark = pytest.mark.e2e
RUN = "2026-01-01"
EVIL = "evil.example"
SCRIPT = "<script>document.title='owned'</script>"
SQL = "'; DROP TABLE human_scores; --"
SECRET = b"datasets:"  # params.yaml holds it, the store's first bytes are the other
OTHER_SECRET = b"SQLite format 3"
TYPE = {"content-type": "application/json"}
BEGIN = {"case_ids": ["case-001"], "tool_ids": ["sim_fail"]}
RATE = {"run_item_id": 1, "stars": 1}


@dataclass(frozen=True)
class Attack:
    """A request. through: statuses that mean it came through."""

    name: str
    path: str
    method: str = "GET"
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    through: tuple[int, ...] = (200, 202, 101)


def post(name: str, path: str, body: object, **headers: str) -> Attack:
    """A request with JSON, or with bytes as they are."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Attack(name, path, "POST", TYPE | headers, data)


def strangers() -> Iterator[Attack]:
    """Other sites, by their names and by what browsers say of them."""
    image = f"/runs/{RUN}/sim_paint/case-001.png"
    upgrade = {
        "connection": "Upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    origins = (f"http://{EVIL}", "null", "http://localhost:1", "http://127.0.0.1.evil.example")
    for origin in (*origins, "http://["):
        head = {"origin": origin}
        yield Attack(f"origin {origin} reads", "/api/runs", headers=head)
        yield post(f"origin {origin} runs", "/api/run", BEGIN, origin=origin)
        yield Attack(f"origin {origin} follows", f"/api/run/{RUN}", headers=head | upgrade)
    form = {"origin": f"http://{EVIL}", "content-type": "text/plain"}
    yield Attack("a form runs", "/api/run", "POST", form, json.dumps(BEGIN).encode())
    names = (EVIL, f"127.0.0.1.{EVIL}", f"{EVIL}:80", f"localhost@{EVIL}", "127.0.0.2.nip.io")
    for host in (*names, "[", ""):
        yield Attack(f"host {host} reads", "/api/runs", headers={"host": host})
        yield Attack(f"host {host} sees", image, headers={"host": host})
    yield post("a foreign host rates", "/api/rate", RATE, host=EVIL)
    for name in ("host", "origin"):
        value = EVIL if name == "host" else f"http://{EVIL}"
        head = {name: value} | upgrade
        yield Attack(f"a foreign {name} opens the pages", "/_stcore/stream", headers=head)
    for kind in ("image", "iframe", "script"):
        mode = "navigate" if kind == "iframe" else "no-cors"
        head = {"sec-fetch-site": "cross-site", "sec-fetch-mode": mode, "sec-fetch-dest": kind}
        yield Attack(f"another site embeds as {kind}", image, headers=head)


def paths() -> Iterator[Attack]:
    """Ways out of the folders."""
    for step in ("..", "%2e%2e", "..%2f..", "%2e%2e%2f%2e%2e", "..%5c..", "....//"):
        yield Attack(f"runs, {step}", f"/runs/{step}/params.yaml")
        yield Attack(f"a picture, {step}", f"/runs/{RUN}/sim_paint/{step}/{step}/params.yaml")
    for path in (
        "/runs/genlab.sqlite3",
        "/runs/./genlab.sqlite3",
        "/runs//etc/passwd",
        f"/runs/{RUN}/sim_paint/case-001.png%00.yaml",
        "/api/test-cases/case-001/case.yaml",
        "/api/test-cases/..%2f..%2fruns/template",
        "/api/run/..%2f..",
        "/api/report/..%2f..%2fparams",
    ):
        yield Attack(path, path)


def bodies() -> Iterator[Attack]:
    """More than anybody needs."""
    yield post("a long body", "/api/run", BEGIN | {"case_ids": ["x" * (1 << 20)]})
    yield post("a body longer than it says", "/api/run", {}, **{"content-length": "-1"})
    yield post("a deep body", "/api/run", b"[" * 30_000 + b"]" * 30_000)
    number = b'{"run_item_id": ' + b"9" * 5000 + b', "stars": 1}'
    yield post("a long number", "/api/rate", number)
    yield post("many cases", "/api/run", BEGIN | {"case_ids": ["case-001"] * 5000})


def fields() -> Iterator[Attack]:
    """SQL and markup where a name belongs."""
    for text in (SQL, SCRIPT):
        quoted = quote(text, safe="")
        for path in (
            f"/api/run/{quoted}",
            f"/api/report/{quoted}",
            f"/api/test-cases/{quoted}/template",
            f"/api/pictures/{quoted}",
            f"/api/test-cases/case-001/template?width={quoted}",
        ):
            yield Attack(path, path)
        for where, value in (("case_ids", [text]), ("tool_ids", [text]), ("options", {text: {}})):
            yield post(f"{text[:8]} as {where}", "/api/run", BEGIN | {where: value})
        for where in ("run_item_id", "stars"):
            yield post(f"{text[:8]} as {where}", "/api/rate", RATE | {where: text})


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


def came_through(server: Server, attack: Attack) -> bool:
    """Whether an attack got what it wanted, or took the server down."""
    status, kind, answer = send(server, attack)
    leaked = SECRET in answer or OTHER_SECRET in answer or b"root:" in answer
    marked = kind.startswith("text/html") and SCRIPT.encode() in answer
    alive, *_ = send(server, Attack("alive", "/api/runs"))
    return status in attack.through or status >= 500 or leaked or marked or alive != 200


def send(server: Server, attack: Attack) -> tuple[int, str, bytes]:
    """Status, type and content of the answer to it as it is; (0, "", b""): the server hangs up."""
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
        content = b"" if answer.status == 101 else answer.read()
        return answer.status, answer.getheader("content-type", ""), content
    except (OSError, http.client.HTTPException):
        return 0, "", b""
    finally:
        connection.close()


def database(folder: Path) -> Path:
    return folder / "runs" / "genlab.sqlite3"


def count_rows(server: Server) -> list[int]:
    tables = ("runs", "run_items", "human_scores", "preferences", "migrations")
    with Store(database(server.folder)) as store:
        return [int(store.table(f"SELECT count(*) AS n FROM {table}").n[0]) for table in tables]
