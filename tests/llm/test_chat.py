"""Every question ends in an answer or in an error of one line, whatever the endpoint does."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import replies
from asking import ADD, ASKED, GOOD, NOBODY, Plan, endpoint
from loopback import Reply, Request, Server, status
from refusals import refused
from replies import KEY

from genlab.llm.chat import Budget, BudgetSpentError, LLMFailure
from genlab.llm.client import MAX_BYTES


def test_a_good_answer_comes_with_its_tokens_and_cost() -> None:
    with Server([replies.good(GOOD)]) as server:
        answer = endpoint(server, price_in=1.0, price_out=2.0).ask(ASKED, schema=Plan)
    assert answer.parsed == Plan(**GOOD)
    assert (answer.tokens_in, answer.tokens_out) == (11, 7)
    assert answer.cost == pytest.approx(25e-6)
    body = server.requests[0].body
    assert (body["model"], body["seed"], body["max_tokens"]) == ("big", 7, 8000)
    assert "temperature" not in body
    assert body["response_format"]["json_schema"]["name"] == "Plan"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"


BAD = {
    **replies.BROKEN,
    "a call of nothing": replies.called("add", {}),
    "hanging": Reply(hang=True),
    "dripping error": Reply(replies.WHOLE, 500, drip=0.02),
    "huge": replies.good("x" * 2 * MAX_BYTES),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_a_bad_answer_is_asked_again(bad: Reply) -> None:
    with Server([bad, replies.good(GOOD)]) as server:
        answer = endpoint(server, timeout=2.0).ask(ASKED, schema=Plan)
    assert answer.parsed == Plan(**GOOD)
    assert len(server.requests) == 2


def test_the_model_is_asked_again_with_its_fault_twice_at_most() -> None:
    with Server([replies.good({"blocks": 9})]) as server, pytest.raises(LLMFailure) as failure:
        endpoint(server).ask(ASKED, schema=Plan)
    first, second, third = (request.body["messages"] for request in server.requests)
    assert second[:2] == [*first, {"role": "assistant", "content": '{"blocks": 9}'}]
    assert "less than or equal to 4" in second[2]["content"]
    assert third[:3] == second
    assert failure.value.spent["tokens_out"] == 21


@pytest.mark.parametrize(("limit", "counts"), [(8000, [8000] * 2), (2000, [2000, 4000, 4000])])
def test_a_model_that_reasons_gets_room_for_it(limit: int, counts: list[int]) -> None:
    answer = replies.openai(lambda request: replies.good(GOOD), thought=3000)
    with Server(answer) as server:
        asker = endpoint(server, max_output_tokens=limit)
        asker.left_out = frozenset({"max_tokens"})
        assert [asker.ask(ASKED, schema=Plan).parsed for _ in range(2)]
    assert [request.body["max_completion_tokens"] for request in server.requests] == counts


TOO_LONG = "This model's maximum context length is 8192 tokens, 5000 of yours are in the functions."
FAILURES: dict[str, tuple[Reply, str, int]] = {
    "hanging": (Reply(hang=True), "answer in time", 2),
    "cut again": (replies.BROKEN["cut off"], "cut at 16000 tokens", 2),
    "refusal": (replies.refusal(), "refused", 1),
    "filter": (replies.good("half an ans", finish="content_filter"), "filter", 1),
    "too long": (status(400, message=TOO_LONG), "maximum context length", 1),
}


@pytest.mark.parametrize(("reply", "words", "requests"), FAILURES.values(), ids=FAILURES)
def test_a_failure_costs_few_requests(reply: Reply, words: str, requests: int) -> None:
    seconds = 0.3 if reply.hang else 5.0
    with Server([reply]) as server, pytest.raises(LLMFailure, match=words) as end:
        endpoint(server, timeout=seconds, retries=4).ask(ASKED, schema=Plan, functions=[ADD])
    assert len(server.requests) == requests
    # What has no answer may have been read, and charged; what is rejected is not.
    assert (end.value.spent["tokens_in"] > 0) == (reply.status == 200)


def scripted(_: Request) -> Reply:
    return replies.prose(GOOD)


def refuse_seeds(request: Request) -> Reply:
    """An endpoint that does not name the parameter that it rejects."""
    return status(422, message="extra fields") if "seed" in request.body else scripted(request)


PROTOCOLS: dict[str, tuple[Callable[..., Reply], str, set[str]]] = {
    "OpenAI": (replies.openai(scripted), "gpt-5", {"max_tokens"}),
    "Ollama": (replies.ollama(scripted), "gpt-oss:20b", {"reasoning_effort"}),
    "vLLM": (replies.vllm(scripted), "openai/gpt-oss-20b", {"max_tokens", "max_completion_tokens"}),
    "llama.cpp": (replies.llama_cpp(scripted), "any", set()),
    "no schemas": (lambda _: replies.without_schema(replies.prose(GOOD)), "m", {"response_format"}),
    "unnamed": (refuse_seeds, "m", {"seed"}),
}


@pytest.mark.parametrize(("answer", "model", "lacks"), PROTOCOLS.values(), ids=PROTOCOLS)
def test_each_protocol_is_learnt_once(
    answer: Callable[..., Reply], model: str, lacks: set[str]
) -> None:
    with Server(answer) as server:
        asker = endpoint(server, model=model, reasoning_effort="low", retries=0)
        for _ in range(2):
            assert asker.ask(ASKED, schema=Plan).parsed == Plan(**GOOD)
    assert asker.left_out == lacks
    assert len(server.requests) == 2 + len(lacks)


@pytest.mark.parametrize(("arguments", "read"), [({"a": 1}, {"a": 1}), ("no JSON", {})])
def test_a_call_is_read_or_has_its_fault(arguments: Any, read: dict[str, int]) -> None:
    with Server([replies.called("add", arguments, id="")]) as server:
        (call,) = endpoint(server).ask(ASKED, functions=[ADD]).calls
    assert (call.id, call.name, call.arguments) == ("call_1", "add", read)
    assert bool(call.error) != bool(read)


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        (status(401, message=f"Incorrect API key: {KEY}"), "OPENAI_API_KEY"),
        (status(403), "OPENAI_API_KEY"),
        (status(404), "agent.planning.model"),
        (status(429, replies.AT_ONCE, code="insufficient_quota"), "OPENAI_API_KEY"),
    ],
    ids=["401", "403", "404", "quota"],
)
def test_what_a_person_must_correct_is_one_line(reply: Reply, word: str) -> None:
    with Server([reply]) as server, refused(word) as error:
        endpoint(server, answered=False).ask(ASKED)
    assert KEY not in str(error.value)


def test_settings_that_cannot_work_are_one_line() -> None:
    budget = Budget()
    with refused("planning.base_url"):
        endpoint(f"{NOBODY}/v1", budget, answered=False).ask(ASKED)
    assert budget.spent["tokens_in"] == 0  # nobody was reached, and nothing is charged
    with refused("model"):
        endpoint("https://api.openai.com/v1", model="")


def test_an_endpoint_that_has_answered_may_fail_later() -> None:
    with Server([replies.good("fine"), status(404)]) as server:
        asker = endpoint(server, answered=False)
        asker.ask(ASKED)
        with pytest.raises(LLMFailure):
            asker.ask(ASKED)


@pytest.mark.parametrize(
    ("budget", "word"),
    [(Budget(max_tokens=30), "30 tokens"), (Budget(max_cost=5e-5), "5e-05 cost")],
    ids=["tokens", "cost"],
)
def test_budgets_are_checked_before_each_request(budget: Budget, word: str) -> None:
    with Server([replies.good(GOOD)]) as server:
        asker = endpoint(server, budget, price_in=1.0, price_out=2.0)
        asker.ask(ASKED)
        asker.ask(ASKED)
        with pytest.raises(BudgetSpentError, match=word):
            asker.ask(ASKED)
    assert len(server.requests) == 2
    assert budget.spent["tokens_in"] + budget.spent["tokens_out"] == 36
    assert budget.spent["cost"] == pytest.approx(5e-5)


def test_a_budget_of_seconds_ends_a_wait() -> None:
    with Server([Reply(hang=True)]) as server, pytest.raises(BudgetSpentError):
        endpoint(server, Budget(max_seconds=0.5)).ask(ASKED)


@pytest.mark.parametrize("usage", [None, {}, (-5, 3), {"prompt_tokens": "many"}])
def test_tokens_are_estimated_where_the_endpoint_does_not_count(usage: object) -> None:
    with Server([replies.good(GOOD, usage=usage)]) as server:
        answer = endpoint(server).ask(ASKED)
    assert answer.tokens_in > 5
    assert answer.tokens_out > 5


def test_neither_secrets_nor_escapes_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER_TOKEN", "correct-horse-battery")
    secrets = ["sk-proj-abcDEF123456", "Bearer abc.def-123456", "correct-horse-battery", KEY]
    secrets += ["alice:wonder", "lonely-token"]
    urls = ["http://alice:wonder@host/v1", "https://lonely-token@host/?key=lonely-token&n=1"]
    with Server([replies.good("\x1b[2Jfine\u202e\ttoo\x00")]) as server:
        messages = [{"role": "user", "content": "\n".join([*secrets[:4], *urls, "after \ud800"])}]
        answer = endpoint(server).ask(messages)
    sent = json.dumps(server.requests[0].body)
    assert not [secret for secret in secrets if secret in sent]
    assert server.requests[0].prompt.endswith("after ?")
    assert answer.text == "fine\ttoo"


def test_a_proxy_of_the_environment_is_not_asked_for_loopback(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", NOBODY)
    with Server([replies.good("fine")]) as server:
        assert endpoint(server).ask(ASKED).text == "fine"
