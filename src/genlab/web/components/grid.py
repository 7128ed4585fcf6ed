"""Cases and images of the benchmark as HTML. Everything from outside is escaped here.

Titles, reasons and names may contain anything: markup, ten thousand characters, marks that turn the
direction of text. `line`, `text` and `label` make them harmless and bounded.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.report import grade
from genlab.benchmark.store.schema import Contender, Item
from genlab.core.errors import GenlabError

WIDEST = 300  # pixels of a cell: with more, images of other cases are out of sight
LONGEST = 120  # characters of a foreign text
SMALL = 320  # pixels of an image in a grid
MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|~$:^&@/")
STATUS = {"generating": "generating…", "generated": "waits for its score", "evaluating": "scoring…"}
GRADES = {"good": "good", "fair": "warn", "poor": "bad", "none": "quiet"}

# In the colours of genlab.web.look, which the main page sets.
STYLE = """<style>
.b-case{font-size:1rem;font-weight:620;color:var(--g-ink);margin:.4rem 0 .5rem;padding:.6rem 0 0;
border-top:1px solid var(--g-rule);overflow-wrap:anywhere}
.b-row,[class*=st-key-b-row]{display:grid!important;gap:1rem .9rem!important;padding:.1rem 0;
grid-template-columns:repeat(auto-fit,minmax(min(150px,45%),1fr));align-items:start}
[class*=st-key-b-row]>*{width:auto!important;min-width:0}
.b-cell{margin:0;width:100%;color:var(--g-ink);font-size:.86rem;line-height:1.3}
.b-frame{display:block;width:100%;aspect-ratio:1;border-radius:6px;overflow:hidden;
background:var(--g-card);outline:1px solid var(--g-rule);position:relative}
.b-frame img{width:100%;height:100%;object-fit:contain;display:block}
.b-frame .b-wait{position:absolute;inset:0;display:flex;align-items:center;justify-content:center;
text-align:center;padding:.6rem;color:var(--g-muted);overflow:hidden}
.b-name{display:block;margin-top:.3rem;font-weight:600;overflow-wrap:anywhere}
.b-quiet{color:var(--g-muted)}.b-good{color:var(--g-good)}.b-warn{color:var(--g-warn)}
.b-bad{color:var(--g-bad)}
.b-badge summary{cursor:pointer;font-weight:650;font-variant-numeric:tabular-nums}
.b-badge summary:focus-visible{outline:2px solid var(--g-blue);outline-offset:2px}
.b-badge table{border-collapse:collapse;margin:.2rem 0;color:var(--g-ink)}
.b-badge td{padding:.05rem .5rem .05rem 0;border:0;font-size:.82rem}
.b-badge td:last-child{text-align:right;font-variant-numeric:tabular-nums}
.b-faces{display:flex;flex-wrap:wrap;gap:.3rem;margin-top:.3rem}
.b-faces img{width:52px;height:52px;object-fit:cover;border-radius:5px;
outline:1px solid var(--g-rule)}
.b-look{display:flex;flex-wrap:wrap;gap:1rem;align-items:flex-start;color:var(--g-ink)}
.b-look figure{margin:0;flex:1 1 180px;min-width:0}.b-look .b-main{flex:2 1 360px}
.b-look figcaption{color:var(--g-muted);
font-size:.85rem;margin-bottom:.25rem;min-height:1.5rem;line-height:1.5rem}
.b-look .b-main figcaption{color:var(--g-ink);font-size:1.05rem;font-weight:600}
.b-look .b-large{width:100%;height:auto;max-height:min(56vh,520px);object-fit:contain;display:block;
background:var(--g-card);border-radius:8px}
.b-look .b-main .b-large{height:min(56vh,520px)}
.b-look .b-pixels{image-rendering:pixelated}
.b-ahead{position:absolute;width:1px;height:1px;overflow:hidden;opacity:0;pointer-events:none}
.b-gallery{grid-template-columns:repeat(auto-fill,minmax(min(130px,45%),1fr))}
.b-note{color:var(--g-muted);font-size:.88rem;margin:0}
.b-why{color:var(--g-muted);font-size:.88rem;margin:-.75rem 0 0 1.6rem}
@media(max-width:640px){.b-look{gap:.5rem}.b-look figure{flex:1 1 90px}
.b-look .b-large{max-height:130px}.b-look .b-swaps{max-height:260px}
.b-look figure:has(.b-swaps),.b-look .b-main{flex:1 1 100%}
.b-look .b-main .b-large{height:36vh;max-height:none}}
"""
STYLE += (
    "".join(f"[class*=st-key-b-row-{n}-]{{max-width:{n * WIDEST}px}}" for n in (2, 3)) + "</style>"
)


def line(foreign: object, longest: int = LONGEST) -> str:
    """A foreign text as one bounded line, without marks that turn the direction of text."""
    # Controls and formats (Cc, Cf), lone surrogates (Cs), separators: each a space.
    unfit = ("Cc", "Cf", "Cs", "Zl", "Zp")
    fit = (" " if unicodedata.category(c) in unfit else c for c in str(foreign)[: 4 * longest])
    shown = " ".join("".join(fit).split())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def text(foreign: object, longest: int = LONGEST) -> str:
    """A foreign text as HTML."""
    return f"<bdi>{escape(line(foreign, longest))}</bdi>"


def label(foreign: object, longest: int = LONGEST) -> str:
    """A foreign text for a widget's label, with the signs of Markdown escaped."""
    return "".join("\\" + c if c in MARKDOWN else c for c in line(foreign, longest))


def note(words: str) -> str:
    """A remark below something, with enough contrast (a caption has too little)."""
    return f'<p class="b-note">{escape(words)}</p>'


def picture(url: str, name: str, *, kind: str = "") -> str:
    """An image element."""
    named = f' class="{kind}"' if kind else ""
    return f'<img{named} src="{escape(url)}" alt="{escape(line(name))}">'


def case_head(title: str) -> str:
    """The heading of a case."""
    return f'<h3 class="b-case">{text(title, 80)}</h3>'


def case_row(known: dict[str, Any], items: Sequence[Item], labels: dict[str, str]) -> str:
    """A case of a run and its items, so far."""
    shown = "".join(item_cell(item, labels[item.contender]) for item in items)
    width = (1 + len(items)) * WIDEST
    row = f'<div class="b-row" style="max-width:{width}px">{run_case(known)}{shown}</div>'
    return case_head(str(known.get("title", known["case_id"]))) + row


def run_case(known: dict[str, Any]) -> str:
    """The case of a run as it is now, if it is still there."""
    try:
        return case_cell(load_case(Path(str(known.get("folder", "")))), "template")
    except (GenlabError, OSError):
        gone = '<span class="b-wait">the case is no longer there</span>'
        return f'<figure class="b-cell"><span class="b-frame">{gone}</span></figure>'


def case_cell(case: Case, name: str = "") -> str:
    """The template with its avatars, under the case's title or `name`."""
    base = f"/api/test-cases/{case.case_id}"
    frame = picture(f"{base}/template?width={SMALL}", f"template of {case.title}")
    faces = "".join(picture(f"{base}/{name}?width=160", f"avatar {name}") for name in case.avatars)
    return (
        f'<figure class="b-cell"><span class="b-frame">{frame}</span>'
        f'<figcaption><span class="b-name">{text(name or case.title, 60)}</span>'
        f'<span class="b-faces">{faces}</span></figcaption></figure>'
    )


def gallery(cases: Iterable[Case]) -> str:
    """The cases side by side."""
    return f'<div class="b-row b-gallery">{"".join(map(case_cell, cases))}</div>'


def image_url(item: Item) -> str:
    """Address of an item's image, "" where there is none."""
    return f"/runs/{item.image}" if item.image else ""


def item_cell(item: Item, label: str) -> str:
    """An item: its image or its state, and its badge."""
    if item.image:
        url = escape(image_url(item))
        shown = picture(f"{image_url(item)}?width={SMALL}", f"{label} on {item.case_id}")
        frame = f'<a class="b-frame" href="{url}" target="_blank" rel="noopener">{shown}</a>'
    else:
        words = text(item.failure, 90) if item.failure else STATUS.get(item.status, item.status)
        frame = f'<span class="b-frame"><span class="b-wait">{words}</span></span>'
    draw = f", draw {item.repeat}" if item.repeat > 1 else ""
    return (
        f'<figure class="b-cell" data-item="{item.item_id}" data-status="{escape(item.status)}">'
        f'{frame}<figcaption><span class="b-name">{text(label, 80)}{draw}</span>'
        f"{badge(item)}</figcaption></figure>"
    )


def badge(item: Item) -> str:
    """The score with its components, or the status and its reason."""
    colour = GRADES[grade(item.score)]
    if item.score is None:
        colour = "bad" if item.status == "failed" else colour
        kind = f" ({text(item.failure_kind.replace('_', ' '), 40)})" if item.failure_kind else ""
        return f'<span class="b-{colour}">{STATUS.get(item.status, item.status)}{kind}</span>'
    values = dict(item.components)
    if item.score_reference is not None:
        values = {"reference score": item.score_reference, **values}
    rows = "".join(
        f"<tr><td>{text(name.replace('_', ' '), 30)}</td><td>{number(value)}</td></tr>"
        for name, value in values.items()
    )
    return (
        f'<details class="b-badge"><summary class="b-{colour}">{number(item.score)}'
        f"</summary><table>{rows}</table></details>"
    )


def number(value: float | None) -> str:
    """A number of [0, 1] with two digits, a dash where there is none."""
    return "–" if value is None else f"{value:.2f}"


def labels_of(contenders: dict[str, Contender]) -> dict[str, str]:
    """Labels by contender id."""
    return {name: contender.label for name, contender in contenders.items()}
