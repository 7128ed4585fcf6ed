"""Bradley-Terry strengths: recovered from simulated votes, or a reason why there are none."""

import numpy as np
import pytest

from genlab.benchmark.leaderboard.intervals import Estimate
from genlab.benchmark.leaderboard.preferences import fit_bradley_terry

RNG_SEED = 7


def is_within(value: float, estimate: Estimate) -> bool:
    """Whether a value lies within the interval of an estimate."""
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.low < value < estimate.high


@pytest.mark.parametrize(
    ("preferences", "why"),
    [
        ([("a", "b")] * 3, "too few"),
        ([*[("a", "b"), ("b", "a")] * 5, *[("c", "d")] * 5], "never"),
    ],
)
def test_strengths_without_enough_comparisons_say_why(
    preferences: list[tuple[str, str]], why: str
) -> None:
    strength = fit_bradley_terry(preferences)["a"]
    assert strength.value is None
    assert why in strength.why


def test_strengths_recover_how_often_a_tool_is_preferred() -> None:
    rng = np.random.default_rng(RNG_SEED)
    truth = {"best": 1.0, "middle": 0.0, "worst": -1.0}
    names = list(truth)
    pairs = []
    for _ in range(600):
        first, second = rng.choice(names, 2, replace=False)
        first_wins = rng.random() < 1 / (1 + np.exp(truth[second] - truth[first]))
        pairs.append((first, second) if first_wins else (second, first))
    for name, strength in fit_bradley_terry(pairs).items():
        assert is_within(truth[name], strength)
        assert (strength.high or 0) - (strength.low or 0) < 0.6
    order = fit_bradley_terry(pairs, prior=0.0)
    doubled = fit_bradley_terry([*pairs, *[pair[::-1] for pair in pairs]], prior=0.0)
    assert max(abs(strength.value or 0) for strength in doubled.values()) < 1e-6
    ties = fit_bradley_terry(pairs, [("best", "worst")] * 200, prior=0.0)
    twice = fit_bradley_terry(
        [*pairs * 2, *[("best", "worst"), ("worst", "best")] * 200], prior=0.0
    )
    for name in names:  # a tie is half a win for each
        assert ties[name].value == pytest.approx(twice[name].value, abs=1e-6)
    assert (ties["best"].value or 0) < (order["best"].value or 0)
    always = fit_bradley_terry([("a", "b")] * 12)["a"]
    assert 0 < (always.low or 0) < (always.high or 0) < 10
    assert fit_bradley_terry([]) == {}
