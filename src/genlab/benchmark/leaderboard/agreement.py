"""Agreement of raters with each other and with the machine score, strengths, and intervals."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components
from scipy.special import expit
from scipy.stats import norm, t

from genlab.core.stats import Floats, bootstrap_sums

LEAST = 6
"""Fewest items for an interval: of 5, even all alike happens by chance in over 5 % of cases."""
LEVEL = 0.95
LEAST_PREFERENCES = 10
"""Fewest paired preferences for strengths."""
PRIOR = 0.5
"""Inverse variance of the strengths' prior: about 2 logits between two contenders."""
STARS = range(1, 6)

Pair = tuple[str, str]


class Estimate(BaseModel):
    """A number with its 95 % interval and sample size, or `why` there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int
    why: str = ""


def resample_means(values: Floats, *, bootstrap: int, seed: int) -> Floats:
    """Means of the columns of `values` (n, m) in each resample: (bootstrap, m).

    nan is a missing value. All columns see the same resamples, so that differences of columns are
    paired; a resample in which a column has no value gives nan.
    """
    known = ~np.isnan(values)
    terms = np.hstack([np.where(known, values, 0.0), known])
    sums, counts = np.split(bootstrap_sums(terms, bootstrap=bootstrap, seed=seed), 2, axis=1)
    with np.errstate(invalid="ignore"):
        return sums / counts


def confidence_bounds(resampled: Floats, n: npt.NDArray[Any] | int) -> tuple[Floats, Floats]:
    """Lower and upper bound of each column of `resampled` (b, m), of n items each; nan below two.

    The percentile interval is too narrow for few items: its quantiles are moved out so that a mean
    of normal items gets about the width of Student's interval (Hesterberg 2015, "expanded
    percentile interval").
    """
    n = np.broadcast_to(n, resampled.shape[1:])
    low, high = np.full((2, resampled.shape[1]), np.nan)
    for column in np.flatnonzero(n > 1):
        size, values = n[column], resampled[:, column]
        values = values[~np.isnan(values)]
        if len(values):
            tail = norm.cdf(np.sqrt(size / (size - 1)) * t.ppf((1 - LEVEL) / 2, size - 1))
            low[column], high[column] = np.quantile(values, [tail, 1 - tail])
    return low, high


def krippendorff_alpha(
    counts: npt.NDArray[Any], *, bootstrap: int = 1000, seed: int = 0
) -> Estimate:
    """Krippendorff's ordinal α of stars: 1 full agreement, 0 chance, below 0 disagreement.

    counts: (images, 5), how many people gave 1 to 5 stars. Images that fewer than two people rated
    are left out. The interval is the bootstrap's over images. Source: Krippendorff 2004, chapter
    11.
    """

    rated = counts[counts.sum(axis=1) > 1]
    whys = ("images that two people rated", "every rating is the same: α is undefined")
    return _measure(_alphas, rated, *whys, bootstrap=bootstrap, seed=seed)


def _alphas(counts: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
    """α of each resample, (b,): the coincidences of a resample are sums over its images.

    As `krippendorff.alpha`, which takes one table at a time.
    """
    pairs = counts[:, :, None] * (counts[:, None, :] - np.eye(counts.shape[1]))
    pairs = pairs / (counts.sum(axis=1) - 1)[:, None, None]
    coincidences = np.tensordot(weights.astype(np.float64), pairs, axes=1)
    totals = coincidences.sum(axis=2)
    ranks = np.cumsum(totals, axis=1) - totals / 2
    distances = (ranks[:, :, None] - ranks[:, None, :]) ** 2
    observed = (coincidences * distances).sum(axis=(1, 2))
    chance = totals[:, :, None] * totals[:, None, :] / (totals.sum(axis=1) - 1)[:, None, None]
    expected = (chance * distances).sum(axis=(1, 2))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(expected > 0, 1 - observed / expected, np.nan)


def spearman(pairs: npt.NDArray[Any], *, bootstrap: int = 1000, seed: int = 0) -> Estimate:
    """Spearman's rank correlation; pairs: (images, 2), machine score and people's mean stars.

    The interval is the bootstrap's over images.
    """

    def statistic(pairs: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
        x, y = (_centred_ranks(column, weights) for column in pairs.T)
        spread = np.sqrt((weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1))
        with np.errstate(invalid="ignore"):
            return np.asarray((weights * x * y).sum(axis=1) / spread)

    whys = ("images with a score and stars", "all scores or all stars are the same")
    return _measure(statistic, pairs, *whys, bootstrap=bootstrap, seed=seed)


def _centred_ranks(values: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
    """Mean ranks of `values` (n,), less their mean, in each resample: (b, n).

    weights: (b, n), how often a resample has each value; all of its copies are ties.
    """
    levels, places = np.unique(values, return_inverse=True)
    order = np.argsort(places, kind="stable")
    starts = np.searchsorted(places[order], np.arange(len(levels)))
    ties = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks = np.cumsum(ties, axis=1) - (ties - 1) / 2
    return np.asarray(ranks[:, places] - (len(values) + 1) / 2)


def _measure(
    statistic: Callable[[npt.NDArray[Any], npt.NDArray[Any]], Floats],
    items: npt.NDArray[Any],
    what: str,
    undefined: str,
    *,
    bootstrap: int,
    seed: int,
) -> Estimate:
    """A statistic of items (n, m) with its bootstrap interval.

    statistic: of the items, each as often as weights (b, n) say; what: the items in words;
    undefined: why the statistic is nan.
    """
    n = len(items)
    if n < LEAST:
        return Estimate(n=n, why=f"too few {what}: {n}, at least {LEAST}")
    [value] = statistic(items, np.ones((1, n), dtype=np.int64))
    if np.isnan(value):
        return Estimate(n=n, why=undefined)
    draws = np.random.default_rng(seed).integers(n, size=(bootstrap, n))
    weights = np.stack([np.bincount(rows, minlength=n) for rows in draws])
    [low], [high] = confidence_bounds(statistic(items, weights)[:, None], n)
    return Estimate(value=value, low=low, high=high, n=n)


def fit_bradley_terry(
    preferences: Sequence[Pair], ties: Sequence[Pair] = (), *, prior: float = PRIOR
) -> dict[str, Estimate]:
    """Bradley-Terry strengths in logits, mean 0, by contender; preferences: (preferred, other).

    A contender 1 logit above another is preferred 73 times in 100. A tie is half a win for each.
    Posterior mode and 95 % interval under a normal prior (Laplace's approximation): one that won
    every time has a finite strength and a wide interval. prior: its inverse variance; 0 gives the
    maximum of the likelihood. Contenders that no chain of comparisons joins have none. n:
    comparisons of the contender.
    """
    votes = [*preferences, *ties]
    tools = sorted({tool for pair in votes for tool in pair})
    taken = {tool: sum(tool in pair for pair in votes) for tool in tools}
    wins = np.zeros((len(tools), len(tools)))  # of the row over the column
    for pairs, share in ((preferences, 1.0), (ties, 0.5)):
        for one, other in pairs:
            wins[tools.index(one), tools.index(other)] += share
            wins[tools.index(other), tools.index(one)] += 1 - share
    why = ""
    if len(votes) < LEAST_PREFERENCES:
        why = f"too few preferences: {len(votes)}, at least {LEAST_PREFERENCES}"
    elif connected_components(wins, directed=False)[0] > 1:
        why = "some contenders were never compared with the others, not even through a third"
    if why:
        return {tool: Estimate(n=taken[tool], why=why) for tool in tools}
    mode, covariance = _fit_posterior(wins, prior)
    spread = 1.96 * np.sqrt(np.diag(covariance))
    ends = (mode, mode - spread, mode + spread)
    return {
        tool: Estimate(value=value, low=low, high=high, n=taken[tool])
        for tool, value, low, high in zip(tools, *(end.tolist() for end in ends), strict=True)
    }


def _fit_posterior(wins: Floats, prior: float) -> tuple[Floats, Floats]:
    """Mode (m,) and covariance (m, m) of strengths relative to their mean; wins: (m, m)."""
    size = len(wins)
    played = wins + wins.T
    # Beside the prior's, a term that fixes the mean, which no comparison knows, and nothing else.
    precision = prior * np.eye(size) + 1 / size

    def loss(strength: Floats) -> tuple[float, Floats]:
        apart = strength[:, None] - strength
        value = (wins * np.logaddexp(0, -apart)).sum() + strength @ precision @ strength / 2
        slope = (played * expit(apart) - wins).sum(axis=1) + precision @ strength
        return float(value), slope

    mode = minimize(loss, np.zeros(size), jac=True, method="BFGS", options={"gtol": 1e-9}).x
    apart = mode[:, None] - mode
    shared = played * expit(apart) * expit(-apart)
    information = np.diag(shared.sum(axis=1)) - shared + precision
    centring = np.eye(size) - 1 / size
    return centring @ mode, centring @ np.linalg.inv(information) @ centring
