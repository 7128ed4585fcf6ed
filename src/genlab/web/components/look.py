"""How the pages look: the figures' inks in two lights, tables, tags, and pictures cell by cell."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from genlab.grids.palette import to_rgb

Items = npt.NDArray[np.uint8]

LIGHT: Mapping[str, str] = {
    "ink": "#22282e",
    "muted": "#5d6770",
    "rule": "#d8dde2",
    "card": "#f6f8f9",
    "good": "#1c6a62",
    "warn": "#8f4a08",
    "bad": "#a32331",
    "blue": "#2b6ca3",
}
DARK: Mapping[str, str] = {
    "ink": "#e4e8ec",
    "muted": "#a2acb6",
    "rule": "#3a434c",
    "card": "#1d2329",
    "good": "#7ad0c6",
    "warn": "#f2b679",
    "bad": "#f5a3ab",
    "blue": "#6fb0e3",
}
"""Inks of text on the page's ground; each is read at a contrast of 4.5 or more, tested."""

SERIES_LIGHT = (
    "#2b6ca3", "#d97a1e", "#2a8c82", "#7d5ba6", "#c22f3d", "#8a6d3b", "#5f7f2e", "#b5577f",
)  # fmt: skip
SERIES_DARK = (
    "#6fb0e3", "#efa45c", "#5cc0b4", "#b79be0", "#f08a94", "#cbb07a", "#a3c46c", "#e394b8",
)  # fmt: skip
"""What charts draw with, `chartCategoricalColors` of the theme."""

# Streamlit sets color-scheme on the app, so light-dark() follows its own switch of themes.
_INKS = "".join(f"--g-{name}:light-dark({LIGHT[name]},{DARK[name]});" for name in LIGHT)

STYLE = f"""<style>
.stApp{{{_INKS}}}
.stMainBlockContainer{{max-width:1280px;padding:4.25rem 2rem 4rem}}
@media(max-width:640px){{.stMainBlockContainer{{padding:4rem 1rem 3rem}}}}
.stApp h1{{padding-top:0;letter-spacing:-.01em}}
.g-lead{{color:var(--g-muted);margin:-.35rem 0 .4rem;max-width:46rem}}
.g-scroll{{overflow-x:auto;border:1px solid var(--g-rule);border-radius:8px}}
.g-table{{border-collapse:collapse;width:100%;font-size:.93rem;color:var(--g-ink)}}
.g-table caption{{text-align:left;color:var(--g-muted);padding:.55rem .8rem;caption-side:top}}
/* A table may be wider than a phone: its caption stays where it can be read. */
.g-table caption span{{display:inline-block;position:sticky;left:.8rem;
max-width:calc(100vw - 4rem)}}
.g-table th{{text-align:left;font-weight:600;color:var(--g-muted);background:var(--g-card)}}
.g-table th,.g-table td{{padding:.42rem .8rem;border-bottom:1px solid var(--g-rule);
vertical-align:top}}
.g-table tbody tr:last-child td{{border-bottom:0}}
.g-table .num{{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}}
.g-table .name{{white-space:nowrap}}.g-table .why{{min-width:17rem}}
@media(max-width:640px){{.g-table .name{{white-space:normal;min-width:8.5rem}}}}
.g-scale{{position:relative;display:inline-block;width:132px;height:18px;vertical-align:middle}}
.g-scale i{{position:absolute;top:50%;transform:translate(-50%,-50%)}}
.g-scale .axis{{left:50%;width:100%;height:1px;background:var(--g-rule)}}
.g-scale .bar{{width:2px;height:15px;background:var(--g-muted)}}
.g-scale .stretch{{width:0;height:15px;border-left:2px dotted var(--g-muted)}}
.g-scale .span{{height:5px;min-width:3px;background:var(--g-blue);opacity:.45;border-radius:3px}}
.g-scale .dot{{width:9px;height:9px;border-radius:50%;background:var(--g-blue)}}
.g-tag{{display:inline-flex;margin:0 .1em;
align-items:center;gap:.38em;font-weight:600;white-space:nowrap}}
.g-tag i{{width:.62em;height:.62em;border-radius:50%;background:currentColor;flex:none}}
.g-tag.open i{{background:none;border:2px solid currentColor}}
.g-good{{color:var(--g-good)}}.g-warn{{color:var(--g-warn)}}
.g-bad{{color:var(--g-bad)}}.g-quiet{{color:var(--g-muted)}}
.g-pictures{{display:flex;flex-wrap:wrap;gap:.75rem;padding:.1rem 0}}
.g-picture{{margin:0;display:flex;flex-direction:column;gap:.25rem}}
.g-picture img,.g-pixels{{image-rendering:pixelated;border-radius:3px;display:block;
outline:1px solid var(--g-rule)}}
.g-picture figcaption{{color:var(--g-muted);font-size:.82rem;line-height:1.25}}
.g-numbers{{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:.75rem;
margin:0!important;padding:0!important}}
.g-numbers div{{border:1px solid var(--g-rule);border-radius:8px;padding:.55rem .75rem;min-width:0}}
.g-numbers dt{{color:var(--g-muted);font-size:.82rem;font-weight:400}}
.g-numbers dd{{margin:0!important;padding:0;font-size:1.35rem;font-variant-numeric:tabular-nums}}
.g-numbers small{{display:block;color:var(--g-muted);font-size:.8rem;line-height:1.3}}
.g-legend{{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;list-style:none;
margin:0!important;padding:0!important}}
.g-legend li{{display:flex;align-items:center;gap:.45em;margin:0!important;font-size:.9rem}}
.g-legend i{{width:1.4em;height:3px;border-radius:2px;flex:none}}
/* White on the dark theme's light primary colour can't be read. */
.stApp [data-testid^=stBaseButton-primary]:not(:disabled) p{{color:light-dark(#fff,#14181c)}}
/* Figures are printed on white: a card of paper, in the dark as well. */
.stImage img{{background:#fff;padding:.75rem;border:1px solid var(--g-rule);border-radius:8px;
max-width:60rem!important;box-sizing:border-box}}
@media(max-width:640px){{.stImage{{overflow-x:auto}}.stImage img{{min-width:40rem}}}}
[data-testid="stImageCaption"]{{text-align:left!important;position:sticky;left:0;
width:auto!important;max-width:min(60rem,calc(100vw - 2rem))!important}}
[data-testid="stCaptionContainer"],[data-testid="stCaptionContainer"] *,
[data-testid="stImageCaption"],[data-testid="stImageCaption"] *{{
color:var(--g-muted)!important;opacity:1!important}}
[data-testid="stMultiSelectTagsContainer"] [data-tag]{{
background:light-dark(#2b6ca3,#2f5f88)!important}}
.stApp :focus-visible{{outline-offset:2px}}
</style>"""


class Column(NamedTuple):
    """A column of a table: the key of its cells, its heading, and whether it holds numbers."""

    key: str
    title: str
    number: bool = False


class Markup(str):
    """HTML that was made here and needs no escaping."""

    __slots__ = ()


def text(value: object) -> str:
    """A value as HTML: escaped, unless it is Markup; nothing for None."""
    if isinstance(value, Markup):
        return str(value)
    return "–" if value is None else escape(str(value))


def tag(words: str, tone: str, *, hollow: bool = False) -> Markup:
    """A state in words with a dot of its colour before it; tone: good, warn, bad or quiet."""
    shape = " open" if hollow else ""
    return Markup(f'<span class="g-tag g-{tone}{shape}"><i></i>{escape(words)}</span>')


def table(columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], caption: str) -> str:
    """Rows as an HTML table that scrolls sideways where the page is narrow."""
    head = "".join(f'<th scope="col"{_class(c)}>{escape(c.title)}</th>' for c in columns)
    body = "".join(
        "<tr>" + "".join(f"<td{_class(c)}>{text(row.get(c.key))}</td>" for c in columns) + "</tr>"
        for row in rows
    )
    return (
        '<div class="g-scroll" tabindex="0" role="region"'
        f' aria-label="{escape(caption)}"><table class="g-table"><caption><span>'
        f"{escape(caption)}</span></caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def numbers(found: Iterable[tuple[str, str, str]]) -> str:
    """Key numbers side by side: label, value, and what is said in small below."""
    cells = "".join(
        f"<div><dt>{escape(label)}</dt><dd>{escape(shown)}"
        f"<small>{escape(below) or '&nbsp;'}</small></dd></div>"
        for label, shown, below in found
    )
    return f'<dl class="g-numbers">{cells}</dl>'


def legend(names: Sequence[str]) -> str:
    """Which colour is which, for all charts of a page; the first eight have one of their own."""
    inks = zip(SERIES_LIGHT, SERIES_DARK, strict=True)
    entries = "".join(
        f'<li><i style="background:light-dark({light},{dark})"></i>{escape(name)}</li>'
        for name, (light, dark) in zip(names, inks, strict=False)
    )
    return f'<ul class="g-legend" aria-label="Colours of the runs">{entries}</ul>'


def _class(column: Column) -> str:
    if column.number:
        return ' class="num"'
    kind = {"name": "name", "what": "name", "why": "why"}.get(column.key)
    return f' class="{kind}"' if kind else ""


def pixels(item: Items) -> Items:
    """A grid (h, w) or an image (h, w, 1 or 3) as RGB, uint8 (h, w, 3)."""
    rgb = to_rgb(item) if item.ndim == 2 else item
    return np.broadcast_to(rgb, (*rgb.shape[:2], 3))


def png(item: Items) -> bytes:
    """A grid or an image as a PNG, a pixel a cell: the browser draws it larger, and crisp."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels(item))).save(buffer, format="PNG")
    return buffer.getvalue()


def uri(item: Items) -> str:
    """The same as the address of an <img>."""
    return "data:image/png;base64," + base64.b64encode(png(item)).decode("ascii")


def picture(item: Items, alt: str, caption: object = "", side: int = 112) -> Markup:
    """A grid or an image, `side` CSS pixels wide, with words for those who don't see it."""
    height = side * item.shape[0] // item.shape[1]
    return framed(uri(item), alt, caption, side, height)


def framed(address: str, alt: str, caption: object, side: int, height: int) -> Markup:
    """A picture at `address`, a data URI, `side` x `height` CSS pixels."""
    below = f"<figcaption>{text(caption)}</figcaption>" if caption else ""
    return Markup(
        f'<figure class="g-picture" style="width:{side}px"><img src="{address}"'
        f' alt="{escape(alt)}" width="{side}" height="{height}">{below}</figure>'
    )


def pair(above: Items, below: Items, caption: str, side: int = 88) -> Markup:
    """Two items one over the other, with a caption for both."""
    shown = "".join(
        f'<img src="{uri(item)}" alt="{escape(f"{place}: {caption}")}" width="{side}"'
        f' height="{side * item.shape[0] // item.shape[1]}">'
        for place, item in (("above", above), ("below", below))
    )
    return Markup(
        f'<figure class="g-picture" style="width:{side}px">{shown}'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def pictures(figures: Iterable[str]) -> str:
    """Figures in rows, as many as the page is wide."""
    return f'<div class="g-pictures">{"".join(figures)}</div>'
