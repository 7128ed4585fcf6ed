"""Names of cases and avatars that are made of the names of photographs: no two the same."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection
from itertools import chain, count

LONGEST = 50  # characters of a photograph's name; a digest and a number still fit behind them
LOST = "\0"  # stands for a letter or number that has no spelling in ASCII

_LATIN = re.compile(r"LATIN (?:SMALL|CAPITAL) LETTER (\w+)(?: WITH .*)?")


def slug(text: str) -> str:
    """`text` in a-z, 0-9 and -: letters of other alphabets in a short digest of all of it.

    Accents go (Zoë: zoe).
    """
    text = unicodedata.normalize("NFC", text)
    plain = "".join(map(_spell, text))
    name = re.sub(r"[^a-z0-9]+", "-", plain.replace(LOST, "")).strip("-")
    parts = [name[:LONGEST].strip("-") or "photograph"]
    if LOST in plain or not name or len(name) > LONGEST:
        parts.append(hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:6])
    return "-".join(parts)


def free(name: str, taken: Collection[str]) -> str:
    """The first of `name`, `name-2`, `name-3` and so on that is not taken."""
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(one for one in names if one not in taken)


def _spell(character: str) -> str:
    """A character in small ASCII, `LOST` for a letter or number without such a spelling."""
    folded = unicodedata.normalize("NFKD", character.casefold())
    plain = "".join(part for part in folded if not unicodedata.combining(part))
    if plain.isascii():
        return plain
    if found := _LATIN.fullmatch(unicodedata.name(character, "")):
        return found[1].lower()
    return LOST if unicodedata.category(character)[0] in "LN" else "-"
