"""Escape and shorten untrusted text.

Titles, reasons and names may contain anything: markup, ten thousand characters, characters that
reverse the direction of text.
"""

from html import escape

LONGEST = 120  # characters
LONGEST_SENTENCE = 400
MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|~$:^&@/")


def line(untrusted: object, longest: int = LONGEST) -> str:
    """Return untrusted text as one line of at most `longest` printable characters."""
    # Control characters, format characters (text direction) and lone surrogates are not printable.
    printable = (c if c.isprintable() else " " for c in str(untrusted)[: 4 * longest])
    words = " ".join("".join(printable).split())
    return words if len(words) <= longest else words[: longest - 1] + "…"


def text(untrusted: object, longest: int = LONGEST) -> str:
    """Return untrusted text as HTML."""
    return f"<bdi>{escape(line(untrusted, longest))}</bdi>"


def label(untrusted: object, longest: int = LONGEST_SENTENCE) -> str:
    """Return untrusted text for a widget's label, with the characters of Markdown escaped."""
    return "".join("\\" + c if c in MARKDOWN else c for c in line(untrusted, longest))
