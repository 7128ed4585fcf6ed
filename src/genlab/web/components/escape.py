"""Texts from outside, made harmless and bounded.

Titles, reasons and names may contain anything: markup, ten thousand characters, marks that turn the
direction of text.
"""

from html import escape

LONGEST = 120  # characters of a foreign text
LONGEST_SENTENCE = 400
MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|~$:^&@/")


def line(foreign: object, longest: int = LONGEST) -> str:
    """A foreign text as one bounded line, without marks that turn the direction of text."""
    # Controls, formats and lone surrogates are not printable.
    fit = (c if c.isprintable() else " " for c in str(foreign)[: 4 * longest])
    shown = " ".join("".join(fit).split())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def text(foreign: object, longest: int = LONGEST) -> str:
    """A foreign text as HTML."""
    return f"<bdi>{escape(line(foreign, longest))}</bdi>"


def label(foreign: object, longest: int = LONGEST_SENTENCE) -> str:
    """A foreign text for a widget's label, with the signs of Markdown escaped."""
    return "".join("\\" + c if c in MARKDOWN else c for c in line(foreign, longest))
