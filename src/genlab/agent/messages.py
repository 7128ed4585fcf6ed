"""A question to a language model, its answer, and how it can fail to be answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from pydantic import BaseModel
from typing_extensions import TypedDict  # pydantic reads typing's own from Python 3.12 on

Purpose = Literal["planning", "tools"]


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
