"""Differences between servers and chat templates, in answers and in requests.

Answers may have thoughts before them, channels of gpt-oss, or calls of functions as text. Messages
that a template refuses (TEMPLATE_ERRORS) are sent again in another form, and a request without the
parameter that an endpoint refuses.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from genlab.llm.transport import EndpointError

Message = dict[str, Any]
"""A chat message of OpenAI's: role, content, tool_calls, tool_call_id."""

TEMPLATE_ERRORS: Mapping[str, str] = {
    "tool ids": r"tool.?call.?ids?\b.{0,80}(alphanumeric|length)",  # Mistral 7B
    "several calls": r"single tool.?calls?",  # Llama 3.1
    "system role": r"system role|roles must alternate",  # Gemma 2, Mistral Nemo
}
"""Forms of messages that chat templates refuse, and the words of their errors."""

LIMITS = ("max_tokens", "max_completion_tokens")
OPTIONAL_PARAMETERS: Mapping[str, str] = {
    "max_tokens": r"\bmax_tokens\b",
    "max_completion_tokens": r"\bmax_completion_tokens\b",
    "seed": r"\bseed\b",
    "reasoning_effort": r"reasoning_effort|thinking",  # Ollama: "does not support thinking"
    "response_format": r"response_format|schema|grammar",  # llama.cpp: "failed to parse grammar"
}
"""Parameters that a request can do without, and the words of errors about them."""
CHARACTERS_PER_TOKEN = 8  # of prompts: more than any tokenizer's

CHANNEL = "<|channel|>"
MESSAGE = "<|message|>"
CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
CHANNEL_CALL = re.compile(
    r"to=(?:functions\.)?([\w-]+)[^<]*(?:<\|constrain\|>\w+)?<\|message\|>(.*?)(?:<\||\Z)",
    re.DOTALL,
)
FENCE = re.compile(r"\A\s*```[\w+-]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def strip_thoughts(text: str) -> str:
    """Return the text after a `<think>…</think>` prefix, or the last channel of gpt-oss.

    Some servers omit the opening tag.
    """
    if CHANNEL in text:
        final = text.rpartition(f"{CHANNEL}final")[2] if f"{CHANNEL}final" in text else text
        answer = final.rpartition(MESSAGE)[2]
        return re.split(r"<\|(?:return|end|start|call)\|>", answer)[0]
    head, closing_tag, answer = text.partition("</think>")
    head = head.lstrip()
    if head.startswith("<think>"):
        return answer
    # An answer may itself contain the tag: in JSON, or in prose about tags.
    is_quoted = head.startswith(("{", "[")) or "<think>" in head
    return answer if closing_tag and not is_quoted else text


def strip_fence(text: str) -> str:
    """Remove a fence around all of a text, or a closing fence without an opening one."""
    if fenced := FENCE.match(text):
        return fenced[1] + "\n"
    body = text.rstrip()
    return body.removesuffix("```") if body.endswith("\n```") and body.count("```") == 1 else text


def find_fenced(text: str) -> str | None:
    """Return the content of the last fence in a text; None where there is none."""
    blocks = re.findall(r"```[\w+-]*\n(.*?)```", text, re.DOTALL)
    return blocks[-1] if blocks else None


def normalize_name(name: str, names: Collection[str]) -> str:
    """Return the name of the function that a model means, without channel and namespace."""
    plain = name.partition("<|")[0].strip()
    short = plain.rpartition(".")[2]
    return short if plain not in names and short in names else plain


def parse_text_calls(text: str) -> list[dict[str, Any]]:
    """Parse calls that a server left in the text, as in the field `tool_calls` of a message."""
    calls: list[tuple[str, Any]] = []
    for content in CALL.findall(text):
        try:
            call = json.loads(content, strict=False)
        except (ValueError, RecursionError):
            continue
        if isinstance(call, dict) and isinstance(call.get("name"), str):
            calls.append((call["name"], call.get("arguments", call.get("parameters"))))
    if CHANNEL in text:
        calls += CHANNEL_CALL.findall(text)
    return [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]


def find_rejected(error: EndpointError, request: Mapping[str, Any]) -> str:
    """Find what an endpoint rejects: a name of OPTIONAL_PARAMETERS or of TEMPLATE_ERRORS.

    Empty where the error has another reason.
    """
    messages = request["messages"]
    roles = {message["role"] for message in messages}
    forms = {
        "tool ids": "tool" in roles,
        "several calls": any(len(message.get("tool_calls") or ()) > 1 for message in messages),
        "system role": "system" in roles,
    }
    if error.status in (400, 422, 500):
        for form, is_sent in forms.items():
            if is_sent and re.search(TEMPLATE_ERRORS[form], error.body, re.IGNORECASE):
                return form
    if error.status not in (400, 404, 422, 501) or error.kind in ("refused", "quota"):
        return ""
    # Where the context is full, only the limit can be the reason: a schema hardly matters.
    too_long = "context" in error.reason.lower()
    candidates = LIMITS if too_long else tuple(OPTIONAL_PARAMETERS)
    sent = [name for name in candidates if name in request]
    for name in sent:
        if re.search(OPTIONAL_PARAMETERS[name], error.reason, re.IGNORECASE):
            return name
    if error.kind in ("not_found", "retired"):
        return ""
    # It does not say which parameter it rejects: try without each of them.
    return next((name for name in sent if name not in LIMITS), "")


def lacks_functions(
    tokens: int, messages: Sequence[Message], functions: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether a prompt of so many tokens is too short to hold messages and functions.

    A template without functions silently drops them.
    """
    stated = json.dumps([list(messages), list(functions)], ensure_ascii=False)
    return 0 < tokens * CHARACTERS_PER_TOKEN < len(stated)


def adapt_messages(messages: Sequence[Message], refused: Collection[str]) -> list[Message]:
    """Adapt messages to a template; consecutive messages of the user are always joined.

    refused: names of TEMPLATE_ERRORS.
    """
    adapted: list[Message] = []
    system = ""
    for message in messages:
        if message["role"] == "system" and "system role" in refused:
            system += f"{message['content']}\n\n"
            continue
        if system and message["role"] == "user":
            message = {**message, "content": system + message["content"]}
            system = ""
        if adapted and message["role"] == adapted[-1]["role"] == "user":
            joined = f"{adapted[-1]['content']}\n\n{message['content']}"
            adapted[-1] = {**message, "content": joined}
        else:
            adapted.append(message)
    if "several calls" in refused:
        adapted = _separate_calls(adapted)
    return [_shorten_ids(message) for message in adapted] if "tool ids" in refused else adapted


def _separate_calls(messages: Sequence[Message]) -> list[Message]:
    """Split messages so that each has one call, followed by its result."""
    results = {m["tool_call_id"]: m for m in messages if m["role"] == "tool"}
    separate: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            continue
        calls = message.get("tool_calls") or [None]
        for number, call in enumerate(calls):
            single = message if number == 0 else {**message, "content": ""}
            if call is None:
                separate.append(single)
                continue
            separate.append({**single, "tool_calls": [call]})
            if call["id"] in results:
                separate.append(results[call["id"]])
    return separate


def _shorten_ids(message: Message) -> Message:
    """Replace the ids of calls by nine letters and digits that depend on the id."""

    def shorten(name: str) -> str:
        return hashlib.sha256(name.encode()).hexdigest()[:9]

    shortened = dict(message)
    if "tool_call_id" in message:
        shortened["tool_call_id"] = shorten(message["tool_call_id"])
    if message.get("tool_calls"):
        shortened["tool_calls"] = [
            {**call, "id": shorten(call["id"])} for call in message["tool_calls"]
        ]
    return shortened
