"""Forms that servers and chat templates give to what they mean, and want of what they are given.

Answers: thoughts before an answer, channels of gpt-oss, calls of functions as text. Requests: what
a template refuses (TEMPLATE_SIGNS) is given to it in another form.
"""

import hashlib
import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from genlab.llm.transport import EndpointError

Message = dict[str, Any]
"""A chat message of OpenAI's: role, content, tool_calls, tool_call_id."""

TEMPLATE_SIGNS: Mapping[str, str] = {
    "tool ids": r"tool.?call.?ids?\b.{0,80}(alphanumeric|length)",
    "several calls": r"(single|one|multiple|parallel) tool.?calls?|tool.?calls? at once",
    "system role": r"system.{0,5}(role|message|prompt)|role.{0,10}system|roles? must alternate",
}
"""What chat templates refuse, by name, and how their errors name it."""

LIMITS = ("max_tokens", "max_completion_tokens")
SIGNS = {
    **{limit: rf"\b{limit}\b" for limit in LIMITS},
    "seed": r"\bseed\b",
    "reasoning_effort": r"reasoning|thinking|effort",
    "response_format": r"response_format|schema|structured|grammar",
}
"""Parameters that an endpoint may do without, and how errors name them."""
CHARACTERS_PER_TOKEN = 8  # of prompts: more than any tokenizer's

CHANNEL, MESSAGE = "<|channel|>", "<|message|>"
CALL = re.compile(r"<tool_call>(.*?)(?:</tool_call>|\Z)", re.DOTALL)
CHANNEL_CALL = re.compile(
    r"to=(?:functions\.)?([\w-]+)[^<]*(?:<\|constrain\|>\w+)?<\|message\|>(.*?)(?:<\||\Z)",
    re.DOTALL,
)
FENCE = re.compile(r"\A\s*```[\w+-]*\n(.*?)\n?```\s*\Z", re.DOTALL)


def strip_thoughts(text: str) -> str:
    """The answer itself: after a `<think>…</think>` prefix, or the last channel of gpt-oss.

    Some servers leave the first tag out.
    """
    if CHANNEL in text:
        final = text.rpartition(f"{CHANNEL}final")[2] if f"{CHANNEL}final" in text else text
        answer = final.rpartition(MESSAGE)[2]
        return re.split(r"<\|(?:return|end|start|call)\|>", answer)[0]
    head, end, answer = text.partition("</think>")
    stated = head.lstrip().startswith(("{", "[")) or "<think>" in head  # in code, or in prose
    return answer if head.lstrip().startswith("<think>") or (end and not stated) else text


def strip_fence(text: str) -> str:
    """The content of a fence around all of a text, or the text without a closing fence alone."""
    if fenced := FENCE.match(text):
        return fenced[1] + "\n"
    body = text.rstrip()
    return body.removesuffix("```") if body.endswith("\n```") and body.count("```") == 1 else text


def find_fenced(text: str) -> str | None:
    """The content of the last fence in a text; None where there is none."""
    blocks = re.findall(r"```[\w+-]*\n(.*?)```", text, re.DOTALL)
    return blocks[-1] if blocks else None


def name_function(name: str, names: Collection[str]) -> str:
    """The function that a model means: without a channel behind it or a space of names before."""
    plain = name.partition("<|")[0].strip()
    short = plain.rpartition(".")[2]
    return short if plain not in names and short in names else plain


def list_text_calls(text: str) -> list[dict[str, Any]]:
    """Calls that a server left in the text, as in the field `tool_calls` of a message."""
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
    """What of `request` an endpoint rejects: a parameter, or a name of TEMPLATE_SIGNS.

    Empty where the error is another.
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
            if is_sent and re.search(TEMPLATE_SIGNS[form], error.body, re.IGNORECASE):
                return form
    if error.status not in (400, 404, 422, 501) or error.kind in ("refused", "quota"):
        return ""
    too_long = "context" in error.reason.lower()  # leaving out a schema may help, but by chance
    sent = [name for name in (LIMITS if too_long else SIGNS) if name in request]
    named = [name for name in sent if re.search(SIGNS[name], error.reason, re.IGNORECASE)]
    if not named and error.kind not in ("not_found", "retired"):  # it does not say what it minds
        named = [name for name in sent if name not in LIMITS]
    return named[0] if named else ""


def lacks_functions(
    tokens: int, messages: Sequence[Message], functions: Sequence[Mapping[str, Any]]
) -> bool:
    """Whether a prompt of so many tokens is too short to hold messages and functions.

    A template that knows no functions drops them without a word.
    """
    stated = json.dumps([list(messages), list(functions)], ensure_ascii=False)
    return 0 < tokens * CHARACTERS_PER_TOKEN < len(stated)


def adapt(messages: Sequence[Message], refused: Collection[str]) -> list[Message]:
    """Messages as a template takes them: never two of the user in a row.

    refused: names of TEMPLATE_SIGNS.
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
    """One call per message, each followed by its result."""
    results = {m["tool_call_id"]: m for m in messages if m["role"] == "tool"}
    separate: list[Message] = []
    for message in messages:
        if message["role"] == "tool":
            continue
        calls = message.get("tool_calls") or [None]
        for number, call in enumerate(calls):
            spoken = message if not number else {**message, "content": ""}
            separate.append(spoken if call is None else {**spoken, "tool_calls": [call]})
            if call is not None and call["id"] in results:
                separate.append(results[call["id"]])
    return separate


def _shorten_ids(message: Message) -> Message:
    """Ids of nine letters and digits, the same for the same id."""

    def shorten(name: str) -> str:
        return hashlib.sha256(name.encode()).hexdigest()[:9]

    changed = dict(message)
    if "tool_call_id" in changed:
        changed["tool_call_id"] = shorten(changed["tool_call_id"])
    if changed.get("tool_calls"):
        changed["tool_calls"] = [{**c, "id": shorten(c["id"])} for c in changed["tool_calls"]]
    return changed
