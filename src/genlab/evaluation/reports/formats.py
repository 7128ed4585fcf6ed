"""Formats of numbers and names in reports and pages, and the Jinja environment with them."""

import math
from collections.abc import Mapping
from typing import Any

import jinja2

SPELLINGS = {
    **{word: word.upper() for word in ("elbo", "gmm", "kid", "kl", "mse", "psnr", "ssim")},
    "frechet": "Fréchet",
}


def format_share(number: float | None) -> str:
    """Format a fraction as a percentage; only 0 and 1 are rounded to 0 % and 100 %."""
    if number is None or math.isnan(number):
        return "–"
    if number in (0, 1):
        return f"{100 * number:.0f} %"
    # Enough digits to show the distance to the nearer of 0 and 1.
    digits = math.ceil(-math.log10(100 * min(number, 1 - number)) - 1e-6)
    return f"{100 * number:.{max(1, digits)}f} %"


def format_number(value: float | int | None) -> str:
    """Format a number with four significant digits; integers and large numbers with separators."""
    if value is None or math.isnan(value):
        return "–"
    whole = float(value).is_integer() and abs(value) >= 1000
    if isinstance(value, int) or whole or 9999.5 <= abs(value) < 1e9:
        return f"{value:,.0f}"
    return f"{value:,.4g}"


def low_high(interval: Any) -> tuple[Any, Any]:
    """Both ends of an interval, which files give as [low, high] or by these names."""
    if isinstance(interval, Mapping):
        return interval["low"], interval["high"]
    low, high = interval
    return low, high


def format_interval(interval: Any) -> str:
    """Format an interval: `0.9 to 0.92`; empty where there is none."""
    return "{} to {}".format(*map(format_number, low_high(interval))) if interval else ""


def format_spread(value: float) -> str:
    """Format a standard deviation over a few seeds with two digits."""
    return f"{value:,.0f}" if abs(value) >= 99.5 else f"{value:,.2g}"


def format_value(value: Any) -> str:
    """Format any value of a params or metrics file as text."""
    if value is None:
        return "–"
    if value in ([], {}):
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return format_number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {format_value(entry)}" for key, entry in value.items())
    if isinstance(value, list):
        return ", ".join(format_value(entry) for entry in value)
    return str(value)


def to_words(name: str) -> str:
    """Write a name such as `frechet_distance` in words: Fréchet distance."""
    return " ".join(SPELLINGS.get(word, word) for word in name.split("_"))


def to_heading(name: str) -> str:
    """Write a name in words with a capital at the beginning."""
    text = to_words(name)
    return text[:1].upper() + text[1:]


def load_template(*names: str, **filters: Any) -> jinja2.Template:
    """Load the first of the templates `names` that exists; undefined variables are errors.

    filters: in addition to `share`, `number` and `words`. HTML is escaped; Markdown is not, since
    its input are files that genlab wrote.
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
