"""Names of cases and avatars that are made of the names of photographs: no two the same."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection
from itertools import chain, count

LONGEST = 50  # characters of a photograph's name; a digest and a number still fit behind them


def slug(text: str) -> str:
    """`text` in a-z, 0-9 and -, without accents (Zoë: zoe).

    Letters of other alphabets are in a short digest of all of it, and so is what is too long.
    """
    folded = unicodedata.normalize("NFKD", text.casefold())
    plain = "".join(part for part in folded if not unicodedata.combining(part))
    name = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")
    parts = [name[:LONGEST].strip("-") or "photograph"]
    lost = any(part.isalnum() and not part.isascii() for part in plain)
    if lost or not name or len(name) > LONGEST:
        whole = unicodedata.normalize("NFC", text)  # one digest, however accents are encoded
        parts.append(hashlib.sha256(whole.encode("utf-8", "surrogateescape")).hexdigest()[:6])
    return "-".join(parts)


def free(name: str, taken: Collection[str]) -> str:
    """The first of `name`, `name-2`, `name-3` and so on that is not taken."""
    names = chain([name], (f"{name}-{number}" for number in count(2)))
    return next(one for one in names if one not in taken)
