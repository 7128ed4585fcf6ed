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
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic import BaseModel

from genlab.core.errors import GenlabError
from genlab.core.params import RoleParams
from genlab.core.text import map_strings, printable
from genlab.llm.answers import MAX_TEXT, MalformedError, parse, read_calls, without_thoughts
from genlab.llm.answers import ToolCall as ToolCall
from genlab.llm.client import Completion, Usage
from genlab.llm.endpoint import Endpoint, Functions, Messages, Role, Schema, find_rejected
from genlab.llm.endpoint import Message as Message
from genlab.llm.errors import EndpointError
from genlab.llm.redaction import excerpt

RETRIES = 4  # of the openai client, after passing faults: half a second to four between them
REPAIRS = 2  # further questions after an answer that cannot be used
NOTHING: dict[str, Any] = {"tokens_in": 0, "tokens_out": 0, "seconds": 0.0, "cost": 0.0}
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


@dataclass
class _Turn:
    """One question on its way to an answer."""

    endpoint: Endpoint
    messages: list[Message]
    schema: Schema
    functions: Functions
    number: int = 0  # of the attempt
    spent: dict[str, Any] = field(default_factory=NOTHING.copy)


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
        turn = _Turn(endpoint, list(messages), schema, functions)
        try:
            return self._ask(turn)
        except EndpointError as error:
            fix = "" if endpoint.answered else endpoint.describe_fix(error)
            if fix:
                raise GenlabError(fix) from error
            raise LLMFailure(error.reason, **turn.spent) from error
        except UnansweredError as error:
            raise type(error)(error.reason, **turn.spent) from error

    def _ask(self, turn: _Turn) -> Answer:
        fault = ""
        while turn.number <= REPAIRS:
            try:
                completion = self._complete(turn)
            except EndpointError as error:
                if error.kind not in ("invalid_answer", "timeout"):
                    raise
                fault = error.reason
                turn.number += 1 if error.kind == "invalid_answer" else REPAIRS  # late: once more
                continue
            if completion.refusal:
                raise LLMFailure(f"the model refused: {excerpt(completion.refusal)}")
            if completion.choices[0].finish_reason == "length":
                if turn.endpoint.limit > turn.endpoint.params.max_output_tokens:
                    limit = f"agent.{turn.endpoint.role}.max_output_tokens"
                    raise LLMFailure(
                        f"the answer was cut at {turn.endpoint.limit} tokens; raise {limit}"
                    )
                turn.endpoint.limit *= 2
                continue
            text = printable(without_thoughts(completion.text)).strip()
            try:
                return self._answer(turn, completion, text)
            except MalformedError as error:
                fault, turn.number = f"the answer cannot be used: {error}", turn.number + 1
                ask = f"That answer cannot be used: {error}. Answer again."
                said = [{"role": "assistant", "content": text[:MAX_ECHO]}] if text else []
                turn.messages += [*said, {"role": "user", "content": ask}]
        raise LLMFailure(turn.endpoint.client.redact(fault))

    def _answer(self, turn: _Turn, completion: Completion, text: str) -> Answer:
        calls = read_calls(completion.choices[0].message.tool_calls) if turn.functions else ()
        if not calls and not 0 < len(text) <= MAX_TEXT:
            raise MalformedError("it is longer than I can read" if text else "it is empty")
        parsed = parse(text, turn.schema) if turn.schema and not calls else None
        model = printable(completion.model or turn.endpoint.model)
        return Answer(text, parsed, calls, model, **turn.spent)

    def _complete(self, turn: _Turn) -> Completion:
        """A completion, asked again at once without what the endpoint rejects."""
        endpoint = turn.endpoint
        seed = None if self._seed is None else self._seed + turn.number
        left_out = endpoint.left_out
        while True:
            self.budget.check()
            request = endpoint.write_request(
                turn.messages, turn.schema, turn.functions, seed=seed, left_out=left_out
            )
            if turn.schema and self._extra:
                request["extra_body"] = self._extra
            try:
                completion = self._send(turn, map_strings(request, endpoint.client.redact))
            except EndpointError as error:
                self.budget.check()  # a wait for its end is no fault of the endpoint
                name = find_rejected(error, request)
                if not name:
                    raise
                left_out |= {name}
                continue
            endpoint.left_out, endpoint.answered = left_out, True
            return completion

    def _send(self, turn: _Turn, request: dict[str, Any]) -> Completion:
        """Send a request, and count it: by the endpoint's own numbers, or else by estimate."""
        begin = time.monotonic()
        tokens_in, tokens_out = _estimate(json.dumps(request["messages"])), 0
        try:
            client, left = turn.endpoint.client, self.budget.seconds_left
            completion = client.chat_sync(request, min(turn.endpoint.params.timeout, left))
            tokens_out = _estimate(completion.text)
            if isinstance(usage := completion.usage, Usage):
                tokens_in, tokens_out = usage.prompt_tokens, usage.completion_tokens
            return completion
        except EndpointError as error:
            tokens_in *= error.charged
            raise
        finally:
            prices, seconds = turn.endpoint.params, time.monotonic() - begin
            cost = (tokens_in * prices.price_in + tokens_out * prices.price_out) / 1e6
            spent = dict(zip(NOTHING, (tokens_in, tokens_out, seconds, cost), strict=True))
            self.budget.add(spent)
            turn.spent = {name: turn.spent[name] + spent[name] for name in NOTHING}


def _estimate(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
