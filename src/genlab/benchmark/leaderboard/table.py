"""The leaderboard's columns as text, for terminal, report and page alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from genlab.benchmark.leaderboard.agreement import Finding
from genlab.benchmark.leaderboard.standings import STARS_LEAD, People, Standing

NOTE = (
    "The ranking mean counts refusals, time-outs and missing faces as 0; it leaves out faults of a"
    " case, quota and outages. Contenders that the cases cannot separate share a rank."
)
UNVALIDATED = (
    "The score orders controls and ground truth. It has not been compared with people's ratings of"
    " generators."
)
NO_GROUND_TRUTH = "No case has ground truth, so there is no reference score."


@dataclass(frozen=True)
class Column:
    """A column: its heading, a row's text, and whether it holds numbers."""

    heading: str
    text: Callable[[Standing], str]
    number: bool = True


def columns(standings: Sequence[Standing]) -> list[Column]:
    """The columns that have something to show; blind stars lead from STARS_LEAD ratings on."""
    blind = Column("blind stars", partial(_stars, context="blind"))
    known = [
        Column("rank", lambda s: str(s.rank or "–")),
        Column("contender", lambda s: s.label, number=False),
        Column("score", lambda s: number(s.score)),
        Column("95 %", lambda s: f"{number(s.low)} to {number(s.high)}"),
        Column("mean over scored", lambda s: number(s.scored_mean)),
    ]
    if any(s.reference is not None for s in standings):
        known.append(Column("reference score", lambda s: number(s.reference)))
    if any(s.spread is not None for s in standings):
        known.append(Column("spread of draws", lambda s: number(s.spread)))
    known.append(Column("scored cases", lambda s: f"{s.scored} of {s.cases}"))
    ratings = [s.stars["blind"].ratings for s in standings if "blind" in s.stars]
    if ratings:
        known.insert(2 if max(ratings) >= STARS_LEAD else len(known), blind)
    for context, heading in (("grid", "grid stars"), ("judge", "judge's stars")):
        if any(context in s.stars for s in standings):
            known.append(Column(heading, partial(_stars, context=context)))
    return [
        *known,
        Column("failures", _failures, number=False),
        Column("cost", lambda s: f"${s.cost:.2f}" if s.cost else "–"),
        Column("s per image", lambda s: "–" if s.seconds is None else f"{s.seconds:.1f}"),
    ]


def notes(standings: Sequence[Standing]) -> list[str]:
    """What a reader has to know about the table, a sentence each."""
    older = sum(standing.older for standing in standings)
    found = [NOTE, UNVALIDATED]
    if all(standing.reference is None for standing in standings):
        found.append(NO_GROUND_TRUTH)
    if older:
        found.append(f"{older} scores of older constants are left out; they do not compare.")
    return found


def findings(found: People) -> dict[str, Finding]:
    """What people's answers say, by its name."""
    return {
        "Agreement among blind raters (Krippendorff's α)": found.alpha,
        "Machine score against blind stars (Spearman's ρ)": found.spearman,
        **{
            f"Strength of {label} in pairs (Bradley–Terry, logits)": finding
            for label, finding in found.strengths.items()
        },
    }


def sentence(finding: Finding) -> str:
    """A finding in words."""
    if finding.value is None:
        return f"not known: {finding.why}"
    low, high = number(finding.low), number(finding.high)
    return f"{finding.value:.2f} ({low} to {high}, n = {finding.n})"


def number(value: float | None) -> str:
    """Two decimals, or a dash."""
    return "–" if value is None else f"{value:.2f}"


def _stars(standing: Standing, context: str) -> str:
    stars = standing.stars.get(context)
    return "–" if stars is None else f"{stars.mean:.1f} ★ ({stars.ratings})"


def _failures(standing: Standing) -> str:
    kinds = (f"{kind.replace('_', ' ')} {n}" for kind, n in standing.failures.items())
    return ", ".join(kinds) or "–"
