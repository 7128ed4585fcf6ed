"""Cases and images of the benchmark as HTML. Everything from outside is escaped here.

Titles, reasons and names may contain anything: markup, ten thousand characters, marks that turn the
direction of text. `line`, `text` and `label` make them harmless and bounded.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from html import escape
from pathlib import Path
from typing import Any

from genlab.benchmark.cases import Case, load_case
from genlab.benchmark.leaderboard.table import number
from genlab.benchmark.report import grade
from genlab.benchmark.store.schema import Item
from genlab.core.errors import GenlabError
from genlab.web.images import case_image_url

LONGEST = 120  # characters of a foreign text
MARKDOWN = frozenset("\\`*_{}[]()<>#+-.!|~$:^&@/")
STATUS = {"generating": "generating…", "generated": "waits for its score", "evaluating": "scoring…"}

# In the colours of genlab.web.components.look, which the main page sets.
STYLE = """<style>
.b-gallery{display:grid;gap:1rem .9rem;align-items:start;
grid-template-columns:repeat(auto-fill,minmax(min(130px,45%),1fr))}
.b-cell{margin:0;width:100%;color:var(--g-ink);font-size:.86rem;line-height:1.3}
.b-frame{display:block;width:100%;aspect-ratio:1;border-radius:6px;overflow:hidden;
background:var(--g-card);outline:1px solid var(--g-rule);position:relative}
.b-frame img{width:100%;height:100%;object-fit:contain;display:block}
.b-wait{position:absolute;inset:0;display:flex;align-items:center;justify-content:center;
text-align:center;padding:.6rem;color:var(--g-muted);overflow:hidden}
.b-name{display:block;margin-top:.3rem;font-weight:600;overflow-wrap:anywhere}
.b-none{color:var(--g-muted)}.b-good{color:var(--g-good)}.b-fair{color:var(--g-warn)}
.b-poor{color:var(--g-bad)}
.b-badge summary{cursor:pointer;font-weight:650;font-variant-numeric:tabular-nums}
.b-badge summary:focus-visible{outline:2px solid var(--g-blue);outline-offset:2px}
.b-badge td{padding:.05rem .5rem .05rem 0;border:0;font-size:.82rem;color:var(--g-ink)}
.b-faces{display:flex;flex-wrap:wrap;gap:.3rem;margin-top:.3rem}
.b-faces img{width:52px;height:52px;object-fit:cover;border-radius:5px;
outline:1px solid var(--g-rule)}
.b-cut{position:relative;max-width:460px}.b-cut img{display:block;width:100%}
.b-cut img+img{position:absolute;inset:0;height:100%;clip-path:inset(0 0 0 var(--cut))}
.b-look{display:flex;flex-wrap:wrap;gap:1rem;align-items:flex-start;color:var(--g-ink)}
.b-look figure{margin:0;flex:1 1 180px;min-width:0}.b-look .b-main{flex:2 1 320px}
.b-look figcaption{color:var(--g-muted);font-size:.85rem;margin-bottom:.25rem;line-height:1.5rem}
.b-look .b-main figcaption{color:var(--g-ink);font-size:1.05rem;font-weight:600}
.b-look img{width:100%;height:auto;max-height:min(56vh,520px);object-fit:contain;display:block;
background:var(--g-card);border-radius:8px}
.b-look .b-main img{height:min(56vh,520px)}
.b-look .b-pixels img{image-rendering:pixelated}
.b-look .b-ahead{position:absolute;width:1px;height:1px;overflow:hidden;opacity:0;
pointer-events:none}
@media(max-width:640px){.b-look{gap:.5rem}.b-look figure{flex:1 1 100%}
.b-look img{max-height:260px}.b-look .b-main img{height:36vh;max-height:none}}
</style>"""


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


def picture(url: str, name: str) -> str:
    """An image element."""
    return f'<img src="{escape(url)}" alt="{escape(line(name))}">'


def read_run_case(known: dict[str, Any]) -> Case | None:
    """The case of a run as it is now; None where it is gone."""
    try:
        return load_case(Path(str(known.get("folder", ""))))
    except (GenlabError, OSError):
        return None


def case_cell(case: Case | None, name: str = "") -> str:
    """The template with its avatars, under the case's title or `name`."""
    if case is None:
        gone = '<span class="b-wait">the case is no longer there</span>'
        return f'<figure class="b-cell"><span class="b-frame">{gone}</span></figure>'
    template = case_image_url(case.case_id, "template", "320")
    frame = picture(template, f"template of {case.title}")
    faces = "".join(
        picture(case_image_url(case.case_id, avatar, "160"), f"avatar {avatar}")
        for avatar in case.avatars
    )
    return (
        f'<figure class="b-cell"><span class="b-frame">{frame}</span>'
        f'<figcaption><span class="b-name">{text(name or case.title, 60)}</span>'
        f'<span class="b-faces">{faces}</span></figcaption></figure>'
    )


def gallery(cases: Iterable[Case]) -> str:
    """The cases side by side."""
    return f'<div class="b-gallery">{"".join(map(case_cell, cases))}</div>'


def item_cell(item: Item, label: str) -> str:
    """An item: its image or its state, and its badge."""
    if item.image:
        url = escape(f"/runs/{item.image}")
        shown = picture(f"/runs/{item.image}?width=320", f"{label} on {item.case_id}")
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
    colour = "poor" if item.status == "failed" else grade(item.score)
    if item.score is None:
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
