"""The leaderboard as text, for terminal, report and page."""

from collections.abc import Sequence

from genlab.benchmark.leaderboard.intervals import Estimate
from genlab.benchmark.leaderboard.standings import STARS_LEAD, RaterStatistics, Standing

NOTE = (
    "The ranking mean counts refusals, time-outs and missing faces as 0; it leaves out faults of a"
    " case, quota and outages. Contenders that the cases cannot separate share a rank."
)
UNVALIDATED = (
    "The score orders controls and ground truth. It has not been compared with people's ratings of"
    " generators."
)
NO_GROUND_TRUTH = "No case has ground truth, so there is no reference score."
WORDS = ("contender", "failures")  # columns of words; the others hold numbers
NONE = "–"


def tabulate(standings: Sequence[Standing]) -> list[dict[str, str]]:
    """Return a row of text per contender, by heading, without empty columns.

    From STARS_LEAD ratings on, blind stars stand before the score.
    """
    rows = [
        {
            "rank": str(s.rank or NONE),
            "contender": s.label,
            "score": format_number(s.score),
            "95 %": _between(s.low, s.high),
            "mean over scored": format_number(s.scored_mean),
            "reference score": format_number(s.reference),
            "spread of draws": format_number(s.spread),
            "scored cases": f"{s.scored} of {s.cases}",
            "blind stars": _stars(s, "blind"),
            "grid stars": _stars(s, "grid"),
            "judge's stars": _stars(s, "judge"),
            "failures": ", ".join(f"{k.replace('_', ' ')} {n}" for k, n in s.failures.items())
            or NONE,
            "cost": f"${s.cost:.2f}" if s.cost else NONE,
            "s per image": NONE if s.seconds is None else f"{s.seconds:.1f}",
        }
        for s in standings
    ]
    if not rows:
        return []
    columns = [name for name in rows[0] if any(row[name] != NONE for row in rows)]
    if any("blind" in s.stars and s.stars["blind"].ratings >= STARS_LEAD for s in standings):
        columns.remove("blind stars")
        columns.insert(columns.index("contender") + 1, "blind stars")
    return [{name: row[name] for name in columns} for row in rows]


def list_notes(standings: Sequence[Standing]) -> list[str]:
    """Return the sentences that a reader of the table has to know."""
    older = sum(standing.older for standing in standings)
    notes = [NOTE, UNVALIDATED]
    if all(standing.reference is None for standing in standings):
        notes.append(NO_GROUND_TRUTH)
    if older:
        notes.append(
            f"{older} scores of an older version are left out, since they do not compare; score"
            " their images again with: genlab benchmark rescore"
        )
    return notes


def list_estimates(statistics: RaterStatistics) -> dict[str, Estimate]:
    """Return the statistics of people's answers by their names in words."""
    strengths = {
        f"Strength of {label} in pairs (Bradley–Terry, logits)": estimate
        for label, estimate in statistics.strengths.items()
    }
    return {
        "Agreement among blind raters (Krippendorff's α)": statistics.alpha,
        "Machine score against blind stars (Spearman's ρ)": statistics.spearman,
        **strengths,
    }


def describe_estimate(estimate: Estimate) -> str:
    """Format an estimate with its interval, or say why it is not known."""
    if estimate.value is None:
        return f"not known: {estimate.why}"
    return f"{estimate.value:.2f} ({_between(estimate.low, estimate.high)}, n = {estimate.n})"


def format_number(value: float | None) -> str:
    """Format a number with two decimals; None as a dash."""
    return NONE if value is None else f"{value:.2f}"


def _between(low: float | None, high: float | None) -> str:
    return NONE if low is None else f"{format_number(low)} to {format_number(high)}"


def _stars(standing: Standing, context: str) -> str:
    stars = standing.stars.get(context)
    return NONE if stars is None else f"{stars.mean:.1f} ★ ({stars.ratings})"
