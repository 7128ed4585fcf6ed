"""Questions to a language model behind an OpenAI-compatible endpoint, within a budget.

Whatever the endpoint does ends in an answer, in an `LLMFailure`, in a `BudgetSpentError` or, for
what a person has to correct (a key, an address, a model's name), in a SetupError. Not protected:
an answer that is well formed and wrong, and a question that was charged but not answered before
the process was killed. The charges of requests that fail are estimated.
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
from genlab.llm.client import Client, Completion, Usage, is_openai
from genlab.llm.dialects import LIMITS, adapt, find_rejected, lacks_functions, strip_thoughts
from genlab.llm.dialects import Message as Message
from genlab.llm.redaction import excerpt
from genlab.llm.transport import EndpointError

Role = Literal["planning", "tools"]
Messages = Sequence[Message]
Schema = type[BaseModel] | None
Functions = Sequence[Mapping[str, Any]]
"""Functions that the model may call, as OpenAI's parameter `tools` has them."""
ZERO_USAGE: dict[str, Any] = {"tokens_in": 0, "tokens_out": 0, "seconds": 0.0, "cost": 0.0}
RETRIES = (4, 14)
"""After passing faults, half a second to eight apart: of an endpoint that may not be there, and of
one that has just answered and may be down for a minute."""
FULL = 0.9  # of the limit that was sent: an answer cut before it was cut by the server
REPAIRS = 2  # further questions after an answer that cannot be used
MAX_ECHO = 20_000  # characters of an unusable answer that are shown to the model again
BYTES_PER_TOKEN = 3  # for endpoints that do not count: on the safe side of the usual 4
IN_WORDS = "Answer with one JSON object and nothing else. It must fit this JSON schema: {}"
FIXES = {
    **dict.fromkeys(
        ("not_found", "retired"),
        "model {model!r} is not there; correct agent.{role}.model, or agent.{role}.base_url (it"
        " often ends in /v1)",
    ),
    "wrong_key": "{key} is rejected; set a valid key",
    "forbidden": "{key} may not use model {model!r}; choose another key or model",
    "quota": "{key} has no quota left; add credit",
    "cut": "raise agent.{role}.max_output_tokens, or use a model that comes to an end",
    "full": "start it with a larger context, or lower agent.max_prompt_tokens",
    "no_tools": "use a model whose chat template knows tools (llama.cpp: --jinja), or mode loop",
    "unreachable": "start the endpoint, or correct agent.{role}.base_url or OPENAI_BASE_URL",
    "redirected": "set agent.{role}.base_url to {target}",
    "proxy": "correct that variable, or name the endpoint's host in NO_PROXY",
    "rate_limited": "try again later, or use another model",
    "unavailable": "see the endpoint's log, and try again later",
    "timeout": "raise agent.{role}.timeout, or use a faster model",
}
"""What a person has to correct, by the kind of the endpoint's fault."""
DEFAULT_FIX = "correct agent.{role}, which genlab doctor --endpoints checks with short questions"


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

    def as_message(self) -> Message:
        """The answer as the next question quotes it."""
        calls = [
            {"id": call.id, "type": "function",
             "function": {"name": call.name, "arguments": json.dumps(call.arguments)}}
            for call in self.calls
        ]  # fmt: skip
        message: Message = {"role": "assistant", "content": self.text}
        return message | {"tool_calls": calls} if calls else message


class UnansweredError(Exception):
    """A question without an answer: the reason in one line, and what it cost all the same.

    spent: tokens_in, tokens_out, seconds and cost, as in `Answer`.
    """

    def __init__(self, reason: str, **spent: float) -> None:
        super().__init__(reason)
        self.reason, self.spent = reason, ZERO_USAGE | spent


class LLMFailure(UnansweredError):  # noqa: N818 (an outcome of a run, no bug)
    """The model or its endpoint failed, retries included; the run goes on without the answer."""


class SetupError(GenlabError):
    """What a person has to correct before a model can answer: a key, an address, a name."""


class BudgetSpentError(UnansweredError):
    """A limit of the run is reached: it ends, and no further question is asked."""


class Backend(Protocol):
    """Whatever answers the questions of both roles."""

    def ask(
        self, role: Role, messages: Messages, *, schema: Schema = None, functions: Functions = ()
    ) -> Answer:
        """Answer. Raises `LLMFailure`, `BudgetSpentError` or, for what a person has to correct, a
        SetupError."""
        ...


@dataclass
class Budget:
    """Limits of a run (0: none) and what it has spent; seconds are those of asking."""

    max_tokens: int = 0
    max_cost: float = 0.0
    max_seconds: float = 0.0
    spent: Counter[str] = field(default_factory=lambda: Counter(ZERO_USAGE))

    def check(self) -> None:
        """Raise `BudgetSpentError` where a limit is reached; a run exceeds it by one request."""
        tokens = self.spent["tokens_in"] + self.spent["tokens_out"]
        for name, spent in {**self.spent, "tokens": tokens}.items():
            limit = getattr(self, f"max_{name}", 0)
            if limit and spent >= limit:
                raise BudgetSpentError(f"the budget of {limit:g} {name} is spent")


@dataclass
class _Question:
    """A question on its way to an answer, as its endpoint is asked."""

    messages: list[Message]
    schema: Schema
    functions: Functions
    left_out: frozenset[str]
    attempt: int = 0
    spent: Counter[str] = field(default_factory=lambda: Counter(ZERO_USAGE))


class Endpoint:
    """A role's model behind its endpoint.

    left_out: parameters, and forms of messages (TEMPLATE_SIGNS), that it rejects; ignored: those
    that it accepts without effect. budget: checked before each request. seed: sent to endpoints
    that know it, plus the number of the attempt. extra: the endpoint's own fields for requests with
    a schema. answered: whether it gave a usable answer in this run; until then any fault ends the
    run. note: is given a line for each wait. No temperature is sent: models that reason refuse it,
    and each model has its recommended default. Raises a GenlabError for an address or a key that
    cannot work, or a missing model.
    """

    def __init__(
        self,
        role: Role,
        params: RoleParams,
        budget: Budget | None = None,
        *,
        seed: int = 0,
        retries: tuple[int, int] = RETRIES,
        extra: Mapping[str, Any] | None = None,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.role, self.params, self.budget, self._note = role, params, budget or Budget(), note
        self._seed, self._extra = seed, extra
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
        self._retries, self._up = retries, False

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
            self._up = False
            named = {"key": excerpt(self.params.key), "model": self.model, "role": self.role}
            named["target"] = excerpt(error.target.removesuffix("/chat/completions"))
            fix = FIXES.get(error.kind, "" if self.answered else DEFAULT_FIX).format(**named)
            reason = f"{error.reason}; {fix}" if fix else error.reason
            if not self.answered:
                raise SetupError(f"{excerpt(self.client.base_url)}: {reason}") from error
            raise LLMFailure(reason, **question.spent) from error
        except BudgetSpentError as error:
            error.spent = dict(question.spent)
            raise
        return answer

    def _try(self, question: _Question) -> Answer | None:
        """The answer to one request; None where the question, as it then is, may be asked again."""
        self.budget.check()
        request = self._write_request(question)
        try:
            completion = self._send(request, question)
            self.left_out, self._up = question.left_out, True
            answer = self._read(completion, question)
            self.answered |= answer is not None
            return answer
        except EndpointError as error:
            self.budget.check()  # a wait for its end is no fault of the endpoint
            if name := find_rejected(error, request):
                question.left_out |= {name}
                return None
            # What cannot be used is asked for twice more, what did not come in time once.
            question.attempt += {"invalid_answer": 1, "timeout": REPAIRS}.get(error.kind, 9)
            if question.attempt > REPAIRS:
                raise
            return None

    def _write_request(self, question: _Question) -> dict[str, Any]:
        """Arguments of `chat.completions.create`; a schema that is left out is stated in words."""
        messages = adapt(question.messages, question.left_out)
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
        begin, prices, limit = time.monotonic(), self.params, self.budget.max_seconds
        tokens_in, tokens_out = _estimate(json.dumps(request["messages"])), 0
        left = limit - self.budget.spent["seconds"] if limit else math.inf
        try:
            retries = self._retries[self._up]
            answering = self.client.chat(
                request, prices.timeout, retries=retries, left=left, note=self._report_wait
            )
            completion = asyncio.run(answering)
            tokens_out = _estimate(json.dumps(completion.message))
            if isinstance(usage := completion.usage, Usage):
                tokens_in, tokens_out = usage.prompt_tokens, usage.completion_tokens
            return completion
        except EndpointError as error:
            tokens_in *= error.charged
            raise
        finally:
            cost = (tokens_in * prices.price_in + tokens_out * prices.price_out) / 1e6
            counts = (tokens_in, tokens_out, time.monotonic() - begin, cost)
            for total in (self.budget.spent, question.spent):
                total.update(dict(zip(ZERO_USAGE, counts, strict=True)))

    def _read(self, completion: Completion, question: _Question) -> Answer | None:
        """The answer; None where it was cut and more room is given.

        Raises an EndpointError, after which `question` may be asked again.
        """
        if completion.refusal:
            reason = f"the model refused: {excerpt(completion.refusal)}"
            raise EndpointError("refused", reason)
        names = [function["function"]["name"] for function in question.functions]
        given = completion.message.get("tool_calls")
        calls = read_calls(given, completion.text, names) if names else ()
        size = completion.usage.prompt_tokens if isinstance(completion.usage, Usage) else 0
        dropped = names and lacks_functions(size, question.messages, question.functions)
        if dropped and not calls and not self.answered:
            reason = f"the model was not shown the tools (a prompt of {size} tokens)"
            raise EndpointError("no_tools", reason)
        if completion.finish_reason == "length":
            self._make_room(completion, question)
            return None
        text = make_printable(strip_thoughts(completion.text)).strip()
        try:
            if not calls and not 0 < len(text) <= MAX_TEXT:
                raise MalformedError("it is longer than I can read" if text else "it is empty")
            parsed = parse(text, question.schema) if question.schema and not calls else None
        except MalformedError as error:
            if isinstance(error, NoObjectError):  # the schema had no effect: say it in words, too
                self.ignored |= {"response_format"} - question.left_out
            ask = f"That answer cannot be used: {error}. Answer again."
            said = [{"role": "assistant", "content": text[:MAX_ECHO]}] if text else []
            question.messages += [*said, {"role": "user", "content": ask}]
            reason = self.client.redact(f"the answer cannot be used: {error}")
            raise EndpointError("invalid_answer", reason) from error
        model = make_printable(completion.model or self.model)
        return Answer(text, parsed, calls, model, **question.spent)

    def _make_room(self, completion: Completion, question: _Question) -> None:
        """Double the limit of answers, once, after one was cut.

        Raises an EndpointError where that is of no use.
        """
        usage, lacking = completion.usage, ""
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


def _estimate(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)
