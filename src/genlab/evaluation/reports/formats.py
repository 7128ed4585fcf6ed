"""Numbers and names as reports and pages write them, and the Jinja environment with both."""

import math
from collections.abc import Mapping
from typing import Any

import jinja2

SPELLINGS = {
    **{word: word.upper() for word in ("elbo", "gmm", "kid", "kl", "mse", "psnr", "ssim")},
    "frechet": "Fréchet",
}


def format_share(number: float | None) -> str:
    """A share as a percentage that never rounds a miss up to 100 % or a hit down to 0 %."""
    if number is None or math.isnan(number):
        return "–"
    if number in (0, 1):
        return f"{100 * number:.0f} %"
    # As many digits as the distance from the nearer end needs to show.
    digits = math.ceil(-math.log10(100 * min(number, 1 - number)) - 1e-6)
    return f"{100 * number:.{max(1, digits)}f} %"


def format_number(value: float | int | None) -> str:
    """A number with four significant digits; integers and large numbers with separators."""
    if value is None or math.isnan(value):
        return "–"
    whole = float(value).is_integer() and abs(value) >= 1000
    if isinstance(value, int) or whole or 9999.5 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:,.4g}"


def low_high(interval: Any) -> tuple[Any, Any]:
    """Both ends of an interval, which files hold as [low, high] or by these names."""
    low, high = (interval["low"], interval["high"]) if isinstance(interval, Mapping) else interval
    return low, high


def format_interval(interval: Any) -> str:
    """An interval in words: `0.9 to 0.92`; empty where there is none."""
    return "{} to {}".format(*map(format_number, low_high(interval))) if interval else ""


def format_spread(value: float) -> str:
    """A standard deviation over a few seeds, in two digits."""
    return f"{value:,.0f}" if abs(value) >= 99.5 else f"{value:,.2g}"


def format_value(found: Any) -> str:
    """Any value of a params or metrics file as text."""
    if found is None:
        return "–"
    if found in ([], {}):
        return "none"
    if isinstance(found, bool):
        return "yes" if found else "no"
    if isinstance(found, int | float):
        return format_number(found)
    if isinstance(found, Mapping):
        return ", ".join(f"{key}: {format_value(entry)}" for key, entry in found.items())
    if isinstance(found, list):
        return ", ".join(format_value(entry) for entry in found)
    return str(found)


def to_words(name: str) -> str:
    """`frechet_distance` as people write it."""
    return " ".join(SPELLINGS.get(word, word) for word in name.split("_"))


def to_heading(name: str) -> str:
    """`to_words` with a capital at the beginning."""
    shown = to_words(name)
    return shown[:1].upper() + shown[1:]


def template(*names: str, **filters: Any) -> jinja2.Template:
    """The first of the templates `names` that exists; a variable that is missing is an error.

    Filters are `share`, `number`, `words` and those given. HTML is escaped, markdown is not: its
    input is our own files.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("genlab.evaluation.reports"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "share": format_share,
        "number": format_number,
        "words": to_words,
        **filters,
    }
    return environment.select_template(names)
