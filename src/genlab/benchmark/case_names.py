"""Names of cases and avatars that are made of the names of photographs: no two the same."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Iterator
from itertools import chain, count

LONGEST = 50  # characters of a photograph's name; a digest and a number still fit behind them

_LATIN = re.compile(r"LATIN (?:SMALL|CAPITAL) LETTER (\w+)(?: WITH .*)?")


def slug(text: str) -> str:
    """`text` in a-z, 0-9 and -: letters of other alphabets in a short digest of all of it.

    Accents go (Zoë: zoe); what has no Latin letter is not lost, since the digest tells it apart.
    """
    text = unicodedata.normalize("NFC", text)
    letters = [_plain(character) for character in text]
    lost = any(new is None for new in letters)
    name = re.sub(r"[^a-z0-9]+", "-", "".join(new or "" for new in letters)).strip("-")
    parts = [name[:LONGEST].strip("-") or "photograph"]
    if lost or not name or len(name) > LONGEST:
        parts.append(hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:6])
    return "-".join(parts)


def numbered(name: str) -> Iterator[str]:
    """`name`, `name-2`, `name-3` and so on."""
    return chain([name], (f"{name}-{number}" for number in count(2)))


def free(name: str, taken: Collection[str]) -> str:
    """The first of `numbered(name)` that is not taken."""
    return next(one for one in numbered(name) if one not in taken)


def _plain(character: str) -> str | None:
    """A character in ASCII, small; None for a letter or number that has no such spelling."""
    folded = unicodedata.normalize("NFKD", character.casefold())
    plain = "".join(part for part in folded if not unicodedata.combining(part))
    if plain.isascii():
        return plain
    found = _LATIN.fullmatch(unicodedata.name(character, ""))
    if found:
        return found[1].lower()
    return None if unicodedata.category(character)[0] in "LN" else "-"
