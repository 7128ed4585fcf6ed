"""Agreement and preferences: textbook values, and a reason where there is no estimate."""

import krippendorff
import numpy as np
import pytest

from genlab.benchmark.leaderboard import agreement
from genlab.benchmark.leaderboard.agreement import LEAST, STARS, confidence_bounds, resample_means

RNG_SEED = 7

# Krippendorff's own example (2011, "Computing Krippendorff's alpha-reliability", page 8): 4 raters.
TEXTBOOK = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)


def is_within(value: float, estimate: agreement.Estimate) -> bool:
    """Whether a value lies within the interval of an estimate."""
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low < value < estimate.high


def test_alpha_is_that_of_the_textbook() -> None:
    pictures = zip(*TEXTBOOK, strict=True)
    counts = np.array([[stars.count(star) for star in STARS] for stars in pictures])
    alpha = agreement.krippendorff_alpha(counts)
    assert alpha.value == pytest.approx(0.815, abs=5e-4)
    assert alpha.n == 11  # the last picture has one rating
    assert is_within(0.815, alpha)
    unanimous = agreement.krippendorff_alpha(np.tile(2 * np.eye(5), (12, 1)))
    assert unanimous.value == pytest.approx(1)


def test_alpha_of_resamples_is_that_of_the_library() -> None:
    rng = np.random.default_rng(RNG_SEED)
    counts = rng.multinomial(3, [0.1, 0.2, 0.4, 0.2, 0.1], size=40)
    weights = rng.multinomial(40, np.full(40, 1 / 40), size=20)
    expected = [
        krippendorff.alpha(
            value_counts=np.repeat(counts, times, axis=0),
            value_domain=list(STARS),
            level_of_measurement="ordinal",
        )
        for times in weights
    ]
    np.testing.assert_allclose(agreement._alphas(counts, weights), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("estimate", "why"),
    [
        (agreement.krippendorff_alpha(np.zeros((0, 5))), "too few"),
        (agreement.krippendorff_alpha(np.tile([0, 0, 1, 0, 0], (20, 1))), "too few"),
        (agreement.krippendorff_alpha(np.tile([0, 0, 2, 0, 0], (20, 1))), "the same"),
        (agreement.spearman(np.random.default_rng(0).random((LEAST - 1, 2))), "too few"),
        (agreement.spearman(np.column_stack([[0.5] * 20, range(20)])), "the same"),
        (agreement.fit_bradley_terry([("a", "b")] * 3)["a"], "too few"),
        (
            agreement.fit_bradley_terry([*[("a", "b"), ("b", "a")] * 5, *[("c", "d")] * 5])["a"],
            "never",
        ),
    ],
)
def test_an_estimate_without_a_value_says_why(estimate: agreement.Estimate, why: str) -> None:
    assert estimate.value is None
    assert why in estimate.why


def test_strengths_recover_how_often_a_tool_is_preferred() -> None:
    rng = np.random.default_rng(RNG_SEED)
    truth = {"best": 1.0, "middle": 0.0, "worst": -1.0}
    names = list(truth)
    pairs = []
    for _ in range(600):
        first, second = rng.choice(names, 2, replace=False)
        first_wins = rng.random() < 1 / (1 + np.exp(truth[second] - truth[first]))
        pairs.append((first, second) if first_wins else (second, first))
    for name, strength in agreement.fit_bradley_terry(pairs).items():
        assert is_within(truth[name], strength)
        assert (strength.high or 0) - (strength.low or 0) < 0.6
    order = agreement.fit_bradley_terry(pairs, prior=0.0)
    doubled = agreement.fit_bradley_terry([*pairs, *[pair[::-1] for pair in pairs]], prior=0.0)
    assert max(abs(strength.value or 0) for strength in doubled.values()) < 1e-6
    ties = agreement.fit_bradley_terry(pairs, [("best", "worst")] * 200, prior=0.0)
    twice = agreement.fit_bradley_terry(
        [*pairs * 2, *[("best", "worst"), ("worst", "best")] * 200], prior=0.0
    )
    for name in names:  # a tie is half a win for each
        assert ties[name].value == pytest.approx(twice[name].value, abs=1e-6)
    assert (ties["best"].value or 0) < (order["best"].value or 0)
    always = agreement.fit_bradley_terry([("a", "b")] * 12)["a"]
    assert 0 < (always.low or 0) < (always.high or 0) < 10
    assert agreement.fit_bradley_terry([]) == {}


@pytest.mark.parametrize("n", [8, 20])
def test_an_interval_of_few_items_covers_as_often_as_it_says(n: int) -> None:
    means = np.random.default_rng(RNG_SEED).normal(size=(n, 1500))
    low, high = confidence_bounds(resample_means(means, bootstrap=800, seed=1), n)
    assert 0.92 < np.mean((low <= 0) & (high >= 0)) < 0.98
