"""Questions to a language model behind an OpenAI-compatible endpoint, within a budget.

Every question ends in an answer, in an `LLMFailure`, in a `BudgetSpentError` or, if a person has to
correct something (a key, an address, a model's name), in a SetupError. Not protected: a well-formed
answer that is wrong, and a question that was charged but not answered before the process was
killed. The charges of failed requests are estimated.
"""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from genlab.core.errors import GenlabError
from genlab.core.params import RoleParams
from genlab.core.text import make_printable
from genlab.llm.answers import MAX_TEXT, MalformedError, NoObjectError, parse, read_calls
from genlab.llm.answers import ToolCall as ToolCall
from genlab.llm.client import RETRIES, Client, Completion, Retries, Usage, is_openai
from genlab.llm.dialects import (
    LIMITS,
    adapt_messages,
    find_rejected,
    lacks_functions,
    strip_thoughts,
)
from genlab.llm.dialects import Message as Message
from genlab.llm.failures import DEFAULT_FIX, ZERO_USAGE, find_fix
from genlab.llm.failures import BudgetSpentError as BudgetSpentError
from genlab.llm.failures import LLMFailure as LLMFailure
from genlab.llm.failures import SetupError as SetupError
from genlab.llm.redaction import excerpt
from genlab.llm.transport import EndpointError

Role = Literal["planning", "tools"]
Messages = Sequence[Message]
Schema = type[BaseModel] | None
Functions = Sequence[Mapping[str, Any]]
"""Functions that the model may call, as OpenAI's parameter `tools` has them."""
FULL = 0.9  # share of our limit below which a cut answer was cut by the server's own limit
REPAIRS = 2  # further questions after an unusable answer
MAX_ECHO = 20_000  # characters of an unusable answer that the model is shown again
BYTES_PER_TOKEN = 3  # for endpoints that do not count tokens; usually there are 4
IN_WORDS = "Answer with one JSON object and nothing else. It must fit this JSON schema: {}"


@dataclass(frozen=True)
class Answer:
    """A usable answer, with the tokens, seconds and dollars of all requests for it."""

    text: str
    parsed: BaseModel | None
    calls: tuple[ToolCall, ...]
    model: str
    tokens_in: int
    tokens_out: int
    seconds: float
    cost: float

    def as_message(self) -> Message:
        """Return the answer as a message for the next question."""
        calls = [
            {"id": call.id, "type": "function",
             "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for call in self.calls
        ]  # fmt: skip
        message: Message = {"role": "assistant", "content": self.text}
        return message | {"tool_calls": calls} if calls else message


class Backend(Protocol):
    """Answers the questions of both roles."""

    def ask(
        self, role: Role, messages: Messages, *, schema: Schema = None, functions: Functions = ()
    ) -> Answer:
        """Answer. Raises LLMFailure, BudgetSpentError, or SetupError if a person has to act."""
        ...


@dataclass
class Budget:
    """Limits of a run (0: none) and what it has spent; only seconds of requests count."""

    max_tokens: int = 0
    max_cost: float = 0.0
    max_seconds: float = 0.0
    spent: Counter[str] = field(default_factory=lambda: Counter(ZERO_USAGE))

    def check(self) -> None:
        """Raise `BudgetSpentError` if a limit is reached; a run may exceed it by one request."""
        tokens = self.spent["tokens_in"] + self.spent["tokens_out"]
        for name, spent in {**self.spent, "tokens": tokens}.items():
            limit = getattr(self, f"max_{name}", 0)
            if limit and spent >= limit:
                raise BudgetSpentError(f"the budget of {limit:g} {name} is spent")


@dataclass
class _Question:
    """A question that is not answered yet, in the form for its endpoint."""

    messages: list[Message]
    schema: Schema
    functions: Functions
    left_out: frozenset[str]
    attempt: int = 0
    spent: Counter[str] = field(default_factory=lambda: Counter(ZERO_USAGE))


class Endpoint:
    """The model of a role behind its endpoint.

    left_out: parameters, and forms of messages (TEMPLATE_ERRORS), that it rejects. ignored: those
    that it accepts without effect. budget: checked before each request. seed: sent plus the number
    of the attempt. extra: additional fields for requests with a schema. answered: whether it gave a
    usable answer in this run; until then every error ends the run. note: called with a line for
    each wait. No temperature is sent: models that reason refuse it, and each model has its
    recommended default. Raises a GenlabError for an address or a key that cannot work, or a missing
    model.
    """

    def __init__(
        self,
        role: Role,
        params: RoleParams,
        budget: Budget | None = None,
        *,
        seed: int = 0,
        retries: Retries = RETRIES,
        extra: Mapping[str, Any] | None = None,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.role = role
        self.params = params
        self.budget = budget or Budget()
        self._note = note
        self._seed = seed
        self._extra = extra
        self.client = Client(params.base_url, key_name=params.key)
        openai = is_openai(self.client.base_url)
        if openai and not params.model:
            key = f"agent.{role}.model"
            raise GenlabError(f"{key} is empty; name one of OpenAI's models", key=key)
        self.model = params.model or "default"  # servers of one model accept any
        self.limit = params.max_output_tokens  # of an answer: doubled once, when one was cut
        # OpenAI's models that reason refuse max_tokens; many other servers know nothing else.
        self.left_out = frozenset({"max_tokens"} if openai else ())
        self.ignored: frozenset[str] = frozenset()
        self.answered = False
        self._retries = retries
        self._is_up = False

    def ask(
        self, messages: Messages, *, schema: Schema = None, functions: Functions = ()
    ) -> Answer:
        """Answer. Raises what `Backend.ask` raises."""
        question = _Question(list(messages), schema, functions, self.left_out)
        answer = None
        try:
            while answer is None:
                answer = self._try(question)
        except EndpointError as error:
            self._is_up = False
            fix = find_fix(error, self.role, self.params.key, self.model)
            if not fix and not self.answered:
                fix = DEFAULT_FIX.format(role=self.role)
            reason = f"{error.reason}; {fix}" if fix else error.reason
            if not self.answered:
                raise SetupError(f"{excerpt(self.client.base_url)}: {reason}") from error
            raise LLMFailure(reason, **question.spent) from error
        except BudgetSpentError as error:
            error.spent = dict(question.spent)
            raise
        return answer

    def _try(self, question: _Question) -> Answer | None:
        """Send one request; returns None where the question, as it now is, may be sent again."""
        self.budget.check()
        request = self._write_request(question)
        try:
            completion = self._send(request, question)
            self.left_out = question.left_out
            self._is_up = True
            answer = self._read(completion, question)
            self.answered |= answer is not None
            return answer
        except EndpointError as error:
            self.budget.check()  # the budget of seconds may have ended the request
            rejected = find_rejected(error, request)
            if rejected:
                question.left_out |= {rejected}
                return None
            # Unusable answers get two more attempts, timeouts get one, other errors none.
            if error.kind == "invalid_answer":
                question.attempt += 1
            elif error.kind == "timeout":
                question.attempt += REPAIRS
            else:
                raise
            if question.attempt > REPAIRS:
                raise
            return None

    def _write_request(self, question: _Question) -> dict[str, Any]:
        """Make the arguments of `chat.completions.create`; a rejected schema is stated in words."""
        messages = adapt_messages(question.messages, question.left_out)
        options: dict[str, Any] = {
            "seed": self._seed + question.attempt,
            **dict.fromkeys(LIMITS, self.limit),
            "reasoning_effort": self.params.reasoning_effort or None,
            "tools": list(question.functions) or None,
        }
        if question.schema is not None:
            shape = question.schema.model_json_schema()
            definition = {"name": question.schema.__name__, "schema": shape}
            options["response_format"] = {"type": "json_schema", "json_schema": definition}
            options["extra_body"] = self._extra
            if "response_format" in question.left_out | self.ignored:
                words = IN_WORDS.format(json.dumps(shape, ensure_ascii=False))
                # In the last message: many templates refuse a second system message.
                last = messages.pop()
                messages.append({**last, "content": f"{last['content']}\n\n{words}"})
        sent = {
            name: value
            for name, value in options.items()
            if value is not None and name not in question.left_out
        }
        if "max_tokens" in sent:
            sent.pop("max_completion_tokens", None)
        request = {"model": self.model, "messages": messages, **sent}
        redacted: dict[str, Any] = self.client.redact(request)
        return redacted

    def _send(self, request: dict[str, Any], question: _Question) -> Completion:
        """Send a request and add what it costs: as the endpoint counts, or by estimate."""
        started = time.monotonic()
        params = self.params
        limit = self.budget.max_seconds
        tokens_in = _estimate_tokens(json.dumps(request["messages"]))
        tokens_out = 0
        left = limit - self.budget.spent["seconds"] if limit else math.inf
        try:
            retries = self._retries.reached if self._is_up else self._retries.not_reached
            answering = self.client.chat(
                request, params.timeout, retries=retries, left=left, note=self._report_wait
            )
            completion = asyncio.run(answering)
            tokens_out = _estimate_tokens(json.dumps(completion.message))
            usage = completion.usage
            if isinstance(usage, Usage):
                tokens_in = usage.prompt_tokens
                tokens_out = usage.completion_tokens
            return completion
        except EndpointError as error:
            if not error.charged:
                tokens_in = 0
            raise
        finally:
            spent = {
                "tokens_in": tokens_in,
                "tokens_out": tokens_out,
                "seconds": time.monotonic() - started,
                "cost": (tokens_in * params.price_in + tokens_out * params.price_out) / 1e6,
            }
            self.budget.spent.update(spent)
            question.spent.update(spent)

    def _read(self, completion: Completion, question: _Question) -> Answer | None:
        """Parse the answer; returns None where it was cut and the limit is raised.

        Raises an EndpointError, after which `question` may be asked again.
        """
        if completion.refusal:
            reason = f"the model refused: {excerpt(completion.refusal)}"
            raise EndpointError("refused", reason)
        names = [function["function"]["name"] for function in question.functions]
        calls: tuple[ToolCall, ...] = ()
        if names:
            calls = read_calls(completion.message.get("tool_calls"), completion.text, names)
            if not calls and not self.answered:
                self._require_functions(completion, question)
        if completion.finish_reason == "length":
            self._raise_limit(completion, question)
            return None
        text = make_printable(strip_thoughts(completion.text)).strip()
        try:
            if not calls and not 0 < len(text) <= MAX_TEXT:
                raise MalformedError("it is longer than I can read" if text else "it is empty")
            parsed = parse(text, question.schema) if question.schema and not calls else None
        except MalformedError as error:
            if isinstance(error, NoObjectError):  # the schema had no effect: state it in words, too
                self.ignored |= {"response_format"} - question.left_out
            if text:
                question.messages.append({"role": "assistant", "content": text[:MAX_ECHO]})
            ask = f"That answer cannot be used: {error}. Answer again."
            question.messages.append({"role": "user", "content": ask})
            reason = self.client.redact(f"the answer cannot be used: {error}")
            raise EndpointError("invalid_answer", reason) from error
        model = make_printable(completion.model or self.model)
        return Answer(text, parsed, calls, model, **question.spent)

    def _require_functions(self, completion: Completion, question: _Question) -> None:
        """Raise an EndpointError where the prompt was too short to contain the functions."""
        usage = completion.usage
        size = usage.prompt_tokens if isinstance(usage, Usage) else 0
        if lacks_functions(size, question.messages, question.functions):
            reason = f"the model was not shown the tools (a prompt of {size} tokens)"
            raise EndpointError("no_tools", reason)

    def _raise_limit(self, completion: Completion, question: _Question) -> None:
        """Double the limit of answers, once, after one was cut.

        Raises an EndpointError where that would not help.
        """
        usage = completion.usage
        lacking = ""
        if isinstance(usage, Usage) and 0 < usage.completion_tokens < FULL * self.limit:
            length = f"{usage.completion_tokens} of {self.limit} tokens"
            full = f"behind a prompt of {usage.prompt_tokens} the server's context is full"
            raise EndpointError("full", f"the answer was cut after {length}: {full}")
        text = strip_thoughts(completion.text) if completion.content else ""
        if text and question.schema is not None and "{" not in text:
            self.ignored |= {"response_format"} - question.left_out
            lacking = " and has no JSON"
        if self.limit > self.params.max_output_tokens:
            raise EndpointError("cut", f"the answer was cut at {self.limit} tokens{lacking}")
        self.limit *= 2

    def _report_wait(self, line: str) -> None:
        self._note(f"agent.{self.role}: {line}")


def _estimate_tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
