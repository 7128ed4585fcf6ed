"""Replies of a chat endpoint, sound and broken; `Server` gives them on loopback."""

from __future__ import annotations

import json
from typing import Any

from loopback import Reply, Request, Server, html, payload, raw, status

__all__ = ["MODEL", "Reply", "Request", "Server", "html", "raw", "status"]

MODEL = "scripted"


def completion(
    content: str | None,
    *,
    finish: str = "stop",
    refusal: str | None = None,
    usage: object = (11, 7),
) -> dict[str, Any]:
    """A chat completion as OpenAI words it; `usage` is (prompt, completion) tokens or any value."""
    if isinstance(usage, tuple):
        usage = {
            "prompt_tokens": usage[0],
            "completion_tokens": usage[1],
            "total_tokens": sum(usage),
        }
    message = {"role": "assistant", "content": content, "refusal": refusal}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": usage,
    }


def good(content: str | dict[str, Any], **options: Any) -> Reply:
    """A whole answer; a dict is sent as JSON text. Options as in `completion`."""
    text = content if isinstance(content, str) else json.dumps(content)
    return payload(completion(text, **options))


def prose(content: dict[str, Any]) -> Reply:
    """JSON in a fence, in the middle of prose."""
    text = f"Sure! Here {{as asked}} it is:\n```json\n{json.dumps(content)}\n```\nI hope it helps."
    return good(text)


def without_schema(otherwise: Reply, code: int = 400) -> Reply:
    """Refuse requests with a response_format by `code`, and answer the others."""
    refusal = status(code, message="response_format json_schema is not supported")
    return Reply(make=lambda request: refusal if request.structured else otherwise)


def hang() -> Reply:
    """Take the question and say nothing."""
    return Reply(hang=True)


def truncated() -> Reply:
    """Close the connection in the middle of the body."""
    return Reply(json.dumps(completion("never seen")).encode(), tear=True)


def dripping(seconds: float) -> Reply:
    """A whole answer at one byte every `seconds`: no read times out, and it takes for ever."""
    return Reply(json.dumps(completion("too slow")).encode(), drip=seconds)


def empty() -> Reply:
    """A completion without a word."""
    return good("")


def refusal() -> Reply:
    """The model declines."""
    return payload(completion(None, refusal="I can't help with that."))


def filtered() -> Reply:
    """The endpoint's content filter steps in."""
    return good("half an ans", finish="content_filter")


def cut_off(content: str = '{"blocks": ') -> Reply:
    """An answer that reached its limit of tokens."""
    return good(content, finish="length")


def huge(size: int) -> Reply:
    """A completion of about `size` bytes."""
    return good("x" * size)


def invalid_utf8() -> Reply:
    """A completion with bytes that are no text."""
    return raw(json.dumps(completion("HERE")).encode().replace(b"HERE", b"\xff\xfe\x80"))


AT_ONCE = {"Retry-After": "0.01"}
# what an endpoint may give once or twice before it gives a sound answer
BROKEN: dict[str, Reply] = {
    "rate limit": status(429, AT_ONCE),
    "server error": status(500, AT_ONCE),
    "truncated": truncated(),
    "empty": empty(),
    "cut off": cut_off(),
    "a page": html(),
    "no text": invalid_utf8(),
    "too deep": raw(b"[" * 100_000),
    "an error with status 200": raw(b'{"error": {"message": "busy"}}'),
    "no choice": raw(b'{"choices": [], "usage": {"prompt_tokens": -1}}'),
    "no JSON": raw(b'{"choices": [{"message": {"content": NaN}}]}'),
    "prose": good("I would rather not use JSON."),
    "an answer that nests": good('{"blocks": ' * 5000),
    "half of a pair": good('{"decision": "\\ud800", "analysis": "\\ud800"}'),
}
