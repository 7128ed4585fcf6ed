"""Agreement of raters with each other and with the score, Bradley-Terry strengths, intervals."""

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
"""Fewest items for an interval: 5 items agree by chance in over 5 % of cases."""
LEVEL = 0.95
LEAST_PREFERENCES = 10
"""Fewest preferences for Bradley-Terry strengths."""
PRIOR = 0.5
"""Inverse variance of the strengths' normal prior: about 2 logits between two contenders."""
STARS = range(1, 6)

Pair = tuple[str, str]


class Estimate(BaseModel):
    """A statistic with its 95 % interval and sample size, or `why` there is none."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int
    why: str = ""


def resample_means(values: Floats, *, bootstrap: int, seed: int) -> Floats:
    """Return the means of the columns of `values` (n, m) in each resample: (bootstrap, m).

    nan is a missing value. All columns share the resamples, so that differences of columns are
    paired; the mean is nan in a resample in which a column has no value.
    """
    present = ~np.isnan(values)
    terms = np.hstack([np.where(present, values, 0.0), present])
    sums, counts = np.split(bootstrap_sums(terms, bootstrap=bootstrap, seed=seed), 2, axis=1)
    with np.errstate(invalid="ignore"):
        return sums / counts


def confidence_bounds(resampled: Floats, n: npt.NDArray[Any] | int) -> tuple[Floats, Floats]:
    """Return the expanded percentile interval of each column: two arrays (m,), nan where n < 2.

    resampled: (b, m), a statistic in each resample; n: number of items. The percentile interval is
    too narrow for few items: its quantiles are moved outwards so that the interval of a mean of
    normal items is about as wide as Student's (Hesterberg 2015, "expanded percentile interval").
    """
    n = np.broadcast_to(n, resampled.shape[1:])
    low, high = np.full((2, resampled.shape[1]), np.nan)
    for column in np.flatnonzero(n > 1):
        size = n[column]
        values = resampled[:, column]
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
    are left out. The interval is bootstrapped over images. Source: Krippendorff 2004, chapter 11.
    """
    rated = counts[counts.sum(axis=1) > 1]
    return _bootstrap(
        _alphas,
        rated,
        "images that two people rated",
        "every rating is the same: α is undefined",
        bootstrap=bootstrap,
        seed=seed,
    )


def _alphas(counts: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
    """Return α of each resample: (b,). counts: (n, 5); weights: (b, n).

    The coincidences of a resample are sums over its images. Equals `krippendorff.alpha`, which
    takes one table at a time.
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
    """Spearman's rank correlation of the score and people's mean stars.

    pairs: (images, 2), score and mean stars. The interval is bootstrapped over images.
    """

    def statistic(pairs: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
        x, y = (_centred_ranks(column, weights) for column in pairs.T)
        spread = np.sqrt((weights * x * x).sum(axis=1) * (weights * y * y).sum(axis=1))
        with np.errstate(invalid="ignore"):
            return np.asarray((weights * x * y).sum(axis=1) / spread)

    return _bootstrap(
        statistic,
        pairs,
        "images with a score and stars",
        "all scores or all stars are the same",
        bootstrap=bootstrap,
        seed=seed,
    )


def _centred_ranks(values: npt.NDArray[Any], weights: npt.NDArray[Any]) -> Floats:
    """Return the mean ranks of `values` (n,), minus their mean, in each resample: (b, n).

    weights: (b, n), how often a resample has each value; copies of a value are ties.
    """
    levels, level_of = np.unique(values, return_inverse=True)
    order = np.argsort(level_of, kind="stable")
    starts = np.searchsorted(level_of[order], np.arange(len(levels)))
    ties = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks = np.cumsum(ties, axis=1) - (ties - 1) / 2
    return np.asarray(ranks[:, level_of] - (len(values) + 1) / 2)


def _bootstrap(
    statistic: Callable[[npt.NDArray[Any], npt.NDArray[Any]], Floats],
    items: npt.NDArray[Any],
    items_in_words: str,
    undefined: str,
    *,
    bootstrap: int,
    seed: int,
) -> Estimate:
    """Return a statistic of items (n, m) with its bootstrap interval.

    statistic: called with the items and weights (b, n), the number of times that a resample has
    each item; undefined: why the statistic can be nan.
    """
    n = len(items)
    if n < LEAST:
        return Estimate(n=n, why=f"too few {items_in_words}: {n}, at least {LEAST}")
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
