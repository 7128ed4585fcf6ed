"""What an endpoint understands of a request, learnt from what it rejects."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import BaseModel

from genlab.llm.answers import response_format
from genlab.llm.errors import EndpointError

LIMITS = ("max_tokens", "max_completion_tokens")
# How errors name a parameter: in OpenAI's words and in those of Ollama, vLLM and llama.cpp.
SIGNS = {
    **{limit: rf"\b{limit}\b" for limit in LIMITS},
    "seed": r"\bseed\b",
    "reasoning_effort": r"reasoning|thinking|effort",
    "response_format": r"response_format|schema|structured|grammar",
    "tools": r"\btools?\b|function",
}
IN_WORDS = "Answer with one JSON object and nothing else. It must fit this JSON schema: {}"
CALLS_IN_WORDS = (
    'Call a function by answering with one JSON object, {{"name": ..., "arguments": {{...}}}}, and'
    " nothing else. Answer in words where no call is left to make. Functions: {}"
)


@dataclass(frozen=True)
class Dialect:
    """Parameters that an endpoint does without. extra: its own fields for requests with a schema.

    Without response_format and tools, schema and functions are stated in words.
    """

    left_out: frozenset[str] = frozenset()
    extra: Mapping[str, Any] = field(default_factory=dict)

    def write_request(
        self,
        messages: Sequence[Mapping[str, Any]],
        schema: type[BaseModel] | None,
        functions: Sequence[Mapping[str, Any]],
        limit: int,
        options: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Arguments of `chat.completions.create`. options: model, and what may be left out."""
        chat = [dict(message) for message in messages]
        request: dict[str, Any] = {k: v for k, v in options.items() if k not in self.left_out}
        request |= {name: limit for name in LIMITS if name not in self.left_out}
        if "max_tokens" in request:
            request.pop("max_completion_tokens", None)
        if functions and "tools" not in self.left_out:
            request["tools"] = list(functions)
        elif functions:
            known = json.dumps([each.get("function", each) for each in functions])
            chat = _add(_without_calls(chat), CALLS_IN_WORDS.format(known))
        if schema is not None and "response_format" not in self.left_out:
            request["response_format"] = response_format(schema)
            request["response_format"]["json_schema"]["strict"] &= "strict" not in self.left_out
            request["extra_body"] = dict(self.extra)
        elif schema is not None:
            shape = json.dumps(schema.model_json_schema(), ensure_ascii=False)
            chat = _add(chat, IN_WORDS.format(shape))
        return {**request, "messages": chat}

    def adapt(self, error: EndpointError, request: Mapping[str, Any]) -> Dialect | None:
        """The dialect to try next; None where the error is not about a parameter."""
        if error.status not in (400, 404, 422, 500, 501) or error.kind in ("refused", "quota"):
            return None
        if error.status == 500 and not re.search("requires|support|implement", error.reason):
            return None  # it broke
        too_long = "context" in error.reason.lower()  # leaving out tools may help, but by chance
        sent = [name for name in (LIMITS if too_long else SIGNS) if name in request]
        named = [name for name in sent if error.param.partition(".")[0] == name]
        named += [name for name in sent if re.search(SIGNS[name], error.reason, re.IGNORECASE)]
        if not named and error.status in (400, 422, 501):  # it does not say what it minds
            named = [name for name in sent if name not in LIMITS]
        if not named:
            return None
        name = named[0]
        if name == "response_format" and request[name]["json_schema"]["strict"]:
            name = "strict"
        return replace(self, left_out=self.left_out | {name})


def _add(chat: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """`chat` with `text` at its end: many templates refuse a second system message."""
    if chat and chat[-1]["role"] == "user":
        return [*chat[:-1], {**chat[-1], "content": f"{chat[-1]['content']}\n\n{text}"}]
    return [*chat, {"role": "user", "content": text}]


def _without_calls(chat: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Calls and their results as plain messages."""
    plain = []
    for message in chat:
        role, content = message["role"], message.get("content") or ""
        calls = [json.dumps(call["function"]) for call in message.get("tool_calls") or ()]
        if role == "tool":
            role, content = "user", f"Result of the call: {content}"
        plain.append({"role": role, "content": "\n".join(filter(None, [content, *calls]))})
    return plain
