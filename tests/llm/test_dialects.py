"""Servers and chat templates differ in answers and requests, as real ones do."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime
from itertools import pairwise
from typing import Any

import pytest
import replies
from asking import ADD, ASKED, GOOD, NOBODY, Plan, endpoint
from loopback import Reply, Request, Server, payload, status
from pydantic import BaseModel
from refusals import refused

from genlab.llm.answers import parse
from genlab.llm.chat import LLMFailure

TEXT = json.dumps(GOOD)
HARMONY = "<|channel|>analysis<|message|>We need {JSON}.<|end|><|start|>assistant"
ARGUMENTS = {"a": "x = {}\n"}


def complete(**message: Any) -> Reply:
    """A completion with a message of any form."""
    completion = replies.completion(None)
    completion["choices"][0]["message"] = {"role": "assistant", **message}
    return payload(completion)


ANSWERS = {
    "a list of parts": complete(content=[{"type": "text", "text": TEXT}]),
    "all taken for thoughts": complete(content=None, reasoning_content=TEXT),
    "thoughts of OpenRouter": complete(content="", reasoning=TEXT),
    "channels": complete(content=f"{HARMONY}<|channel|>final<|message|>{TEXT}<|return|>"),
    "a closing fence alone": complete(content=f"{TEXT}\n```"),
    "an open thought": complete(content=f"Let me see.</think>{TEXT}"),
}


@pytest.mark.parametrize("reply", ANSWERS.values(), ids=ANSWERS)
def test_variants_of_an_answer_are_used(reply: Reply) -> None:
    with Server([reply]) as server:
        assert endpoint(server).ask(ASKED, schema=Plan).parsed == Plan(**GOOD)
    assert len(server.requests) == 1


def call(name: str, arguments: Any) -> Reply:
    function = {"name": name, "arguments": arguments}
    tool_call = {"id": "c", "type": "function", "function": function}
    return complete(content=None, tool_calls=[tool_call])


TAGGED = json.dumps({"name": "add", "arguments": ARGUMENTS})
TO_ADD = f"{HARMONY}<|channel|>commentary to=functions.add <|constrain|>json<|message|>"
CALLS = {
    "an object": call("add", ARGUMENTS),
    "an array": call("add", [ARGUMENTS]),
    "text": call("add", json.dumps(ARGUMENTS)),
    "a channel behind the name": call("add<|channel|>commentary", ARGUMENTS),
    "a space of names": call("functions.add", ARGUMENTS),
    "a tag": complete(content=f"<tool_call>{TAGGED}</tool_call>"),
    "channels": complete(content=f"{TO_ADD}{json.dumps(ARGUMENTS)}<|call|>"),
}


@pytest.mark.parametrize("reply", CALLS.values(), ids=CALLS)
def test_variants_of_a_call_are_used(reply: Reply) -> None:
    with Server([reply]) as server:
        (tool_call,) = endpoint(server).ask(ASKED, functions=[ADD]).calls
    assert (tool_call.name, tool_call.arguments, tool_call.error) == ("add", ARGUMENTS, "")


class Module(BaseModel):
    """A schema with code."""

    code: str


FENCED = "```python\nimport torch\n```"
CODE = {
    "in the field": json.dumps({"code": FENCED}),
    "closing alone": json.dumps({"code": "import torch\n```"}),
    "instead of JSON": f"Here it is:\n{FENCED}\nIt imports torch.",
}


@pytest.mark.parametrize("text", CODE.values(), ids=CODE)
def test_fenced_code_is_code(text: str) -> None:
    assert parse(text, Module).code == "import torch\n"


def test_a_server_that_ignores_a_schema_gets_it_in_words() -> None:
    with Server(replies.transformers_serve(lambda _: replies.prose(GOOD), "big")) as server:
        asker = endpoint(server)
        for _ in range(2):
            assert asker.ask(ASKED, schema=Plan).parsed == Plan(**GOOD)
    assert asker.ignored == {"response_format"}
    assert len(server.requests) == 3  # it is remembered
    assert all(request.structured for request in server.requests)


def test_prose_that_is_cut_had_no_schema() -> None:
    rambling = Reply(make=lambda request: replies.good("On. " * 9, finish="length", usage=None))
    with Server([rambling, replies.good(GOOD)]) as server:
        asker = endpoint(server, answered=False)
        assert asker.ask(ASKED, schema=Plan).parsed == Plan(**GOOD)
    assert "JSON schema" in server.requests[1].prompt
    with Server([rambling]) as server, refused("cut at 16000 tokens and has no JSON; raise"):
        endpoint(server, answered=False).ask(ASKED, schema=Plan)


LARGE = {**ADD, "function": {**ADD["function"], "description": "Add two numbers. " * 50}}


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_a_template_that_drops_tools_ends_a_run(finish: str) -> None:
    reply = replies.good("I would add them.", finish=finish, usage=(35, 300))
    with Server([reply]) as server, refused("(a prompt of 35 tokens); use a model"):
        endpoint(server, answered=False, max_output_tokens=300).ask(ASKED, functions=[LARGE])
    assert len(server.requests) == 1


def test_tools_that_fit_into_the_prompt_were_shown() -> None:
    with Server([replies.good("I would add them.", usage=(200, 5))]) as server:
        assert not endpoint(server, answered=False).ask(ASKED, functions=[LARGE]).calls


NAMES = {
    "vLLM": replies.vllm(lambda _: replies.good(GOOD), "big"),
    "transformers": replies.transformers_serve(lambda _: replies.good(GOOD), "big"),
}


@pytest.mark.parametrize("reply", NAMES.values(), ids=NAMES)
def test_a_wrong_name_is_asked_once(reply: Callable[[Request], Reply]) -> None:
    with Server(reply) as server, refused("model 'default' is not there"):
        endpoint(server, answered=False, model="").ask(ASKED, schema=Plan)
    assert len(server.requests) == 1


def refuse(
    message: str, is_wrong: Callable[[list[dict[str, Any]]], bool], code: int = 400
) -> Callable[[Request], Reply]:
    """A template that refuses some messages."""

    def reply(request: Request) -> Reply:
        wrong = is_wrong(request.body["messages"])
        return status(code, message=message) if wrong else replies.good(GOOD)

    return reply


def has_neighbours(messages: list[dict[str, Any]]) -> bool:
    roles = [message["role"] for message in messages]
    return any(first == second == "user" for first, second in pairwise(roles))


def has_long_id(messages: list[dict[str, Any]]) -> bool:
    ids = [message["tool_call_id"] for message in messages if message["role"] == "tool"]
    return any(len(name) != 9 or not name.isalnum() for name in ids)


TEMPLATES = {
    "Gemma 2": refuse(
        "Jinja Exception: System role not supported",
        lambda messages: messages[0]["role"] == "system",
        500,
    ),
    "Mistral Nemo": refuse(
        "Jinja Exception: Conversation roles must alternate user and assistant roles",
        has_neighbours,
    ),
    "Mistral 7B": refuse(
        "Tool call IDs should be alphanumeric strings with length 9!", has_long_id
    ),
    "Llama 3.1": refuse(
        f"{'x' * 4000} Jinja Exception: This model only supports single tool-calls at once!",
        lambda messages: any(len(message.get("tool_calls", ())) > 1 for message in messages),
        500,
    ),
}


@pytest.mark.parametrize("reply", TEMPLATES.values(), ids=TEMPLATES)
def test_templates_that_refuse_messages_are_served(reply: Callable[[Request], Reply]) -> None:
    function = {"name": "add", "arguments": "{}"}
    calls = [{"id": f"call_{n}", "type": "function", "function": function} for n in range(2)]
    messages = [
        {"role": "system", "content": "Answer."},
        *ASKED,
        {"role": "user", "content": "Now."},
        {"role": "assistant", "content": "", "tool_calls": calls},
        *({"role": "tool", "tool_call_id": f"call_{n}", "content": str(n)} for n in range(2)),
        {"role": "assistant", "content": "Both are known."},
        {"role": "user", "content": "Go on."},
    ]
    with Server(reply) as server:
        asker = endpoint(server, answered=False, retries=0)
        for _ in range(2):
            assert asker.ask(messages, schema=Plan).parsed == Plan(**GOOD)
    assert len(server.requests) <= 3  # it is remembered
    sent = json.dumps(server.requests[-1].body["messages"])
    for words in ("Answer.", "Design a net.", "Now.", "Both are known.", "Go on."):
        assert sent.count(words) == 1


def fault_of_a_provider(code: int | None) -> Reply:
    """An error of a service behind the endpoint, as OpenRouter words it."""
    return payload({"id": "gen-1", "error": {"message": "Upstream error", "code": code}})


PASSING = {
    "status": status(429, replies.AT_ONCE),
    "in the body": fault_of_a_provider(429),
    "server error": status(500),
}


@pytest.mark.parametrize("reply", PASSING.values(), ids=PASSING)
def test_a_passing_fault_is_waited_for_with_another_seed(reply: Reply) -> None:
    lines: list[str] = []
    with Server([reply, replies.good(GOOD)]) as server:
        asker = endpoint(server, answered=False, note=lines.append)
        assert asker.ask(ASKED, schema=Plan).parsed == Plan(**GOOD)
    first, second = (request.body["seed"] for request in server.requests)
    assert first != second
    assert len(lines) == 1
    assert "waiting" in lines[0]


def test_a_date_says_how_long_to_wait() -> None:
    late = format_datetime(datetime.now(timezone.utc) + timedelta(hours=1), usegmt=True)
    with Server([status(503, {"Retry-After": late})]) as server, pytest.raises(LLMFailure):
        endpoint(server, timeout=5.0, retries=4).ask(ASKED)
    assert len(server.requests) == 1  # an hour is more than the request may take


def test_waits_do_not_count_towards_the_limit_of_a_request() -> None:
    with Server([status(503), status(503), replies.prose(GOOD)]) as server:
        answer = endpoint(server, timeout=1.0, retries=4).ask(ASKED, schema=Plan)
    assert answer.parsed == Plan(**GOOD)  # after waits of half a second and of one


def test_the_first_fault_stays_in_the_reason() -> None:
    script = [status(500, replies.AT_ONCE, message="out of memory"), Reply(hang=True)]
    with Server(script) as server, pytest.raises(LLMFailure, match="out of memory"):
        endpoint(server, timeout=1.0).ask(ASKED)


SETUP: dict[str, tuple[Reply, str]] = {
    "redirect": (
        status(308, {"Location": "https://llm.example.org/v1/chat/completions"}),
        "set agent.planning.base_url to https://llm.example.org/v1",
    ),
    "error in the body": (fault_of_a_provider(401), "OPENAI_API_KEY"),
    "error without a code": (fault_of_a_provider(None), "Upstream error"),
    "unusable": (replies.good("I would rather not."), "JSON"),
    "refused": (replies.refusal(), "refused"),
    "rejected": (status(400, message="no"), "HTTP 400"),
}


@pytest.mark.parametrize(("reply", "words"), SETUP.values(), ids=SETUP)
def test_a_run_ends_where_the_first_answer_is_not_usable(reply: Reply, words: str) -> None:
    with Server([reply]) as server, refused(words):
        endpoint(server, answered=False, retries=0).ask(ASKED, schema=Plan)


def test_a_full_context_is_no_limit_of_the_model() -> None:
    reply = replies.good("{", finish="length", usage=(3900, 120))
    with Server([reply]) as server, pytest.raises(LLMFailure, match="context is full"):
        endpoint(server).ask(ASKED, schema=Plan)
    assert len(server.requests) == 1


PROXIES = {
    "SOCKS": ("ALL_PROXY", "socks5://user:secret@127.0.0.1:1080"),
    "another scheme": ("ALL_PROXY", "socks://127.0.0.1:1080/"),
    "down": ("HTTP_PROXY", NOBODY),
}


@pytest.mark.parametrize(("name", "value"), PROXIES.values(), ids=PROXIES)
def test_a_proxy_that_cannot_be_used_is_named(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("ALL_PROXY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)
    monkeypatch.setenv(name, value)
    with refused(name) as error:
        endpoint("http://example.test/v1", answered=False, retries=0).ask(ASKED)
    assert "secret" not in str(error.value)


def test_certificates_that_are_gone_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/cacert.pem")
    with refused("SSL_CERT_FILE=/nowhere/cacert.pem"):
        endpoint("https://example.test/v1").ask(ASKED)
