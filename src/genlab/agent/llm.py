"""Questions to a language model behind any OpenAI-compatible endpoint: retries, budgets, schemas.

What an endpoint may do wrong (limits of rate, torn, hung, empty, refused, cut-off or misshapen
answers) ends either in a good answer or in one `LLMFailure`; never in a hang or another exception.
What a person has to mend (a key, an address, a model's name) is a `GenlabError`. Not protected:
an answer that is well formed and wrong, an endpoint that sends its headers byte by byte, and a
question that was paid for but not answered before the process was killed. A backend serves one
thread.
"""

from __future__ import annotations

import json
import math
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import islice
from typing import Any, Literal, Protocol
from urllib.parse import urlsplit

import httpx2
import openai
from pydantic import BaseModel, Field, ValidationError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential_jitter
from typing_extensions import TypedDict  # pydantic reads typing's own from Python 3.12 on

from genlab.core.console import GenlabError

Purpose = Literal["planning", "tools"]
OPENAI_URL = "https://api.openai.com/v1"
MAX_BODY = 8 << 20  # bytes of one HTTP answer
MAX_TEXT = 1 << 17  # characters of an answer in which JSON is looked for
MAX_STARTS = 32  # places in it at which JSON may begin: together they bound a hostile answer's cost
CONNECT_SECONDS = 10.0
BYTES_A_TOKEN = 3  # for endpoints that do not count: on the safe side of the usual 4
EXCERPT = 200  # characters of other people's text in a line of ours


class Message(TypedDict):
    """One message of a chat."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Question:
    """What is asked: by which of the two models, and in which shape the answer has to come."""

    purpose: Purpose
    messages: Sequence[Message]
    schema: type[BaseModel] | None = None
    max_tokens: int = 1024
    temperature: float = 0.0


@dataclass(frozen=True)
class Answer:
    """A good answer; `parsed` is set where the question had a schema.

    Tokens and seconds (waits included) are those of all `attempts`, one attempt a request.
    """

    text: str
    parsed: BaseModel | None
    tokens_in: int
    tokens_out: int
    seconds: float
    attempts: int
    model: str


class UnansweredError(Exception):
    """A question without an answer: the reason on one line, and what was spent on it all the same.

    Tokens and seconds as in `Answer`.
    """

    def __init__(
        self,
        reason: str,
        *,
        tokens_in: int = 0,
        tokens_out: int = 0,
        seconds: float = 0.0,
        attempts: int = 0,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.tokens_in = tokens_in
        self.tokens_out = tokens_out
        self.seconds = seconds
        self.attempts = attempts


class LLMFailure(UnansweredError):  # noqa: N818 (outcomes of a run, no bugs)
    """The model or its endpoint failed, retries included; the run can go on without the answer."""


class BudgetSpent(UnansweredError):  # noqa: N818
    """A limit of the run is reached: no further question is asked."""


class Backend(Protocol):
    """Whatever answers questions."""

    def ask(self, question: Question) -> Answer:
        """Answer `question`; raises `LLMFailure`, `BudgetSpent` or a `GenlabError`."""
        ...


# --- budgets ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Price:
    """Cost of a million tokens, in the currency of the budget."""

    tokens_in: float = 0.0
    tokens_out: float = 0.0


@dataclass(frozen=True)
class Budget:
    """Limits of a run; None is no limit. `seconds` are those spent on asking, waits included."""

    tokens: int | None = None
    cost: float | None = None
    seconds: float | None = None


class Meter:
    """What a run has spent, against its budget.

    It is checked before each request, so the run oversteps by one request at most.
    """

    def __init__(
        self, budget: Budget | None = None, prices: Mapping[Purpose, Price] | None = None
    ) -> None:
        self.budget = budget or Budget()
        self.prices = dict(prices or {})
        if self.budget.cost is not None and not self.prices:
            raise GenlabError(
                f"a budget of cost {self.budget.cost:g} needs prices per million tokens; set them"
            )
        self.tokens = 0
        self.cost = 0.0
        self.seconds = 0.0

    def add(self, purpose: Purpose, tokens_in: int, tokens_out: int, seconds: float) -> None:
        """Count what a request for `purpose` took."""
        price = self.prices.get(purpose, Price())
        self.tokens += tokens_in + tokens_out
        self.cost += (tokens_in * price.tokens_in + tokens_out * price.tokens_out) / 1e6
        self.seconds += seconds

    @property
    def seconds_left(self) -> float:
        """Seconds until the time budget is spent; infinity where there is none."""
        limit = self.budget.seconds
        return math.inf if limit is None else limit - self.seconds

    def check(self) -> None:
        """Raise `BudgetSpent` where a limit is reached."""
        for name, spent, limit in (
            ("tokens", self.tokens, self.budget.tokens),
            ("cost", self.cost, self.budget.cost),
            ("seconds", self.seconds, self.budget.seconds),
        ):
            if limit is not None and spent >= limit:
                raise BudgetSpent(f"budget of {name} is spent: {spent:.6g} of {limit:.6g}")


# --- secrets ---------------------------------------------------------------------------------

REDACTED = "[redacted]"
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_SHORTEST_SECRET = 8  # what is shorter ("none", "ollama") protects nothing and mangles texts
_SHAPES = (
    (re.compile(r"\bsk-(?=[\w-]*\d)[\w-]{8,}|\bsk-[\w-]{20,}"), REDACTED),
    (re.compile(r"\b(?:hf|gh[pousr])_[A-Za-z0-9]{20,}"), REDACTED),
    (
        re.compile(r"\b(bearer)\s+(?:(?=\S*\d)[\w.~+/=-]{8,}|[\w.~+/=-]{20,})", re.IGNORECASE),
        rf"\1 {REDACTED}",
    ),
    (re.compile(r"://[^/\s:@]{1,200}:[^/\s@]{1,200}@"), f"://{REDACTED}@"),
)


def redact(text: str, secrets: Sequence[str] = ()) -> str:
    """`text` without keys: those of the environment, `secrets`, and what has a key's shape.

    Lone surrogates, which no file and no request can hold, become question marks.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    known = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    known.update(secrets)
    for value in sorted(known, key=len, reverse=True):  # one key may be the beginning of another
        if len(value.strip()) >= _SHORTEST_SECRET:
            text = text.replace(value.strip(), REDACTED)
    for shape, instead in _SHAPES:
        text = shape.sub(instead, text)
    return text


def excerpt(text: str, secrets: Sequence[str] = (), length: int = EXCERPT) -> str:
    """The beginning of `text` on one line, without secrets."""
    line = " ".join(redact(text, secrets).split())
    return line if len(line) <= length else line[: length - 1] + "…"


# --- answers in a schema ---------------------------------------------------------------------


class MalformedError(ValueError):
    """An answer that does not hold what the schema asks for."""


_FENCE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_STRING_OR_COMMA = re.compile(r'"(?:\\.|[^"\\])*"|,(?=\s*[}\]])', re.DOTALL)


def parse(text: str, schema: type[BaseModel]) -> BaseModel:
    """Read an answer that may be fenced, wrapped in prose or have trailing commas.

    Of several JSON values in it, the first that fits `schema` is taken. NaN and infinity are
    refused, since JSON has neither. Raises `MalformedError` with a line for the model to read.
    """
    if len(text) > MAX_TEXT:
        raise MalformedError(f"it is longer than {MAX_TEXT} characters")
    if text.lstrip().startswith("<think>"):  # a reasoning model's thoughts are no answer
        text = text.rpartition("</think>")[2]
    misfits: list[ValidationError] = []
    for value in _values(text):
        try:
            parsed = schema.model_validate(value)
        except ValidationError as error:
            misfits.append(error)
            continue
        if not _finite(parsed.model_dump()):
            raise MalformedError("it holds NaN or an infinite number")
        return parsed
    if not misfits:
        raise MalformedError("it holds no JSON that can be read")
    raise MalformedError(_told(min(misfits, key=ValidationError.error_count)))


def _values(text: str) -> Iterator[Any]:
    fenced = _FENCE.findall(text)
    starts = [match.start() for match in islice(re.finditer(r"\{", text), MAX_STARTS)]
    for whole in (text, *fenced[:MAX_STARTS]):
        yield from _decoded(whole.strip(), to_the_end=True)
    for start in starts:
        yield from _decoded(text[start:], to_the_end=False)


def _decoded(text: str, *, to_the_end: bool) -> Iterator[Any]:
    """The JSON value at the start of `text`, if there is one; else the same without its commas."""
    for variant in (text, _without_trailing_commas):
        try:
            source = variant if isinstance(variant, str) else variant(text)
            value, end = _DECODER.raw_decode(source)
        except (ValueError, RecursionError):
            continue
        if not to_the_end or end == len(source):
            yield value
        return


def _without_trailing_commas(text: str) -> str:
    return _STRING_OR_COMMA.sub(lambda hit: "" if hit[0] == "," else hit[0], text)


def _number(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text} is not finite")
    return value


_DECODER = json.JSONDecoder(parse_float=_number, parse_constant=_number)


def _finite(value: object) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, Mapping):
        return all(_finite(item) for item in value.values())
    if isinstance(value, list | tuple | set | frozenset):
        return all(_finite(item) for item in value)
    return True


def _told(error: ValidationError) -> str:
    lines = []
    for fault in error.errors(include_url=False, include_context=False)[:5]:
        place = ".".join(str(part) for part in fault["loc"]) or "the answer"
        lines.append(f"{place}: {fault['msg']}, got {excerpt(repr(fault['input']), length=60)}")
    return excerpt("; ".join(lines), length=600)


def _response_format(schema: type[BaseModel]) -> dict[str, Any]:
    tool = openai.pydantic_function_tool(schema)["function"]
    shape = tool["parameters"]
    name = re.sub(r"[^a-zA-Z0-9_-]", "_", schema.__name__)[:64]
    return {
        "type": "json_schema",
        # An endpoint that is strict refuses objects with free keys, such as a tool's arguments.
        "json_schema": {"name": name, "schema": shape, "strict": _closed(shape)},
    }


def _closed(node: object) -> bool:
    if isinstance(node, Mapping):
        if node.get("type") == "object" and node.get("additionalProperties") is not False:
            return False
        return all(_closed(item) for item in node.values())
    return all(_closed(item) for item in node) if isinstance(node, list) else True


def _instruction(schema: type[BaseModel]) -> Message:
    shape = json.dumps(schema.model_json_schema(), ensure_ascii=False)
    text = f"Answer with one JSON object and nothing else. It must fit this JSON schema: {shape}"
    return {"role": "system", "content": text}


# --- the OpenAI protocol ---------------------------------------------------------------------


class _Words(BaseModel):
    content: str | None = None
    refusal: str | None = None


class _Choice(BaseModel):
    message: _Words
    finish_reason: str | None = None


class _Usage(BaseModel):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)


class _Completion(BaseModel):
    """What is read of an endpoint's answer; the rest may be whatever it likes."""

    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None
    model: str | None = None


class _RetryError(Exception):
    """This attempt failed; another may do better.

    `wait` is the endpoint's own word in seconds. `note` is told to the model (and needs no wait);
    `unreachable` says that nothing listens.
    """

    def __init__(
        self,
        reason: str,
        *,
        wait: float | None = None,
        note: Sequence[Message] = (),
        unreachable: bool = False,
    ) -> None:
        super().__init__(reason)
        self.wait = wait
        self.note = note
        self.unreachable = unreachable


@dataclass
class _Turn:
    """One question on its way to an answer."""

    question: Question
    note: Sequence[Message] = ()
    plain: bool = False  # asked without a schema, to see whether the endpoint minds the schema
    repairs: int = 0
    attempts: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    seconds: float = 0.0

    @property
    def spent(self) -> dict[str, Any]:
        return {
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "seconds": self.seconds,
            "attempts": self.attempts,
        }


@dataclass
class _Dialect:
    """What this endpoint was found to understand; learnt from its refusals, for the whole run."""

    schema: bool = True
    limit: str = "max_tokens"
    optional: set[str] = field(default_factory=lambda: {"temperature", "seed"})


@dataclass(frozen=True)
class Patience:
    """How long an endpoint is borne with.

    `timeout` seconds a request; `attempts` requests a question, of which `repairs` may answer an
    answer that was misshapen or cut off; `retry_after` is the longest wait an endpoint can ask for.
    """

    timeout: float = 120.0
    attempts: int = 6
    repairs: int = 2
    retry_after: float = 60.0


class OpenAIBackend:
    """A model for planning and one for tools, behind one OpenAI-compatible endpoint.

    `base_url` and `api_key` default to OPENAI_BASE_URL and OPENAI_API_KEY; the key may be missing
    where the address is not OpenAI's. `seed` goes with every request that may have one, plus the
    number of the attempt. `schema_body` holds fields of the endpoint's own for requests with a
    schema. Raises a `GenlabError` for a missing key or an address that is none.
    """

    def __init__(
        self,
        models: Mapping[Purpose, str],
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        meter: Meter | None = None,
        seed: int | None = None,
        patience: Patience | None = None,
        schema_body: Mapping[str, object] | None = None,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.models = dict(models)
        self.base_url = _checked_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
        self.meter = meter or Meter()
        self.seed = seed
        self.patience = patience or Patience()
        self._key = _checked_key(api_key or os.environ.get("OPENAI_API_KEY") or "", self.base_url)
        self._schema_body = dict(schema_body or {})
        self._sleep = sleep
        self._clock = clock
        self._dialect = _Dialect()
        self._answered: set[Purpose] = set()
        self._backoff = wait_exponential_jitter(initial=1, max=60, jitter=1)
        self._client = openai.OpenAI(
            api_key=self._key,
            base_url=self.base_url,
            max_retries=0,  # retries are counted here, against the budget
            # A proxy of the environment cannot reach this machine's own loopback.
            http_client=_connections(trust_env=not _is_loopback(self.base_url)),
            default_headers={"Accept-Encoding": "identity"},  # MAX_BODY bounds what is unpacked
        )

    def ask(self, question: Question) -> Answer:
        """Answer `question`; raises `LLMFailure`, `BudgetSpent`, or at first a `GenlabError`."""
        turn = _Turn(question)
        retrying = Retrying(
            retry=retry_if_exception_type(_RetryError),
            wait=self._wait,
            stop=lambda state: self._is_enough(turn, _again(state)),
            sleep=lambda seconds: self._pause(turn, seconds),
            reraise=True,
        )
        try:
            return retrying(self._attempt, turn)
        except _RetryError as last:
            if last.unreachable and not self._answered:
                raise GenlabError(
                    f"OPENAI_BASE_URL: nothing answers at {excerpt(self.base_url)} ({last});"
                    " start the endpoint or correct the address"
                ) from last
            raise LLMFailure(f"{last} (attempt {turn.attempts})", **turn.spent) from last
        except UnansweredError as end:  # raised deep inside, where the whole turn is not known
            raise type(end)(end.reason, **turn.spent) from end

    def _is_enough(self, turn: _Turn, again: _RetryError) -> bool:
        if again.note:
            turn.note = again.note
            turn.repairs += 1
        # A wrong address is told soon; an endpoint that has answered may be starting anew.
        lost = again.unreachable and not self._answered and turn.attempts >= 2
        return lost or turn.attempts >= self.patience.attempts or self._is_hopeless(turn)

    def _is_hopeless(self, turn: _Turn) -> bool:
        return turn.repairs > self.patience.repairs

    def _wait(self, state: RetryCallState) -> float:
        again = _again(state)
        if again.note:
            return 0.0
        if again.wait:
            return min(again.wait, self.patience.retry_after)
        return self._backoff(state)

    def _pause(self, turn: _Turn, seconds: float) -> None:
        if seconds >= self.meter.seconds_left:
            raise BudgetSpent(f"budget of seconds does not last for a wait of {seconds:.0f} s")
        if seconds > 0:
            self._sleep(seconds)
            self._count(turn, 0, 0, seconds)

    def _count(self, turn: _Turn, tokens_in: int, tokens_out: int, seconds: float) -> None:
        turn.tokens_in += tokens_in
        turn.tokens_out += tokens_out
        turn.seconds += seconds
        self.meter.add(turn.question.purpose, tokens_in, tokens_out, seconds)

    def _attempt(self, turn: _Turn) -> Answer:
        completion = self._completion(turn)
        words = completion.choices[0].message
        finish = completion.choices[0].finish_reason
        if words.refusal:
            raise LLMFailure(f"the model refused: {self._excerpt(words.refusal)}")
        if finish == "content_filter":
            raise LLMFailure("the endpoint's content filter stopped the answer")
        if finish == "length":
            text = f"Your answer was cut off at {turn.question.max_tokens} tokens. Be shorter."
            raise _RetryError(
                f"the answer was cut off at {turn.question.max_tokens} tokens",
                note=[{"role": "user", "content": text}],
            )
        text = (words.content or "").encode("utf-8", "replace").decode("utf-8")
        if not text.strip():
            raise _RetryError("the answer was empty")
        return Answer(
            text=text,
            parsed=self._parsed(turn.question, text),
            model=completion.model or self.models[turn.question.purpose],
            **turn.spent,
        )

    def _parsed(self, question: Question, text: str) -> BaseModel | None:
        if question.schema is None:
            return None
        try:
            return parse(text, question.schema)
        except MalformedError as error:
            ask = f"That answer cannot be used: {error}. Answer with one JSON object that fits."
            raise _RetryError(
                f"the answer does not fit {question.schema.__name__}: {self._excerpt(str(error))}",
                note=[
                    {"role": "assistant", "content": text[: 4 * question.max_tokens]},
                    {"role": "user", "content": ask},
                ],
            ) from error

    def _completion(self, turn: _Turn) -> _Completion:
        """One answer of the endpoint, asked again at once where it does not know a field."""
        while True:
            try:
                completion = self._counted(turn)
            except openai.APIStatusError as error:
                if self._learns(turn, error):
                    continue
                raise self._fault(turn, error) from error
            if turn.plain:  # the same question without the schema went through
                self._dialect.schema = False
            self._answered.add(turn.question.purpose)
            return completion

    def _counted(self, turn: _Turn) -> _Completion:
        self.meter.check()
        turn.attempts += 1
        request = self._request(turn)
        started = self._clock()
        # Until the endpoint says otherwise the prompt is taken for paid: it may have been read.
        tokens_in, tokens_out = _estimate(json.dumps(request["messages"])), 0
        try:
            completion = self._post(request)
            said = "".join(choice.message.content or "" for choice in completion.choices)
            tokens_out = _estimate(said)
            try:
                usage = _Usage.model_validate(completion.usage)
                tokens_in, tokens_out = usage.prompt_tokens, usage.completion_tokens
            except ValidationError:
                pass  # the estimate stands
            return completion
        except openai.APIStatusError:
            tokens_in = 0  # nobody charges for an error
            raise
        except _RetryError as again:
            tokens_in = 0 if again.unreachable else tokens_in
            raise
        finally:
            self._count(turn, tokens_in, tokens_out, self._clock() - started)

    def _request(self, turn: _Turn) -> dict[str, Any]:
        question = turn.question
        structured = question.schema is not None and self._dialect.schema and not turn.plain
        messages = [*question.messages, *turn.note]
        if question.schema is not None and not structured:
            messages.insert(0, _instruction(question.schema))
        request: dict[str, Any] = {
            "model": self.models[question.purpose],
            "messages": [
                {"role": item["role"], "content": redact(item["content"], [self._key])}
                for item in messages
            ],
            self._dialect.limit: question.max_tokens,
        }
        if "temperature" in self._dialect.optional:
            request["temperature"] = question.temperature
        if self.seed is not None and "seed" in self._dialect.optional:
            request["seed"] = self.seed + turn.attempts - 1  # the same draw would fail again
        if structured and question.schema is not None:
            request["response_format"] = _response_format(question.schema)
            request["extra_body"] = self._schema_body
        return request

    def _post(self, request: dict[str, Any]) -> _Completion:
        """Send `request` and read its answer, bounded in size and in time."""
        seconds = min(self.patience.timeout, self.meter.seconds_left)
        limits = openai.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS))
        try:
            # Streamed, so that the client leaves the reading to us and to what bounds it.
            with self._client.chat.completions.with_streaming_response.create(
                **request, timeout=limits
            ) as response:
                kind = response.headers.get("content-type", "no content type")
                body = response.read()
        except openai.APITimeoutError as error:
            lost = isinstance(error.__cause__, httpx2.ConnectTimeout)
            raise _RetryError(f"no answer within {seconds:g} s", unreachable=lost) from error
        except openai.APIConnectionError as error:
            lost = isinstance(error.__cause__, httpx2.ConnectError)
            why = self._excerpt(str(error.__cause__ or error))
            raise _RetryError(f"the connection failed: {why}", unreachable=lost) from error
        except httpx2.TimeoutException as error:
            raise _RetryError(f"no whole answer within {seconds:g} s") from error
        except httpx2.HTTPError as error:
            raise _RetryError(f"the answer broke off: {self._excerpt(str(error))}") from error
        try:
            return _Completion.model_validate_json(body)
        except ValidationError as error:
            said = self._excerpt(body[: 4 * EXCERPT].decode("utf-8", "replace"))
            what = f"{self._excerpt(kind)}: {said or 'nothing'}"
            raise _RetryError(f"the endpoint sent no chat completion but {what}") from error

    def _learns(self, turn: _Turn, error: openai.APIStatusError) -> bool:
        """Whether `error` is about a field that the next request can do without."""
        if error.status_code not in (400, 404, 422, 501) or _code(error) in _FILTERS:
            return False
        said = str(error.message)
        if self._dialect.limit == "max_tokens" and "max_completion_tokens" in said:
            self._dialect.limit = "max_completion_tokens"
            return True
        for name in sorted(self._dialect.optional):
            if error.param == name or f"'{name}'" in said:
                self._dialect.optional.discard(name)
                return True
        if turn.question.schema is not None and self._dialect.schema and not turn.plain:
            turn.plain = True
            return True
        return False

    def _fault(self, turn: _Turn, error: openai.APIStatusError) -> Exception:
        """What an HTTP status stands for: a person's fault, a failure, or a reason to wait."""
        status, code = error.status_code, _code(error)
        said = f"HTTP {status}: {self._excerpt(str(error.message))}"
        if code in _FILTERS:
            return LLMFailure(f"the endpoint's content filter stopped the question: {said}")
        broke = code == "insufficient_quota"
        if turn.question.purpose not in self._answered:
            at = excerpt(self.base_url)
            model = self.models[turn.question.purpose]
            if status == 401:
                return GenlabError(f"OPENAI_API_KEY is refused at {at} ({said}); set a valid one")
            if status == 403:
                return GenlabError(
                    f"OPENAI_API_KEY may not use model {model!r} at {at} ({said});"
                    " take another key or model"
                )
            if status == 404:
                return GenlabError(
                    f"model {model!r} for {turn.question.purpose} is not at OPENAI_BASE_URL {at}"
                    f" ({said}); correct the model's name, or the address (it often ends in /v1)"
                )
            if broke:
                return GenlabError(
                    f"OPENAI_API_KEY has no quota left at {at} ({said}); add credit or take another"
                )
        if not broke and (status in (408, 409, 429) or status >= 500):
            return _RetryError(said, wait=_retry_after(error.response.headers))
        return LLMFailure(said)

    def _excerpt(self, text: str) -> str:
        return excerpt(text, [self._key])


class _BoundedStream(httpx2.SyncByteStream):
    """A body that ends in an error where it takes too many bytes, or too long as a whole."""

    def __init__(self, stream: httpx2.SyncByteStream, seconds: float) -> None:
        self._stream = stream
        self._deadline = time.monotonic() + seconds

    def __iter__(self) -> Iterator[bytes]:
        size = 0
        for chunk in self._stream:
            size += len(chunk)
            if size > MAX_BODY:
                raise httpx2.ReadError(f"it is larger than {MAX_BODY >> 20} MiB")
            if time.monotonic() > self._deadline:
                raise httpx2.ReadTimeout("it came too slowly")
            yield chunk

    def close(self) -> None:
        self._stream.close()


class _BoundedClient(openai.DefaultHttpxClient):
    """A timeout of httpx2 is for one read: byte by byte, an endpoint could hold us for ever."""

    def send(self, request: httpx2.Request, **options: Any) -> httpx2.Response:
        response = super().send(request, **options)
        seconds = request.extensions.get("timeout", {}).get("read")
        if isinstance(response.stream, httpx2.SyncByteStream) and not response.is_closed:
            response.stream = _BoundedStream(
                response.stream, math.inf if seconds is None else seconds
            )
        return response


@cache  # loading the certificates takes a tenth of a second
def _connections(*, trust_env: bool) -> httpx2.Client:
    return _BoundedClient(trust_env=trust_env)


_FILTERS = ("content_filter", "content_policy_violation")


def _again(state: RetryCallState) -> _RetryError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, _RetryError)  # nothing else is retried
    return error


def _code(error: openai.APIStatusError) -> str:
    return str(error.code or error.type or "")


def _estimate(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_A_TOKEN)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that an endpoint asks to be left alone, or None; given as seconds or as a date."""
    for name, scale in (("retry-after-ms", 1e-3), ("retry-after", 1.0)):
        value = headers.get(name, "")
        try:
            seconds = float(value) * scale
        except ValueError:
            try:
                seconds = parsedate_to_datetime(value).timestamp() - time.time()
            except (ValueError, OverflowError):
                continue
        if seconds > 0:  # NaN is not
            return seconds
    return None


def _checked_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        fine = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half an IPv6 address
        fine = False
    if not fine or any(character.isspace() for character in url):
        raise GenlabError(
            f"OPENAI_BASE_URL must be an address such as {OPENAI_URL}, got {excerpt(repr(url))}"
        )
    return url


def _checked_key(key: str, base_url: str) -> str:
    key = key.strip()  # a key that was read from a file ends in a line break
    if not key:
        if urlsplit(base_url).hostname == urlsplit(OPENAI_URL).hostname:
            raise GenlabError(
                "OPENAI_API_KEY is not set: set it, or OPENAI_BASE_URL to an endpoint without keys,"
                " or choose a backend that needs none (embedded, search, replay)"
            )
        return "none"  # the client insists on one
    if not key.isascii() or not key.isprintable() or " " in key:
        raise GenlabError("OPENAI_API_KEY holds a character that no key has; set it anew")
    return key


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")
