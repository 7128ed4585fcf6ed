"""The model of a role behind its endpoint, and what is learnt of it from what it rejects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel

from genlab.core.errors import GenlabError
from genlab.core.params import RoleParams
from genlab.llm.client import Client, is_openai
from genlab.llm.errors import EndpointError
from genlab.llm.redaction import excerpt

Role = Literal["planning", "tools"]
Message = dict[str, Any]
"""A chat message of OpenAI's: role, content, tool_calls, tool_call_id."""
Messages = Sequence[Message]
Schema = type[BaseModel] | None
Functions = Sequence[Mapping[str, Any]]
"""Functions that the model may call, as OpenAI's parameter `tools` has them."""
NOTHING: dict[str, Any] = {"tokens_in": 0, "tokens_out": 0, "seconds": 0.0, "cost": 0.0}
LIMITS = ("max_tokens", "max_completion_tokens")
SIGNS = {
    **{limit: rf"\b{limit}\b" for limit in LIMITS},
    "seed": r"\bseed\b",
    "reasoning_effort": r"reasoning|thinking|effort",
    "response_format": r"response_format|schema|structured|grammar",
}
"""Parameters that an endpoint may do without, and how errors name them."""
IN_WORDS = "Answer with one JSON object and nothing else. It must fit this JSON schema: {}"


@dataclass
class Question:
    """A question on its way to an answer."""

    messages: list[Message]
    schema: Schema
    functions: Functions
    attempts: int = 0
    spent: dict[str, Any] = field(default_factory=NOTHING.copy)


class Endpoint:
    """How a role's model is reached. left_out: parameters that it rejects.

    Raises a GenlabError for an address or a key that cannot work, or a missing model.
    """

    def __init__(self, role: Role, params: RoleParams, retries: int) -> None:
        self.role, self.params = role, params
        self.client = Client(params.base_url, key_name=params.key, max_retries=retries)
        openai = is_openai(self.client.base_url)
        if openai and not params.model:
            key = f"agent.{role}.model"
            raise GenlabError(f"{key} is empty; name one of OpenAI's models", key=key)
        self.model = params.model or "default"  # servers of one model accept any
        self.limit = params.max_output_tokens  # of an answer: doubled once, when one was cut
        # OpenAI's models that reason refuse max_tokens; many other servers know nothing else.
        self.left_out = frozenset({"max_tokens"} if openai else ())
        self.answered = False

    def write_request(
        self, question: Question, seed: int | None, left_out: frozenset[str]
    ) -> dict[str, Any]:
        """Arguments of `chat.completions.create`; a schema that is left out is stated in words."""
        messages = list(question.messages)
        options: dict[str, Any] = {"seed": seed, **dict.fromkeys(LIMITS, self.limit)}
        options["reasoning_effort"] = self.params.reasoning_effort or None
        options["tools"] = list(question.functions) or None
        if question.schema is not None:
            shape = question.schema.model_json_schema()
            definition = {"name": question.schema.__name__, "schema": shape}
            options["response_format"] = {"type": "json_schema", "json_schema": definition}
            if "response_format" in left_out:
                words = IN_WORDS.format(json.dumps(shape, ensure_ascii=False))
                # In the last message: many templates refuse a second system message.
                last = messages.pop()
                messages.append({**last, "content": f"{last['content']}\n\n{words}"})
        sent = {
            name: value
            for name, value in options.items()
            if value is not None and name not in left_out
        }
        if "max_tokens" in sent:
            sent.pop("max_completion_tokens", None)
        return {"model": self.model, "messages": messages, **sent}

    def describe_fix(self, error: EndpointError) -> str:
        """What a person has to correct; empty where nothing is known."""
        key, role = self.params.key, f"agent.{self.role}"
        missing = (
            f"model {self.model!r} is not there; correct {role}.model, or {role}.base_url (it often"
            " ends in /v1)"
        )
        fixes = {
            "wrong_key": f"{key} is rejected; set a valid key",
            "forbidden": f"{key} may not use model {self.model!r}; choose another key or model",
            "quota": f"{key} has no quota left; add credit",
            "unreachable": f"start the endpoint, or correct {role}.base_url or OPENAI_BASE_URL",
            "not_found": missing,
            "retired": missing,
        }
        fix = fixes.get(error.kind)
        return f"{excerpt(self.client.base_url)}: {error.reason}; {fix}" if fix else ""


def find_rejected(error: EndpointError, request: Mapping[str, Any]) -> str:
    """The parameter of `request` that an endpoint rejects; empty where the error is another."""
    if error.status not in (400, 404, 422, 501) or error.kind in ("refused", "quota"):
        return ""
    too_long = "context" in error.reason.lower()  # leaving out a schema may help, but by chance
    sent = [name for name in (LIMITS if too_long else SIGNS) if name in request]
    named = [name for name in sent if error.param.partition(".")[0] == name]
    named += [name for name in sent if re.search(SIGNS[name], error.reason, re.IGNORECASE)]
    if not named and error.status != 404:  # it does not say what it minds
        named = [name for name in sent if name not in LIMITS]
    return named[0] if named else ""
