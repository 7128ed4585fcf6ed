"""Lengths and lines of type on a page, in its pixels."""

import math
from collections.abc import Mapping

from matplotlib.font_manager import FontProperties
from matplotlib.textpath import text_to_path

from genlab.evaluation.figures.style import STYLE, WIDTH

DPI = int(STYLE["savefig.dpi"])
DOTS = DPI / 72
"""Pixels of a point of the type size."""
PAGE = int(WIDTH * DPI)
MARGIN, GAP = 12, 8


def same_lengths(what: str, counts: Mapping[str, int]) -> None:
    """Raise a ValueError that names `what` where the counts differ."""
    if len(set(counts.values())) > 1:
        raise ValueError(f"{what}: as many of each are needed, got {dict(counts)}")


def leading(size: int) -> int:
    """Pixels from one line of words to the next."""
    return math.ceil(1.3 * size * DOTS)


def length(text: str, size: int, *, bold: bool = False) -> float:
    """Pixels of a line of words."""
    font = FontProperties(family="DejaVu Sans", size=size, weight="bold" if bold else "normal")
    width, _, _ = text_to_path.get_text_width_height_descent(text, font, ismath=False)
    return float(width) * DOTS


def lines(text: str, span: float, size: int, *, bold: bool = False) -> list[str]:
    """Text in lines of at most `span` pixels; a longer word has a line of its own."""
    broken = []
    for paragraph in text.splitlines():
        line = ""
        for word in paragraph.split():
            longer = f"{line} {word}".lstrip()
            if line and length(longer, size, bold=bold) > span:
                broken.append(line)
                longer = word
            line = longer
        broken.append(line)
    return broken
