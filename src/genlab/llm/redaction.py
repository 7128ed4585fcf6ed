"""Remove secrets from text before it is sent, stored or shown."""

import os
import re
from collections.abc import Iterable
from typing import Any

from genlab.core.text import map_strings

REDACTED = "[redacted]"
EXCERPT = 200  # characters of a service's text in a message of ours
_SHORTEST_SECRET = 8  # shorter values ("none", "ollama") protect nothing and damage texts
_SECRET_NAME = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)$", re.IGNORECASE)
_SHAPES = (
    (re.compile(r"\bsk-(?=[\w-]*\d)[\w-]{8,}|\bsk-[\w-]{20,}"), REDACTED),
    (re.compile(r"\b(?:hf|gh[pousr])_[A-Za-z0-9]{20,}"), REDACTED),
    (
        re.compile(r"\b(bearer)\s+(?:(?=\S*\d)[\w.~+/=-]{8,}|[\w.~+/=-]{20,})", re.IGNORECASE),
        rf"\1 {REDACTED}",
    ),
    (re.compile(r"://[^/\s@]{1,400}@"), f"://{REDACTED}@"),
    (re.compile(r"([?&](?:api[-_]?)?(?:key|token)=)[^&\s]+", re.IGNORECASE), rf"\1{REDACTED}"),
)


def redact(text: str, secrets: Iterable[str] = ()) -> str:
    """Replace `secrets`, the environment's keys and everything that looks like a key.

    Lone surrogates, which no file and no request can hold, become question marks.
    """
    return _replace(text, _find_secrets(secrets))


def redact_strings(value: Any, secrets: Iterable[str] = ()) -> Any:
    """Apply `redact` to every string and key of a JSON value."""
    values = _find_secrets(secrets)
    return map_strings(value, lambda text: _replace(text, values))


def _find_secrets(secrets: Iterable[str]) -> list[str]:
    """List the secrets and the environment's keys, longest first: one may begin with another."""
    keys = {value for name, value in os.environ.items() if _SECRET_NAME.search(name)}
    values = {value.strip() for value in keys.union(secrets)}
    return sorted((v for v in values if len(v) >= _SHORTEST_SECRET), key=len, reverse=True)


def _replace(text: str, secrets: Iterable[str]) -> str:
    text = text.encode("utf-8", "replace").decode("utf-8")
    for value in secrets:
        text = text.replace(value, REDACTED)
    for shape, replacement in _SHAPES:
        text = shape.sub(replacement, text)
    return text


def excerpt(text: str, secrets: Iterable[str] = (), length: int = EXCERPT) -> str:
    """Return `text` as one printable line of at most `length` characters, without secrets.

    A longer text keeps its head and its tail, since the cause is often at the end.
    """
    half = 1 << 15
    if len(text) > 2 * half:
        text = f"{text[:half]} … {text[-half:]}"
    clean = redact(text, secrets)
    printable = "".join(c if c.isprintable() else " " for c in clean)
    line = " ".join(printable.split())
    if len(line) <= length:
        return line
    tail = length // 3
    return f"{line[: length - tail - 3]} … {line[-tail:]}"
