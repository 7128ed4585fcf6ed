"""Backends answer, fail or stop: whatever the endpoint does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

pytest.importorskip("openai", reason="the package openai is not installed")

import llm_server as llm
from llm_server import Server

from genlab.agent.llm import (
    MAX_BODY,
    MAX_TEXT,
    Budget,
    BudgetSpent,
    LLMFailure,
    MalformedError,
    Meter,
    OpenAIBackend,
    Patience,
    Price,
    Question,
    parse,
)
from genlab.core.errors import GenlabError

NOBODY = "http://127.0.0.1:9"  # a port on which nothing answers
KEY = "sk-test-0123456789abcdef"


class Plan(BaseModel):
    """A small schema that composes by construction."""

    blocks: int = Field(ge=1, le=4)
    lr: float = 0.1


class Open(BaseModel):
    """Free keys, as a tool's arguments have them."""

    arguments: dict[str, Any]


GOOD = {"blocks": 2, "lr": 0.5}
ASKED = Question("planning", [{"role": "user", "content": "Design a net."}], Plan, 64)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def waits() -> list[float]:
    return []


@pytest.fixture
def backend(waits: list[float]) -> Callable[..., OpenAIBackend]:
    def make(server: Server | str, **options: Any) -> OpenAIBackend:
        url = server if isinstance(server, str) else server.url
        options.setdefault("patience", Patience(timeout=5))
        models = {"planning": "big", "tools": "small"}
        return OpenAIBackend(models, base_url=url, api_key=KEY, sleep=waits.append, **options)

    return make


Make = Callable[..., OpenAIBackend]


def test_a_good_answer_comes_with_its_tokens(backend: Make) -> None:
    with Server([llm.good(GOOD)]) as server:
        answer = backend(server, seed=7).ask(ASKED)
    assert answer.parsed == Plan(**GOOD)
    assert (answer.tokens_in, answer.tokens_out, answer.attempts) == (11, 7, 1)
    body = server.requests[0].body
    assert (body["model"], body["seed"], body["temperature"]) == ("big", 7, 0.0)
    assert body["response_format"]["json_schema"]["strict"] is True
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


BAD = {
    **llm.BROKEN,
    "out of range": llm.good({"blocks": 9}),
    "not finite": llm.good('{"blocks": 1, "lr": NaN}'),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_answer_is_asked_again(backend: Make, bad: llm.Reply) -> None:
    with Server([bad, bad, llm.good(GOOD)]) as server:
        answer = backend(server).ask(ASKED)
    assert answer.parsed == Plan(**GOOD)
    assert answer.attempts == len(server.requests) == 3


HUGE = llm.huge(2 * MAX_BODY)
DRIPPING = llm.dripping(0.02)


@pytest.mark.parametrize(
    "bad",
    [llm.hang(), DRIPPING, replace(DRIPPING, status=500), HUGE, replace(HUGE, status=400)],
    ids=["hanging", "dripping", "dripping error", "huge", "huge error"],
)
def test_an_endpoint_does_not_hold_the_run(backend: Make, bad: llm.Reply) -> None:
    patience = Patience(timeout=5 if len(bad.body) > MAX_BODY else 0.2)
    with Server([bad, llm.good(GOOD)]) as server:
        answer = backend(server, patience=patience).ask(ASKED)
    assert answer.attempts == len(server.requests) == 2


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        '```json\n{"blocks": 2, "lr": 0.5,}\n```',
        'Sure, {as you like}: {"blocks": 2, "lr": 0.5} and so on {}',
        'He said "no,} and {"blocks": 2, "lr": 0.5,}',
        '<think>{"blocks": 1}?</think>{"blocks": 2, "lr": 0.5}',
        'First {"blocks": 77}, no: {"blocks": 2, "lr": 0.5}',
    ],
)
def test_json_is_found_in_what_surrounds_it(text: str) -> None:
    assert parse(text, Plan) == Plan(**GOOD)


@settings(max_examples=60)
@given(st.text(alphabet=st.sampled_from(list('{}[]",:\\`\n\t 01eE-.nNaflsu\ud800')), max_size=80))
def test_no_text_breaks_the_parser(text: str) -> None:
    with suppress(MalformedError):
        assert isinstance(parse(text, Plan), Plan)


@pytest.mark.parametrize("piece", ['{"a":', "<think>", '{"a":[1,', ",  "])
def test_a_hostile_answer_costs_seconds_at_most(piece: str) -> None:
    started = time.process_time()
    with pytest.raises(MalformedError):
        parse((piece * MAX_TEXT)[:MAX_TEXT], Plan)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("levels", [41, 400, 900, 5000])
def test_an_answer_that_nests_too_deeply_is_malformed(levels: int) -> None:
    with pytest.raises(MalformedError, match=r"deep|no JSON"):
        parse('{"arguments": ' + "[" * levels + "1" + "]" * levels + "}", Open)


def test_the_model_is_asked_again_with_its_fault(backend: Make) -> None:
    with Server([llm.good({"blocks": 9}), llm.good(GOOD)]) as server:
        backend(server).ask(ASKED)
    first, second = (request.body["messages"] for request in server.requests)
    assert second[: len(first)] == first
    assert second[-2] == {"role": "assistant", "content": '{"blocks": 9}'}
    assert "blocks" in second[-1]["content"]
    assert "less than or equal to 4" in second[-1]["content"]


def test_retries_back_off_and_are_bounded(backend: Make, waits: list[float]) -> None:
    with Server([llm.status(500)]) as server, pytest.raises(LLMFailure, match="HTTP 500"):
        backend(server).ask(ASKED)
    assert len(server.requests) == 6
    assert len(waits) == 5
    assert all(2**n <= wait <= 2**n + 1 for n, wait in enumerate(waits))


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "7"}, 7),
        ({"Retry-After": "99999"}, 60),
        ({"Retry-After": "inf"}, 60),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "-5"}, None),
        ({"Retry-After": "soon"}, None),
    ],
)
def test_retry_after_is_honoured_and_capped(
    backend: Make, waits: list[float], headers: dict[str, str], expected: float | None
) -> None:
    with Server([llm.status(429, headers), llm.good(GOOD)]) as server:
        backend(server).ask(ASKED)
    if expected is None:
        assert 1 <= waits[0] <= 2
    else:
        assert waits == [expected]


@pytest.mark.parametrize("reply", [llm.refusal(), llm.filtered()], ids=["refusal", "filter"])
def test_a_refusal_is_no_retry(backend: Make, reply: llm.Reply) -> None:
    with Server([reply]) as server, pytest.raises(LLMFailure, match=r"refused|filter"):
        backend(server).ask(ASKED)
    assert len(server.requests) == 1


@pytest.mark.parametrize("code", [400, 404, 422, 501])
def test_an_endpoint_without_schemas_is_asked_in_words_from_then_on(
    backend: Make, code: int
) -> None:
    with Server([llm.without_schema(llm.prose(GOOD), code)]) as server:
        asker = backend(server)
        assert asker.ask(ASKED).parsed == Plan(**GOOD)
        assert asker.ask(ASKED).parsed == Plan(**GOOD)
    assert [request.structured for request in server.requests] == [True, False, False]
    assert "JSON schema" in server.requests[1].body["messages"][0]["content"]


def test_a_model_that_names_its_limit_otherwise_is_understood(backend: Make) -> None:
    def reasoning(request: llm.Request) -> llm.Reply:
        if "max_tokens" in request.body:
            return llm.status(400, message="Use 'max_completion_tokens' instead.")
        for name in ("temperature", "seed"):
            if name in request.body:
                return llm.status(400, message=f"Unsupported value: '{name}'", param=name)
        return llm.good(GOOD)

    with Server(reasoning) as server:
        asker = backend(server, seed=1)
        asker.ask(ASKED)
        asker.ask(ASKED)
    assert len(server.requests) == 5
    assert server.requests[-1].body["max_completion_tokens"] == 64
    assert server.requests[-1].structured


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        (llm.status(401, message=f"Incorrect API key: {KEY}"), "OPENAI_API_KEY"),
        (llm.status(403), "OPENAI_API_KEY"),
        (llm.status(404), "'big'.*OPENAI_BASE_URL"),
        (llm.status(429, code="insufficient_quota"), "OPENAI_API_KEY"),
    ],
    ids=["401", "403", "404", "quota"],
)
def test_what_a_person_must_mend_is_one_line(backend: Make, reply: llm.Reply, word: str) -> None:
    with Server([reply]) as server, pytest.raises(GenlabError, match=word) as error:
        backend(server).ask(ASKED)
    assert "\n" not in str(error.value)
    assert KEY not in str(error.value)


def test_an_endpoint_that_is_not_there_is_one_line(backend: Make, waits: list[float]) -> None:
    with pytest.raises(GenlabError, match="OPENAI_BASE_URL"):
        backend(f"{NOBODY}/v1").ask(ASKED)
    assert len(waits) == 1


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        *(
            ("OPENAI_BASE_URL", url)
            for url in ("localhost:8000", "ftp://x", "http://", "http://h:p")
        ),
        ("OPENAI_API_KEY", ""),  # it is needed at OpenAI's own
        ("OPENAI_API_KEY", "schlüssel-geheim"),
    ],
)
def test_a_setting_that_cannot_work_is_one_line(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(GenlabError, match=variable) as error:
        OpenAIBackend({"planning": "m"})
    assert "\n" not in str(error.value)
    assert "geheim" not in str(error.value)


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(
    backend: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", NOBODY)
    with Server([llm.good(GOOD)]) as server:
        assert backend(server).ask(ASKED).attempts == 1


@pytest.mark.parametrize(
    ("budget", "word"),
    [(Budget(tokens=30), "tokens"), (Budget(cost=0.00005), "cost")],
    ids=["tokens", "cost"],
)
def test_budgets_are_checked_before_each_request(backend: Make, budget: Budget, word: str) -> None:
    meter = Meter(budget, {"planning": Price(1.0, 2.0)})  # 11 + 2 * 7 millionths a request
    with Server([llm.good(GOOD)]) as server:
        asker = backend(server, meter=meter)
        asker.ask(ASKED)
        asker.ask(ASKED)
        with pytest.raises(BudgetSpent, match=f"budget of {word} is spent"):
            asker.ask(ASKED)
    assert len(server.requests) == 2
    assert meter.tokens == 36
    assert meter.cost == pytest.approx(50e-6)


def test_a_cost_budget_without_prices_is_refused() -> None:
    with pytest.raises(GenlabError, match="prices"):
        Meter(Budget(cost=1.0))


@pytest.mark.parametrize("usage", [None, {}, (-5, 3), {"prompt_tokens": "many"}])
def test_tokens_are_estimated_where_the_endpoint_does_not_count(
    backend: Make, usage: object
) -> None:
    with Server([llm.good(GOOD, usage=usage)]) as server:
        answer = backend(server).ask(ASKED)
    assert answer.tokens_in > 5
    assert answer.tokens_out > 5


@pytest.mark.parametrize(
    "secret",
    [
        "sk-proj-abcDEF123456",
        "Bearer abc.def-123456",
        "https://user:pa55word@host/v1",
        "hf_abcdefghijklmnopqrstuvwxyz",
        "correct-horse-battery",
        KEY,
    ],
)
def test_no_secret_leaves_in_a_prompt(
    backend: Make, monkeypatch: pytest.MonkeyPatch, secret: str
) -> None:
    monkeypatch.setenv("OTHER_TOKEN", "correct-horse-battery")
    text = f"before {secret} after \ud800"
    with Server([llm.good("fine")]) as server:
        backend(server).ask(Question("tools", [{"role": "user", "content": text}]))
    sent = server.requests[0].prompt
    assert secret not in sent
    assert "[redacted]" in sent
    assert sent.startswith("before ")
    assert sent.endswith(" after ?")
