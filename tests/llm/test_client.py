"""The client of OpenAI-compatible endpoints: answers, kinds of failures, secrets, time."""

import asyncio
import subprocess
import sys
import time

import pytest
from loopback import Reply, Server, html, payload, status
from refusals import refused

from genlab.llm.client import Client
from genlab.llm.transport import EndpointError, send_request

KEY = "test-key-of-nobody"
REQUEST = {"model": "m", "messages": [{"role": "user", "content": "?"}]}


@pytest.mark.parametrize(
    ("reply", "kind", "transient", "charged"),
    [
        (status(429, {"Retry-After": "7"}), "rate_limited", True, False),
        (status(429, code="insufficient_quota"), "quota", False, False),
        (status(401, message=f"wrong {KEY}"), "wrong_key", False, False),
        (status(403), "forbidden", False, False),
        (status(404), "not_found", False, False),
        (status(404, code="model_not_found"), "retired", False, False),
        (status(400, code="content_filter"), "refused", False, False),
        (status(400, param="seed", message="unknown 'seed'"), "rejected", False, False),
        (status(502), "unavailable", True, False),
        (html(), "invalid_answer", False, True),
        (payload({"choices": []}), "invalid_answer", False, True),
        (Reply(b"x" * 9_000_000), "invalid_answer", False, True),
        (Reply(b"x" * 1000, tear=True), "interrupted", True, True),
        (Reply(hang=True), "timeout", True, True),
        (Reply(b"x" * 1000, drip=0.05), "timeout", True, True),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_failure_has_its_kind(
    reply: Reply, kind: str, transient: bool, charged: bool
) -> None:
    begin = time.monotonic()
    with Server([reply]) as server, pytest.raises(EndpointError) as raised:
        asyncio.run(Client(server.url, KEY).chat(REQUEST, seconds=3.0))
    error = raised.value
    assert (error.kind, error.transient, error.charged) == (kind, transient, charged)
    assert KEY not in error.reason
    assert "\n" not in error.reason
    assert time.monotonic() - begin < 10
    if kind == "rate_limited":
        assert error.retry_after == 7
    if kind == "rejected":
        assert error.status == 400


def test_the_line_break_behind_a_key_is_not_sent_and_one_within_it_is_not_charged() -> None:
    with Server([html()]) as server:
        url = f"{server.url}/chat/completions"

        def send(key: str) -> None:
            headers = {"Authorization": f"Bearer {key}"}
            asyncio.run(send_request("POST", url, max_bytes=1000, headers=headers, json={}))

        send(f"{KEY}\n")
        assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
        with pytest.raises(EndpointError) as raised:
            send(f"{KEY}\nsecond line")
    error = raised.value
    assert (error.kind, error.transient, error.charged) == ("wrong_key", False, False)
    assert KEY not in error.reason
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("url", "key", "named"),
    [
        ("localhost:9", KEY, "base_url"),
        ("http://127.0.0.1:9/v1", "two words", "OPENAI_API_KEY"),
        ("http://127.0.0.1:9/v1", "schlüssel", "OPENAI_API_KEY"),
    ],
)
def test_a_wrong_address_or_key_is_one_line(url: str, key: str, named: str) -> None:
    with refused(named) as error:
        Client(url, key)
    assert key not in str(error.value)


def test_a_key_in_the_place_of_its_name_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    with refused() as error:
        Client("", key_name="sk-proj-abcDEF123456")
    assert "abcDEF" not in str(error.value)


def test_the_registry_is_imported_without_openai() -> None:
    code = "import sys, genlab.benchmark.plugins.registry; sys.exit('openai' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
