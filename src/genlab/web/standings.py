"""The leaderboard and what people say of it, as the page shows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genlab.benchmark.agreement import Finding
from genlab.benchmark.leaderboard import People, Standing
from genlab.benchmark.store.repository import Store
from genlab.benchmark.tallies import ratings_of
from genlab.web.sheet import number, text

JUDGE = "<th scope='col'>Model's stars</th>"


def state_of(store: Store, run_id: str | None) -> tuple[Any, ...]:
    """What the leaderboard of a run depends on, in brief: while it is the same, so is that."""
    of_run = "" if run_id is None else " WHERE run_id = :run"
    ((items, latest),) = store.rows(
        f"SELECT count(*), max(updated) FROM run_items{of_run}", run=run_id
    )
    ((rated, told),) = store.rows("SELECT count(*), max(rated) FROM human_scores")
    ((pairs, when),) = store.rows("SELECT count(*), max(rated) FROM preferences")
    return run_id, items, latest, rated, told, pairs, when


def table(standings: Sequence[Standing], titles: Mapping[str, str]) -> str:
    """The leaderboard as HTML; a tool without a rank has too few cases for one."""
    judged = any(standing.judge for standing in standings)
    rows = "".join(
        f"<tr><td class='num'>{standing.rank or '–'}</td>"
        f"<td>{text(standing.tool, 48)}<br><span class='b-quiet'>"
        f"{text(titles.get(standing.tool, ''), 48)}</span></td>"
        f"<td class='num'>{number(standing.score)}</td>"
        f"<td>{_bar(standing)}<span class='b-quiet'>{_interval(standing)}</span></td>"
        f"<td class='num'>{standing.scored} of {standing.cases}</td>"
        f"<td>{_people(standing)}</td>{_judge(standing) if judged else ''}"
        f"<td>{_failures(standing)}</td>"
        f"<td class='num'>${standing.cost:.2f}</td></tr>"
        for standing in standings
    )
    return (
        "<div class='b-scroll' tabindex='0' role='region' aria-label='Leaderboard'>"
        "<table class='b-table'><thead><tr><th class='num' scope='col'>Rank</th>"
        "<th scope='col'>Tool</th><th class='num' scope='col'>Score</th>"
        "<th scope='col'>95 % interval</th><th class='num' scope='col'>Cases</th>"
        f"<th scope='col'>People</th>{JUDGE if judged else ''}<th scope='col'>Without a score</th>"
        f"<th class='num' scope='col'>Cost</th></tr></thead><tbody>{rows}</tbody></table></div>"
    )


def sentences(found: People) -> list[str]:
    """What people say, a line each: agreement, the machine against them, preferences."""
    lines = [
        _said("Raters among themselves (Krippendorff's α)", found.alpha, "pictures"),
        _said("Machine against people (Spearman)", found.spearman, "pictures"),
    ]
    lines += [
        _said(f"Preferred in pairs, {tool} (Bradley–Terry)", one, "answers")
        for tool, one in sorted(
            found.strengths.items(), key=lambda pair: -(pair[1].value or -np.inf)
        )
    ]
    return lines


def points(store: Store, run_id: str | None) -> list[dict[str, float]]:
    """Machine's score and people's mean stars of each picture that has both."""
    by_image, machine = ratings_of(store, run_id)
    return [
        {"machine": float(score), "people": float(np.mean(list(stars.values())))}
        for image, stars in by_image.items()
        if (score := machine[image]) is not None
    ]


def _bar(standing: Standing) -> str:
    if standing.score is None:
        return ""
    low = standing.score if standing.low is None else standing.low
    high = standing.score if standing.high is None else standing.high
    return (
        f"<span class='b-bar' aria-hidden='true'><i style='left:{100 * low:.1f}%;"
        f"width:{100 * (high - low):.1f}%'></i><b style='left:"
        f"{100 * standing.score:.1f}%'></b></span>"
    )


def _interval(standing: Standing) -> str:
    if standing.low is None or standing.high is None:
        return "too few cases"
    return f"{standing.low:.2f} to {standing.high:.2f}"


def _people(standing: Standing) -> str:
    if standing.stars is None:
        return "<span class='b-quiet'>none yet</span>"
    raters = f"{standing.raters} rater{'s' * (standing.raters != 1)}"
    return f"★ {standing.stars:.1f} <span class='b-quiet'>{raters}</span>"


def _judge(standing: Standing) -> str:
    return f"<td>{'–' if standing.judge is None else text(standing.judge.words, 80)}</td>"


def _failures(standing: Standing) -> str:
    kinds = (
        f"{count} {text(kind.replace('_', ' '), 30)}" for kind, count in standing.failures.items()
    )
    return ", ".join(kinds) or "<span class='b-quiet'>none</span>"


def _said(what: str, found: Finding, of: str) -> str:
    if found.value is None:
        return f"{what}: {found.why}"
    between = ""
    if found.low is not None and found.high is not None:
        between = f", {found.low:.2f} to {found.high:.2f}"
    return f"{what}: {found.value:.2f}{between}, from {found.n} {of}"
