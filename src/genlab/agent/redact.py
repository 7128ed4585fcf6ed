"""Texts without keys, before they leave, are kept, or are told."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

EXCERPT = 200  # characters of other people's text in a line of ours
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
