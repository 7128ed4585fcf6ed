"""Questions to a language model behind an OpenAI-compatible endpoint, within a budget.

Whatever the endpoint does ends in an answer, in an `LLMFailure`, in a `BudgetSpentError` or, for
what a person has to correct (a key, an address, a model's name), in a GenlabError. Not protected:
an answer that is well formed and wrong, and a question that was charged but not answered before
the process was killed. The charges of requests that fail are estimated.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from pydantic import BaseModel

from genlab.core.errors import GenlabError
from genlab.core.params import RoleParams
from genlab.core.text import map_strings, printable
from genlab.llm.answers import MAX_TEXT, MalformedError, parse, read_calls, without_thoughts
from genlab.llm.answers import ToolCall as ToolCall
from genlab.llm.client import Completion, Usage
from genlab.llm.endpoint import (
    NOTHING,
    Endpoint,
    Functions,
    Messages,
    Question,
    Role,
    Schema,
    find_rejected,
)
from genlab.llm.endpoint import Message as Message
from genlab.llm.errors import EndpointError
from genlab.llm.redaction import excerpt

RETRIES = 4  # of the openai client, after passing faults: half a second to four between them
REPAIRS = 2  # further questions after an answer that cannot be used
MAX_ECHO = 20_000  # characters of an unusable answer that are shown to the model again
BYTES_PER_TOKEN = 3  # for endpoints that do not count: on the safe side of the usual 4


@dataclass(frozen=True)
class Answer:
    """A usable answer; tokens, seconds and dollars are those of all its requests."""

    text: str
    parsed: BaseModel | None
    calls: tuple[ToolCall, ...]
    model: str
    tokens_in: int
    tokens_out: int
    seconds: float
    cost: float


class UnansweredError(Exception):
    """A question without an answer: the reason in one line, and what it cost all the same.

    spent: tokens_in, tokens_out, seconds and cost, as in `Answer`.
    """

    def __init__(self, reason: str, **spent: float) -> None:
        super().__init__(reason)
        self.reason, self.spent = reason, NOTHING | spent


class LLMFailure(UnansweredError):  # noqa: N818 (an outcome of a run, no bug)
    """The model or its endpoint failed, retries included; the run goes on without the answer."""


class BudgetSpentError(UnansweredError):
    """A limit of the run is reached: it ends, and no further question is asked."""


class Backend(Protocol):
    """Whatever answers questions."""

    def ask(
        self, role: Role, messages: Messages, *, schema: Schema = None, functions: Functions = ()
    ) -> Answer:
        """Answer. Raises `LLMFailure`, `BudgetSpentError` or, for what a person has to correct, a
        GenlabError."""
        ...


@dataclass
class Budget:
    """Limits of a run (0: none) and what it has spent; seconds are those of asking."""

    max_tokens: int = 0
    max_cost: float = 0.0
    max_seconds: float = 0.0
    tokens: int = 0
    cost: float = 0.0
    seconds: float = 0.0

    @property
    def seconds_left(self) -> float:
        """Seconds until the limit; infinity where there is none."""
        return max(0.0, self.max_seconds - self.seconds) if self.max_seconds else math.inf

    def add(self, spent: Mapping[str, Any]) -> None:
        """Count the tokens_in, tokens_out, seconds and cost of a request."""
        self.tokens += spent["tokens_in"] + spent["tokens_out"]
        self.cost += spent["cost"]
        self.seconds += spent["seconds"]

    def check(self) -> None:
        """Raise `BudgetSpentError` where a limit is reached; a run exceeds it by one request."""
        for name in ("tokens", "cost", "seconds"):
            spent, limit = getattr(self, name), getattr(self, f"max_{name}")
            if limit and spent >= limit:
                raise BudgetSpentError(f"the budget of {limit:g} {name} is spent")


class ChatBackend:
    """A model for each role behind OpenAI-compatible endpoints.

    budget: checked before each request. seed: sent to endpoints that know it, plus the number of
    the attempt. extra: the endpoint's own fields for requests with a schema. No temperature is
    sent: models that reason refuse it, and each model has its recommended default.
    """

    def __init__(
        self,
        roles: Mapping[Role, RoleParams],
        budget: Budget | None = None,
        *,
        seed: int | None = None,
        retries: int = RETRIES,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.budget = budget or Budget()
        self.endpoints = {role: Endpoint(role, each, retries) for role, each in roles.items()}
        self._seed, self._extra = seed, extra

    def ask(
        self, role: Role, messages: Messages, *, schema: Schema = None, functions: Functions = ()
    ) -> Answer:
        """Answer. Raises `LLMFailure`, `BudgetSpentError`, or a GenlabError for what a person has
        to correct."""
        endpoint = self.endpoints[role]
        question = Question(list(messages), schema, functions)
        try:
            return self._ask(endpoint, question)
        except EndpointError as error:
            fix = "" if endpoint.answered else endpoint.describe_fix(error)
            if fix:
                raise GenlabError(fix) from error
            raise LLMFailure(error.reason, **question.spent) from error
        except UnansweredError as error:
            raise type(error)(error.reason, **question.spent) from error

    def _ask(self, endpoint: Endpoint, question: Question) -> Answer:
        fault = ""
        while question.attempts <= REPAIRS:
            try:
                completion = self._complete(endpoint, question)
            except EndpointError as error:
                if error.kind not in ("invalid_answer", "timeout"):
                    raise
                fault = error.reason
                late = error.kind == "timeout"  # which is asked once more
                question.attempts += REPAIRS if late else 1
                continue
            if completion.refusal:
                raise LLMFailure(f"the model refused: {excerpt(completion.refusal)}")
            if completion.choices[0].finish_reason == "length":
                if endpoint.limit > endpoint.params.max_output_tokens:
                    fix = f"raise agent.{endpoint.role}.max_output_tokens"
                    raise LLMFailure(f"the answer was cut at {endpoint.limit} tokens; {fix}")
                endpoint.limit *= 2
                continue
            text = printable(without_thoughts(completion.text)).strip()
            calls = (
                read_calls(completion.choices[0].message.tool_calls) if question.functions else ()
            )
            try:
                if not calls and not 0 < len(text) <= MAX_TEXT:
                    raise MalformedError("it is longer than I can read" if text else "it is empty")
                parsed = parse(text, question.schema) if question.schema and not calls else None
                model = printable(completion.model or endpoint.model)
                return Answer(text, parsed, calls, model, **question.spent)
            except MalformedError as error:
                fault = f"the answer cannot be used: {error}"
                question.attempts += 1
                ask = f"That answer cannot be used: {error}. Answer again."
                said = [{"role": "assistant", "content": text[:MAX_ECHO]}] if text else []
                question.messages += [*said, {"role": "user", "content": ask}]
        raise LLMFailure(endpoint.client.redact(fault))

    def _complete(self, endpoint: Endpoint, question: Question) -> Completion:
        """A completion, asked again at once without what the endpoint rejects."""
        seed = None if self._seed is None else self._seed + question.attempts
        left_out = endpoint.left_out
        while True:
            self.budget.check()
            request = endpoint.write_request(question, seed, left_out)
            if question.schema and self._extra:
                request["extra_body"] = self._extra
            request = map_strings(request, endpoint.client.redact)
            try:
                completion = self._send(endpoint, request, question.spent)
            except EndpointError as error:
                self.budget.check()  # a wait for its end is no fault of the endpoint
                name = find_rejected(error, request)
                if not name:
                    raise
                left_out |= {name}
                continue
            endpoint.left_out, endpoint.answered = left_out, True
            return completion

    def _send(
        self, endpoint: Endpoint, request: dict[str, Any], total: dict[str, Any]
    ) -> Completion:
        """Send a request and add its spend to `total`: as the endpoint counts, or by estimate."""
        begin = time.monotonic()
        tokens_in, tokens_out = _estimate(json.dumps(request["messages"])), 0
        prices = endpoint.params
        try:
            seconds = min(prices.timeout, self.budget.seconds_left)
            completion = endpoint.client.chat_sync(request, seconds)
            tokens_out = _estimate(completion.text)
            if isinstance(usage := completion.usage, Usage):
                tokens_in, tokens_out = usage.prompt_tokens, usage.completion_tokens
            return completion
        except EndpointError as error:
            tokens_in *= error.charged
            raise
        finally:
            cost = (tokens_in * prices.price_in + tokens_out * prices.price_out) / 1e6
            counts = (tokens_in, tokens_out, time.monotonic() - begin, cost)
            spent = dict(zip(NOTHING, counts, strict=True))
            self.budget.add(spent)
            total |= {name: total[name] + spent[name] for name in NOTHING}


def _estimate(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
