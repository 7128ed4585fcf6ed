"""The pipeline as a picture: a lane a dataset, a card a stage, arrows between what follows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from html import escape

from genlab.evaluation.reports.formats import words
from genlab.web.components.look import tag
from genlab.web.pipeline import Cell, Pipeline, ago, lasted

TONES = {
    "up to date": ("good", False),
    "stale": ("warn", False),
    "never run": ("quiet", True),
    "checking": ("quiet", True),
    "unknown": ("quiet", True),
}
SHOWN_REASONS = 2

STYLE = """<style>
.g-lane{margin:0 0 1rem}.g-lane .g-cards{margin:0;padding:0}
.g-lane h3{font-size:.95rem;margin:0 0 .4rem;padding:0;font-weight:620}
.g-cards{list-style:none;display:grid;grid-auto-flow:column;grid-auto-columns:1fr;gap:1.6rem;
margin:0;padding:0}
.g-cards>.g-card{position:relative;margin:0;list-style:none;min-width:0;font-size:.9rem;
border:1px solid var(--g-rule);border-left-width:4px;
border-radius:8px;background:var(--g-card);padding:.6rem .75rem}
.g-card.good{border-left-color:var(--g-good)}.g-card.warn{border-left-color:var(--g-warn)}
.g-card:not(:last-child)::after{content:"";position:absolute;right:-1.05rem;top:50%;width:.5rem;
height:.5rem;border:solid var(--g-muted);border-width:2px 2px 0 0;transform:translateY(-50%)
rotate(45deg)}
.apart .g-card::after{display:none}
.g-card b{display:block;font-weight:620;margin-bottom:.1rem;overflow-wrap:anywhere}
.g-card small{display:block;color:var(--g-muted);font-size:.8rem;line-height:1.35;
overflow-wrap:anywhere;margin-top:.25rem}
@media(max-width:900px){.g-cards{grid-auto-flow:row;gap:1.1rem}
.g-card:not(:last-child)::after{right:auto;left:1.4rem;top:auto;bottom:-.75rem;
transform:rotate(135deg)}
.g-card{display:grid;grid-template-columns:1fr auto;column-gap:.8rem}
.g-card small{grid-column:1/-1}}
</style>"""


def draw(pipeline: Pipeline, now: datetime | None = None) -> str:
    """The whole board as HTML; lanes without a stage are left out."""
    lanes: Sequence[str | None] = (*pipeline.datasets, None)
    drawn = [_lane(lane, pipeline.row(lane), now) for lane in lanes if pipeline.row(lane)]
    return STYLE + "".join(drawn)


def _lane(dataset: str | None, cells: Sequence[Cell], now: datetime | None) -> str:
    name = words(dataset) if dataset else "on their own"
    cards = "".join(_card(cell, now) for cell in cells)
    kind = "g-lane" if dataset else "g-lane apart"
    return (
        f'<section class="{kind}" aria-label="Pipeline of {escape(name)}"><h3>{escape(name)}</h3>'
        f'<ol class="g-cards">{cards}</ol></section>'
    )


def _card(cell: Cell, now: datetime | None) -> str:
    tone, hollow = TONES.get(cell.state, ("quiet", True))
    lines = list(cell.reasons[:SHOWN_REASONS])
    if len(cell.reasons) > SHOWN_REASONS:
        lines.append(f"and {len(cell.reasons) - SHOWN_REASONS} more")
    when = f"written {ago(cell.written, now)}" if cell.written else "nothing written yet"
    took = f", took {lasted(cell.seconds)}" if cell.seconds is not None else ""
    lines.append(when + took)
    small = "".join(f"<small>{escape(line)}</small>" for line in lines)
    return (
        f'<li class="g-card {tone}" title="{escape(cell.stage.says)}">'
        f"<b>{escape(words(cell.stage.name))}</b>{tag(cell.state, tone, hollow=hollow)}{small}</li>"
    )
