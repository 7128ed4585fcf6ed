"""Do people agree with each other, and does the machine agree with people?

Every answer is a `Finding`: a number with its interval, or the reason why there is none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import choix
import krippendorff
import numpy as np
import numpy.typing as npt
from scipy.stats import spearmanr

from genlab.benchmark.bootstrap import LEAST, Floats, interval, resamples

LEAST_PREFERENCES = 10
"""Paired preferences below which no strengths are told."""
PRIOR = 0.5
"""Inverse variance of the strengths' prior: two tools differ by 2 logits as like as not."""
STARS = range(1, 6)


@dataclass(frozen=True)
class Finding:
    """A number, its 95 % interval and what it was counted on; or `why` there is none."""

    value: float | None
    low: float | None
    high: float | None
    n: int
    why: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def _none(n: int, why: str) -> Finding:
    return Finding(None, None, None, n, why)


def alpha(
    ratings: Mapping[str, Mapping[str, int]], *, bootstrap: int = 1000, seed: int = 0
) -> Finding:
    """Krippendorff's α, ordinal, of stars: 1 all agree, 0 chance, below 0 they disagree.

    ratings: by picture, then by rater, 1..5. Pictures that fewer than two people rated say nothing
    about agreement. The interval is the bootstrap's over pictures. Source: Krippendorff 2004,
    chapter 11; the package `krippendorff`.
    """
    units = [by_rater for by_rater in ratings.values() if len(by_rater) > 1]
    if len(units) < LEAST:
        return _none(
            len(units), f"too few pictures that two people rated: {len(units)}, at least {LEAST}"
        )
    counts = np.array([[list(u.values()).count(star) for star in STARS] for u in units])
    if np.count_nonzero(counts.sum(axis=0)) < 2:
        return _none(len(units), "every rating is the same: α is undefined")
    drawn = np.concatenate(
        [
            _alphas(block @ _coincidences(counts))
            for block in resamples(len(units), bootstrap=bootstrap, seed=seed)
        ]
    )
    value = krippendorff.alpha(
        value_counts=counts, value_domain=list(STARS), level_of_measurement="ordinal"
    )
    low, high = interval(drawn, len(units))
    return Finding(float(value), low, high, len(units))


# krippendorff.alpha takes one table at a time; thousands of resamples go through these two at once.


def _coincidences(counts: npt.NDArray[np.int64]) -> Floats:
    """Pairs of stars that each unit contributes, (n, 25); counts: ratings of each star, (n, 5)."""
    pairs = counts[:, :, None] * counts[:, None, :]
    pairs[:, range(5), range(5)] -= counts
    shares: Floats = pairs / (counts.sum(axis=1) - 1)[:, None, None]
    return shares.reshape(len(counts), 25)


def _alphas(summed: Floats) -> Floats:
    """Ordinal α of each table of summed coincidences (b, 25); nan where all stars are the same."""
    observed = summed.reshape(-1, 5, 5)
    stars = observed.sum(axis=2)
    total = stars.sum(axis=1)
    upto = stars.cumsum(axis=1)
    # Ratings that stand between two stars, half of each end counted (Krippendorff 2004, 11.3.2).
    middle = upto - stars / 2
    distance = (middle[:, :, None] - middle[:, None, :]) ** 2
    expected = stars[:, :, None] * stars[:, None, :] / (total - 1)[:, None, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = 1 - (observed * distance).sum(axis=(1, 2)) / (expected * distance).sum(
            axis=(1, 2)
        )
    return found


def spearman(
    machine: Sequence[float], people: Sequence[float], *, bootstrap: int = 1000, seed: int = 0
) -> Finding:
    """Spearman's rank correlation of the machine's score and people's mean stars, a picture each.

    The interval is the bootstrap's over pictures.
    """
    pairs = np.array([machine, people], dtype=np.float64)
    pairs = pairs[:, ~np.isnan(pairs).any(axis=0)]
    n = pairs.shape[1]
    if n < LEAST:
        return _none(n, f"too few pictures with a score and stars: {n}, at least {LEAST}")
    if (np.ptp(pairs, axis=1) == 0).any():
        return _none(n, "all scores or all stars are the same: there is no order to compare")
    drawn = np.concatenate(
        [_rank_correlation(pairs, block) for block in resamples(n, bootstrap=bootstrap, seed=seed)]
    )
    low, high = interval(drawn, n)
    return Finding(float(spearmanr(*pairs).statistic), low, high, n)


def _rank_correlation(pairs: Floats, weights: Floats) -> Floats:
    """Spearman's ρ of pairs (2, n) in each resample (b, n); nan where one side is constant.

    A resample that holds a picture w times needs no sorting of its own: its midranks follow from
    running sums of w over the values in order.
    """
    first, second = (_midranks(side, weights) for side in pairs)
    with np.errstate(invalid="ignore", divide="ignore"):
        product: Floats = np.einsum("bi,bi,bi->b", weights, first, second) / np.sqrt(
            np.einsum("bi,bi,bi->b", weights, first, first)
            * np.einsum("bi,bi,bi->b", weights, second, second)
        )
    return product


def _midranks(values: Floats, weights: Floats) -> Floats:
    """Ranks of values (n,) in each resample (b, n), ties shared, less their mean."""
    order, tied = np.argsort(values, kind="stable"), np.unique(values, return_inverse=True)[1]
    starts = np.flatnonzero(np.r_[True, np.diff(values[order]) > 0])
    held = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks: Floats = (held.cumsum(axis=1) - held / 2)[:, tied] - weights.sum(axis=1)[:, None] / 2
    return ranks


def strengths(preferences: Sequence[tuple[str, str]]) -> dict[str, Finding]:
    """Bradley-Terry strengths in logits, mean 0, by tool; preferences: (preferred, other).

    A tool 1 logit above another is preferred 73 times in 100. The posterior's mean and 95 %
    interval under a normal prior, by expectation propagation (`choix.ep_pairwise`): a tool that
    won every time has a finite strength and a wide interval. Tools that no chain of comparisons
    joins cannot be placed on one scale, and say so. n: comparisons the tool took part in.
    """
    tools = sorted({tool for pair in preferences for tool in pair})
    taken = {tool: sum(tool in pair for pair in preferences) for tool in tools}
    if len(preferences) < LEAST_PREFERENCES:
        why = f"too few preferences: {len(preferences)}, at least {LEAST_PREFERENCES}"
        return {tool: _none(taken[tool], why) for tool in tools}
    if not _joined(tools, preferences):
        why = "some tools were never compared with the others, not even through a third"
        return {tool: _none(taken[tool], why) for tool in tools}
    place = {tool: index for index, tool in enumerate(tools)}
    wins = [(place[winner], place[loser]) for winner, loser in preferences]
    mean, covariance = choix.ep_pairwise(len(tools), wins, alpha=PRIOR)
    # Strengths are told against their mean: so are their variances.
    centring = np.eye(len(tools)) - 1 / len(tools)
    mean, spread = centring @ mean, np.sqrt(np.diag(centring @ covariance @ centring))
    return {
        tool: Finding(
            float(mean[i]),
            float(mean[i] - 1.96 * spread[i]),
            float(mean[i] + 1.96 * spread[i]),
            taken[tool],
        )
        for i, tool in enumerate(tools)
    }


def _joined(tools: Sequence[str], preferences: Sequence[tuple[str, str]]) -> bool:
    reached, waiting = {tools[0]}, [tools[0]]
    while waiting:
        tool = waiting.pop()
        near = {other for pair in preferences if tool in pair for other in pair} - reached
        reached |= near
        waiting += near
    return len(reached) == len(tools)
