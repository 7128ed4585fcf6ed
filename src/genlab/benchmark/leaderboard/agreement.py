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

from genlab.benchmark.leaderboard.bootstrap import LEAST, bounds

LEAST_PREFERENCES = 10
"""Fewest paired preferences for strengths."""
PRIOR = 0.5
"""Inverse variance of the strengths' prior: about 2 logits between two contenders."""
STARS = range(1, 6)


class Finding(BaseModel):
    """A number with its 95 % interval and sample size, or `why` there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int
    why: str = ""


def alpha(
    ratings: Mapping[str, Mapping[str, int]], *, bootstrap: int = 1000, seed: int = 0
) -> Finding:
    """Krippendorff's ordinal α of stars: 1 full agreement, 0 chance, below 0 disagreement.

    ratings: by image, then by rater, 1..5. Images that fewer than two people rated are left out.
    The interval is the bootstrap's over images. Source: Krippendorff 2004, chapter 11.
    """
    units = [[*by_rater.values()] for by_rater in ratings.values() if len(by_rater) > 1]
    counts = np.array([[stars.count(star) for star in STARS] for stars in units])
    whys = ("images that two people rated", "every rating is the same: α is undefined")
    return _measure(_alpha, counts, *whys, bootstrap=bootstrap, seed=seed)


def spearman(
    machine: Sequence[float], people: Sequence[float], *, bootstrap: int = 1000, seed: int = 0
) -> Finding:
    """Spearman's rank correlation of the machine score and people's mean stars, per image.

    The interval is the bootstrap's over images.
    """
    pairs = np.column_stack([machine, people]).astype(np.float64)
    whys = ("images with a score and stars", "all scores or all stars are the same")
    return _measure(_correlation, pairs, *whys, bootstrap=bootstrap, seed=seed)


def _measure(
    statistic: Callable[[Any], float],
    items: Any,
    what: str,
    undefined: str,
    *,
    bootstrap: int,
    seed: int,
) -> Finding:
    """A statistic of items (n, m) with its bootstrap interval.

    what: the items in words; undefined: why the statistic is nan.
    """
    n = len(items)
    if n < LEAST:
        return Finding(n=n, why=f"too few {what}: {n}, at least {LEAST}")
    value = statistic(items)
    if np.isnan(value):
        return Finding(n=n, why=undefined)
    rows = np.random.default_rng(seed).integers(n, size=(bootstrap, n))
    [low], [high] = bounds(np.array([[statistic(items[drawn])] for drawn in rows]), n)
    return Finding(value=value, low=low, high=high, n=n)


def _alpha(counts: Any) -> float:
    """α of ratings of each star (n, 5); nan where all stars are the same."""
    if np.count_nonzero(counts.sum(axis=0)) < 2:
        return float("nan")
    found = krippendorff.alpha(
        value_counts=counts, value_domain=list(STARS), level_of_measurement="ordinal"
    )
    return float(found)


def _correlation(pairs: Any) -> float:
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
        return {tool: Finding(n=taken[tool], why=why) for tool in tools}
    wins = [(tools.index(winner), tools.index(loser)) for winner, loser in preferences]
    compared = np.zeros((len(tools), len(tools)))
    compared[tuple(np.transpose(wins))] = 1
    if connected_components(compared, directed=False)[0] > 1:
        why = "some contenders were never compared with the others, not even through a third"
        return {tool: Finding(n=taken[tool], why=why) for tool in tools}
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
