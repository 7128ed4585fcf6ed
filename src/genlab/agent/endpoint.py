"""A backend behind any OpenAI-compatible endpoint: retries, budgets, and what it understands.

Whatever the endpoint does wrong ends in a good answer or in one `LLMFailure`; what a person has to
mend (a key, an address, a model's name) in a `GenlabError`. See `genlab.agent.llm`.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import openai
from pydantic import BaseModel, ValidationError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_exponential_jitter

from genlab.agent.answers import MalformedError, parse
from genlab.agent.budget import Meter
from genlab.agent.connection import Completion, Connection, RetryError, Usage
from genlab.agent.dialect import Dialect, Turn
from genlab.agent.messages import (
    Answer,
    BudgetSpent,
    LLMFailure,
    Purpose,
    Question,
    UnansweredError,
)
from genlab.agent.redact import excerpt
from genlab.agent.refusals import fault_of
from genlab.core.errors import GenlabError

BYTES_A_TOKEN = 3  # for endpoints that do not count: on the safe side of the usual 4


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
        self._connection = Connection(base_url, api_key)
        self.meter = meter or Meter()
        self.seed = seed
        self.patience = patience or Patience()
        self._sleep = sleep
        self._clock = clock
        self._dialect = Dialect(dict(schema_body or {}))
        self._answered: set[Purpose] = set()
        self._backoff = wait_exponential_jitter(initial=1, max=60, jitter=1)

    @property
    def base_url(self) -> str:
        """Where the endpoint is."""
        return self._connection.base_url

    def ask(self, question: Question) -> Answer:
        """Answer `question`; raises `LLMFailure`, `BudgetSpent`, or at first a `GenlabError`."""
        turn = Turn(question)
        retrying = Retrying(
            retry=retry_if_exception_type(RetryError),
            wait=self._wait,
            stop=lambda state: self._is_enough(turn, _again(state)),
            sleep=lambda seconds: self._pause(turn, seconds),
            reraise=True,
        )
        try:
            return retrying(self._attempt, turn)
        except RetryError as last:
            if last.unreachable and not self._answered:
                raise GenlabError(
                    f"OPENAI_BASE_URL: nothing answers at {excerpt(self.base_url)} ({last});"
                    " start the endpoint or correct the address"
                ) from last
            raise LLMFailure(f"{last} (attempt {turn.attempts})", **turn.spent) from last
        except UnansweredError as end:  # raised deep inside, where the whole turn is not known
            raise type(end)(end.reason, **turn.spent) from end

    def _is_enough(self, turn: Turn, again: RetryError) -> bool:
        if again.note:
            turn.note = again.note
            turn.repairs += 1
        # A wrong address is told soon; an endpoint that has answered may be starting again.
        lost = again.unreachable and not self._answered and turn.attempts >= 2
        return lost or turn.attempts >= self.patience.attempts or self._is_hopeless(turn)

    def _is_hopeless(self, turn: Turn) -> bool:
        return turn.repairs > self.patience.repairs

    def _wait(self, state: RetryCallState) -> float:
        again = _again(state)
        if again.note:
            return 0.0
        if again.wait:
            return min(again.wait, self.patience.retry_after)
        return self._backoff(state)

    def _pause(self, turn: Turn, seconds: float) -> None:
        if seconds >= self.meter.seconds_left:
            raise BudgetSpent(f"budget of seconds does not last for a wait of {seconds:.0f} s")
        if seconds > 0:
            self._sleep(seconds)
            self._count(turn, 0, 0, seconds)

    def _count(self, turn: Turn, tokens_in: int, tokens_out: int, seconds: float) -> None:
        turn.tokens_in += tokens_in
        turn.tokens_out += tokens_out
        turn.seconds += seconds
        self.meter.add(turn.question.purpose, tokens_in, tokens_out, seconds)

    def _attempt(self, turn: Turn) -> Answer:
        completion = self._completion(turn)
        words = completion.choices[0].message
        finish = completion.choices[0].finish_reason
        if words.refusal:
            raise LLMFailure(f"the model refused: {self._connection.excerpt(words.refusal)}")
        if finish == "content_filter":
            raise LLMFailure("the endpoint's content filter stopped the answer")
        if finish == "length":
            text = f"Your answer was cut off at {turn.question.max_tokens} tokens. Be shorter."
            raise RetryError(
                f"the answer was cut off at {turn.question.max_tokens} tokens",
                note=[{"role": "user", "content": text}],
            )
        text = (words.content or "").encode("utf-8", "replace").decode("utf-8")
        if not text.strip():
            raise RetryError("the answer was empty")
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
            fault = self._connection.excerpt(str(error))
            raise RetryError(
                f"the answer does not fit {question.schema.__name__}: {fault}",
                note=[
                    {"role": "assistant", "content": text[: 4 * question.max_tokens]},
                    {"role": "user", "content": ask},
                ],
            ) from error

    def _completion(self, turn: Turn) -> Completion:
        """One answer of the endpoint, asked again at once where it does not know a field."""
        while True:
            try:
                completion = self._counted(turn)
            except openai.APIStatusError as error:
                if self._dialect.learns(turn, error):
                    continue
                purpose = turn.question.purpose
                known = purpose in self._answered
                raise fault_of(
                    error, self._connection, purpose, self.models[purpose], known=known
                ) from error
            if turn.plain:  # the same question without the schema went through
                self._dialect.schema = False
            self._answered.add(turn.question.purpose)
            return completion

    def _counted(self, turn: Turn) -> Completion:
        self.meter.check()
        turn.attempts += 1
        request = self._dialect.request(turn, self.models[turn.question.purpose], self.seed)
        request["messages"] = self._connection.clean(request["messages"])
        seconds = min(self.patience.timeout, self.meter.seconds_left)
        started = self._clock()
        # Until the endpoint says otherwise the prompt is taken for paid: it may have been read.
        tokens_in, tokens_out = _estimate(json.dumps(request["messages"])), 0
        try:
            completion = self._connection.post(request, seconds)
            said = "".join(choice.message.content or "" for choice in completion.choices)
            tokens_out = _estimate(said)
            try:
                usage = Usage.model_validate(completion.usage)
                tokens_in, tokens_out = usage.prompt_tokens, usage.completion_tokens
            except ValidationError:
                pass  # the estimate stands
            return completion
        except openai.APIStatusError:
            tokens_in = 0  # nobody charges for an error
            raise
        except RetryError as again:
            tokens_in = 0 if again.unreachable else tokens_in
            raise
        finally:
            self._count(turn, tokens_in, tokens_out, self._clock() - started)


def _again(state: RetryCallState) -> RetryError:
    error = state.outcome.exception() if state.outcome else None
    assert isinstance(error, RetryError)  # nothing else is retried
    return error


def _estimate(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_A_TOKEN)
