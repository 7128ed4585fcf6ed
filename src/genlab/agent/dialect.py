"""What an endpoint understands: requests in its own dialect, learnt from what it refuses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import openai

from genlab.agent.answers import instruction, response_format
from genlab.agent.messages import Message, Question
from genlab.agent.refusals import is_filter


@dataclass
class Turn:
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
class Dialect:
    """What this endpoint was found to understand; learnt from its refusals, for the whole run.

    `body` holds fields of the endpoint's own for requests with a schema.
    """

    body: Mapping[str, object]
    schema: bool = True
    limit: str = "max_tokens"
    optional: set[str] = field(default_factory=lambda: {"temperature", "seed"})

    def request(self, turn: Turn, model: str, seed: int | None) -> dict[str, Any]:
        """The question of `turn`, as this endpoint takes it; nothing in it is redacted yet."""
        question = turn.question
        structured = question.schema is not None and self.schema and not turn.plain
        messages = [*question.messages, *turn.note]
        if question.schema is not None and not structured:
            messages.insert(0, instruction(question.schema))
        request: dict[str, Any] = {
            "model": model,
            "messages": messages,
            self.limit: question.max_tokens,
        }
        if "temperature" in self.optional:
            request["temperature"] = question.temperature
        if seed is not None and "seed" in self.optional:
            request["seed"] = seed + turn.attempts - 1  # the same draw would fail again
        if structured and question.schema is not None:
            request["response_format"] = response_format(question.schema)
            request["extra_body"] = self.body
        return request

    def learns(self, turn: Turn, error: openai.APIStatusError) -> bool:
        """Whether `error` is about a field that the next request can do without."""
        if error.status_code not in (400, 404, 422, 501) or is_filter(error):
            return False
        said = str(error.message)
        if self.limit == "max_tokens" and "max_completion_tokens" in said:
            self.limit = "max_completion_tokens"
            return True
        for name in sorted(self.optional):
            if error.param == name or f"'{name}'" in said:
                self.optional.discard(name)
                return True
        if turn.question.schema is not None and self.schema and not turn.plain:
            turn.plain = True
            return True
        return False
