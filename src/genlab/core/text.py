"""Text to show, made safe and shortened, and text that states a number."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

# Complete sequences of ECMA-48, so that no remainder such as "[31m" is left.
_ESCAPES = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # OSC, DCS, SOS, PM, APC: titles, links
    r"|\x1b[ -/]*[0-~]"
)
_LINE_ENDS = re.compile("\r\n?|[\x85\u2028\u2029]")
# Control characters except \t and \n; soft hyphens; zero-width, bidirectional, tag and annotation
# characters.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def make_printable(text: str) -> str:
    """Remove control, escape and bidirectional characters except line breaks and tabs.

    Lone surrogates, which cannot be encoded as UTF-8, become question marks.
    """
    text = text.encode("utf-8", "replace").decode("utf-8")
    return _INVISIBLE.sub("", _LINE_ENDS.sub("\n", _ESCAPES.sub("", text)))


def map_strings(value: Any, change: Callable[[str], str]) -> Any:
    """Apply `change` to every string and key of a JSON value."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(str(key)): map_strings(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [map_strings(item, change) for item in value]
    return value


def join_first(names: Iterable[str], most: int = 3) -> str:
    """Join the first names for a message, with the number of the remaining ones."""
    names = list(names)
    text = ", ".join(names[:most])
    return f"{text} and {len(names) - most:,} more" if len(names) > most else text


def read_number(value: Any) -> Any:
    """Convert text such as "1e-3" to the number that it states; other values stay as they are.

    Language models put numbers in quotes, and PyYAML by itself reads 1e-3 as text.
    """
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        with suppress(ValueError):
            return kind(value)
    return value
