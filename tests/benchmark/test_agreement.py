"""Agreement of raters: textbook values, and a reason where there is no estimate."""

import krippendorff
import numpy as np
import pytest

from genlab.benchmark.leaderboard import agreement
from genlab.benchmark.leaderboard.agreement import STARS
from genlab.benchmark.leaderboard.intervals import LEAST, Estimate

RNG_SEED = 7

# Krippendorff's own example (2011, "Computing Krippendorff's alpha-reliability", page 8): 4 raters.
TEXTBOOK = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)


def test_alpha_is_that_of_the_textbook() -> None:
    pictures = zip(*TEXTBOOK, strict=True)
    counts = np.array([[stars.count(star) for star in STARS] for stars in pictures])
    alpha = agreement.krippendorff_alpha(counts)
    assert alpha.value == pytest.approx(0.815, abs=5e-4)
    assert alpha.n == 11  # the last picture has one rating
    assert (alpha.low or 1) < 0.815 < (alpha.high or 0)
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
    ],
)
def test_an_estimate_without_a_value_says_why(estimate: Estimate, why: str) -> None:
    assert estimate.value is None
    assert why in estimate.why
