"""Numbers as the report writes them."""

import math
from collections.abc import Mapping
from typing import Any


def share(number: float | None) -> str:
    """A share as a percentage that never rounds a miss up to 100 % or a hit down to 0 %."""
    if number is None:
        return "–"
    if number in (0, 1):
        return f"{100 * number:.0f} %"
    # As many digits as the distance from the nearer end needs to show.
    digits = math.ceil(-math.log10(100 * min(number, 1 - number)) - 1e-6)
    return f"{100 * number:.{max(1, digits)}f} %"


def number(value: float | int | None) -> str:
    """A number with four significant digits; integers and what is large whole, with separators."""
    if value is None:
        return "–"
    whole = float(value).is_integer() and abs(value) >= 1000
    if isinstance(value, int) or whole or 9999.5 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:,.4g}"


def spread(value: float) -> str:
    """A standard deviation: of a few seeds, it has no more than two digits to say."""
    return f"{value:,.0f}" if abs(value) >= 99.5 else f"{value:,.2g}"


def value(found: Any) -> str:
    """Anything that a params file or a metrics file holds, as table text."""
    if found in ([], {}):
        return "none"
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, int | float):
        return number(found)
    if isinstance(found, Mapping) and {"low", "high"} <= set(found):
        return f"{number(found['low'])} to {number(found['high'])}"
    if isinstance(found, Mapping):
        return ", ".join(f"{key}: {value(entry)}" for key, entry in found.items())
    if isinstance(found, list):
        return ", ".join(value(entry) for entry in found)
    return str(found)


def words(name: str) -> str:
    """`no_dominant_colour` as people write it."""
    return name.replace("_", " ")
