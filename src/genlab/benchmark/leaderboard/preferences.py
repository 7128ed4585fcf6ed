"""Bradley-Terry strengths of contenders, from preferences between pairs of their images."""

from collections.abc import Sequence

import numpy as np
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from genlab.benchmark.leaderboard.intervals import Estimate
from genlab.core.stats import Floats

LEAST_PREFERENCES = 10
"""Fewest preferences for Bradley-Terry strengths."""
PRIOR = 0.5
"""Inverse variance of the strengths' normal prior: about 2 logits between two contenders."""

Pair = tuple[str, str]


def fit_bradley_terry(
    preferences: Sequence[Pair], ties: Sequence[Pair] = (), *, prior: float = PRIOR
) -> dict[str, Estimate]:
    """Fit Bradley-Terry strengths, by contender, in logits with mean 0.

    preferences: (preferred, other); ties: half a win for each. A contender that is 1 logit above
    another is preferred 73 times in 100. The estimates are the posterior mode and a 95 % interval
    under a normal prior (Laplace approximation), so that a contender that won every time has a
    finite strength and a wide interval. prior: inverse variance; 0 gives the maximum likelihood.
    `n` counts a contender's comparisons. Nothing is estimated if some contenders are not connected
    by comparisons.
    """
    votes = [*preferences, *ties]
    contenders = sorted({contender for pair in votes for contender in pair})
    index = {contender: number for number, contender in enumerate(contenders)}
    comparisons = dict.fromkeys(contenders, 0)
    for first, second in votes:
        for contender in {first, second}:
            comparisons[contender] += 1
    wins = np.zeros((len(contenders), len(contenders)))  # of the row over the column
    for pairs, share in ((preferences, 1.0), (ties, 0.5)):
        for first, second in pairs:
            wins[index[first], index[second]] += share
            wins[index[second], index[first]] += 1 - share
    why = ""
    if len(votes) < LEAST_PREFERENCES:
        why = f"too few preferences: {len(votes)}, at least {LEAST_PREFERENCES}"
    elif connected_components(wins, directed=False)[0] > 1:
        why = "some contenders were never compared with the others, not even through a third"
    if why:
        return {name: Estimate(n=comparisons[name], why=why) for name in contenders}
    mode, covariance = _fit_posterior(wins, prior)
    spread = 1.96 * np.sqrt(np.diag(covariance))
    low = mode - spread
    high = mode + spread
    return {
        name: Estimate(
            value=float(mode[i]), low=float(low[i]), high=float(high[i]), n=comparisons[name]
        )
        for i, name in enumerate(contenders)
    }


def _fit_posterior(wins: Floats, prior: float) -> tuple[Floats, Floats]:
    """Return mode (m,) and covariance (m, m) of strengths relative to their mean; wins: (m, m)."""
    size = len(wins)
    played = wins + wins.T
    # 1 / size fixes the mean of the strengths, which no comparison determines, and changes nothing
    # else.
    precision = prior * np.eye(size) + 1 / size

    def loss(strength: Floats) -> tuple[float, Floats]:
        difference = strength[:, None] - strength
        value = (wins * np.logaddexp(0, -difference)).sum() + strength @ precision @ strength / 2
        gradient = (played * expit(difference) - wins).sum(axis=1) + precision @ strength
        return float(value), gradient

    mode = minimize(loss, np.zeros(size), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    difference = mode[:, None] - mode
    pairwise = played * expit(difference) * expit(-difference)
    information = np.diag(pairwise.sum(axis=1)) - pairwise + precision
    centring = np.eye(size) - 1 / size
    return centring @ mode, centring @ np.linalg.inv(information) @ centring
