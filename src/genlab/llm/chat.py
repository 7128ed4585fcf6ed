"""Questions to a language model behind an OpenAI-compatible endpoint, within a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from pydantic import BaseModel

Role = Literal["planning", "tools"]
Message = dict[str, Any]
"""A chat message of OpenAI's: role, content, tool_calls, tool_call_id."""


@dataclass(frozen=True)
class ToolCall:
    """A function that the model calls; unreadable arguments are {} with the reason in `error`."""

    id: str
    name: str
    arguments: dict[str, Any]
    error: str = ""


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
    """A question without an answer: the reason in one line, and what it cost all the same."""

    def __init__(
        self,
        reason: str,
        *,
        tokens_in: int = 0,
        tokens_out: int = 0,
        seconds: float = 0.0,
        cost: float = 0.0,
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.tokens_in, self.tokens_out = tokens_in, tokens_out
        self.seconds, self.cost = seconds, cost


class LLMFailure(UnansweredError):  # noqa: N818 (an outcome of a run, no bug)
    """The model or its endpoint failed, retries included; the run goes on without the answer."""


class BudgetSpentError(UnansweredError):
    """A limit of the run is reached: it ends, and no further question is asked."""


class Backend(Protocol):
    """Whatever answers questions."""

    def ask(
        self,
        role: Role,
        messages: Sequence[Message],
        *,
        schema: type[BaseModel] | None = None,
        functions: Sequence[Mapping[str, Any]] = (),
    ) -> Answer:
        """Answer. Raises `LLMFailure`, `BudgetSpentError` or, for what a person has to correct, a
        GenlabError."""
        ...
