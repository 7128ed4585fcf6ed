"""Agreement of raters with each other and with the machine score, and strengths from pairs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import choix
import krippendorff
import numpy as np
from pydantic import BaseModel
from scipy.sparse.csgraph import connected_components
from scipy.stats import spearmanr

from genlab.benchmark.leaderboard.bootstrap import LEAST, interval, resample
from genlab.core.stats import Floats

LEAST_PREFERENCES = 10
"""Fewest paired preferences for strengths."""
PRIOR = 0.5
"""Inverse variance of the strengths' prior: about 2 logits between two contenders."""
STARS = range(1, 6)


class Finding(BaseModel):
    """A number with its 95 % interval and sample size, or `why` there is none."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    why: str = ""


def _none(n: int, why: str) -> Finding:
    return Finding(value=None, low=None, high=None, n=n, why=why)


def _measure(
    statistic: Callable[[Floats], float], items: Floats, *, bootstrap: int, seed: int
) -> Finding:
    """A statistic of items (n, m) with its bootstrap interval."""
    drawn = resample(len(items), bootstrap=bootstrap, seed=seed)
    low, high = interval(np.array([statistic(items[rows]) for rows in drawn]), len(items))
    return Finding(value=statistic(items), low=low, high=high, n=len(items))


def alpha(
    ratings: Mapping[str, Mapping[str, int]], *, bootstrap: int = 1000, seed: int = 0
) -> Finding:
    """Krippendorff's ordinal α of stars: 1 full agreement, 0 chance, below 0 disagreement.

    ratings: by image, then by rater, 1..5. Images that fewer than two people rated are left out.
    The interval is the bootstrap's over images. Source: Krippendorff 2004, chapter 11.
    """
    units = [by_rater for by_rater in ratings.values() if len(by_rater) > 1]
    if len(units) < LEAST:
        why = f"too few images that two people rated: {len(units)}, at least {LEAST}"
        return _none(len(units), why)
    counts = np.array([[list(u.values()).count(star) for star in STARS] for u in units])
    if np.count_nonzero(counts.sum(axis=0)) < 2:
        return _none(len(units), "every rating is the same: α is undefined")
    return _measure(_alpha, counts, bootstrap=bootstrap, seed=seed)


def _alpha(counts: Any) -> float:
    """α of ratings of each star (n, 5); nan where all stars are the same."""
    if np.count_nonzero(counts.sum(axis=0)) < 2:
        return float("nan")
    domain = list(STARS)
    found = krippendorff.alpha(
        value_counts=counts, value_domain=domain, level_of_measurement="ordinal"
    )
    return float(found)


def spearman(
    machine: Sequence[float], people: Sequence[float], *, bootstrap: int = 1000, seed: int = 0
) -> Finding:
    """Spearman's rank correlation of the machine score and people's mean stars, per image.

    The interval is the bootstrap's over images.
    """
    pairs = np.column_stack([machine, people]).astype(np.float64)
    if len(pairs) < LEAST:
        return _none(
            len(pairs), f"too few images with a score and stars: {len(pairs)}, at least {LEAST}"
        )
    if (np.ptp(pairs, axis=0) == 0).any():
        return _none(len(pairs), "all scores or all stars are the same")
    return _measure(_correlation, pairs, bootstrap=bootstrap, seed=seed)


def _correlation(pairs: Floats) -> float:
    if (np.ptp(pairs, axis=0) == 0).any():
        return float("nan")
    return float(spearmanr(pairs[:, 0], pairs[:, 1]).statistic)


def strengths(preferences: Sequence[tuple[str, str]]) -> dict[str, Finding]:
    """Bradley-Terry strengths in logits, mean 0, by contender; preferences: (preferred, other).

    A contender 1 logit above another is preferred 73 times in 100. Posterior mean and 95 % interval
    under a normal prior, by expectation propagation (`choix.ep_pairwise`): one that won every time
    has a finite strength and a wide interval. Contenders that no chain of comparisons joins have
    none. n: comparisons of the contender.
    """
    tools = sorted({tool for pair in preferences for tool in pair})
    taken = {tool: sum(tool in pair for pair in preferences) for tool in tools}
    if len(preferences) < LEAST_PREFERENCES:
        why = f"too few preferences: {len(preferences)}, at least {LEAST_PREFERENCES}"
        return {tool: _none(taken[tool], why) for tool in tools}
    wins = [(tools.index(winner), tools.index(loser)) for winner, loser in preferences]
    compared = np.zeros((len(tools), len(tools)))
    compared[tuple(np.transpose(wins))] = 1
    if connected_components(compared, directed=False)[0] > 1:
        why = "some contenders were never compared with the others, not even through a third"
        return {tool: _none(taken[tool], why) for tool in tools}
    mean, covariance = choix.ep_pairwise(len(tools), wins, alpha=PRIOR)
    # Strengths are relative to their mean, and so are their variances.
    centring = np.eye(len(tools)) - 1 / len(tools)
    mean, spread = centring @ mean, np.sqrt(np.diag(centring @ covariance @ centring))
    return {
        tool: Finding(
            value=float(mean[i]),
            low=float(mean[i] - 1.96 * spread[i]),
            high=float(mean[i] + 1.96 * spread[i]),
            n=taken[tool],
        )
        for i, tool in enumerate(tools)
    }
