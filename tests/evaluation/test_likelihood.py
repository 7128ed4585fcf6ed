"""Bounds against closed forms."""

import math

import numpy as np
import pytest

from genlab.evaluation.metrics.likelihood import (
    active_units,
    bound_over_entropy,
    iwae,
    iwae_summary,
    quantize,
    token_summary,
)


def test_iwae_is_the_log_of_the_mean_weight_even_where_exp_underflows() -> None:
    weights = np.array([[math.log(0.2), math.log(0.4)]]) - 5000
    assert iwae(weights) == pytest.approx([math.log(0.3) - 5000])


def test_the_gain_of_iwae_is_that_of_pairs() -> None:
    rng = np.random.default_rng(0)
    hard = rng.normal(0, 100, (300, 1))  # images differ by far more than bounds do
    metrics = iwae_summary(hard + rng.normal(0, 1, (300, 8)), bootstrap=200)
    assert metrics["iwae_gain_nats"] == pytest.approx(
        metrics["iwae_neg_elbo_nats"] - metrics["neg_iwae_nats"]
    )
    gain, bound = (metrics["intervals"][name] for name in ("iwae_gain_nats", "neg_iwae_nats"))
    assert gain["low"] < metrics["iwae_gain_nats"] < gain["high"]
    assert gain["high"] - gain["low"] < 0.01 * (bound["high"] - bound["low"])


def test_tokens_without_nats_are_inactive() -> None:
    metrics = token_summary(np.array([[1.0, 0.02, 0.0], [3.0, -0.01, 0.0]]))
    assert metrics == {"kl_per_token": [2.0, 0.005, 0.0], "inactive_tokens": 2}


def test_active_units_are_those_whose_mean_varies() -> None:
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4000, 3)) * [1.0, 0.2, 0.05] + [0, 5, -5]
    assert active_units(means) == 2  # variances of 1, 0.04 and 0.0025


def test_what_hard_grids_add_to_both_sides_leaves_the_ratio_certain() -> None:
    entropy = np.random.default_rng(0).exponential(40, 500)
    metrics = bound_over_entropy(1.05 * entropy, entropy, bootstrap=200)
    assert metrics["neg_elbo_over_entropy_bound"] == pytest.approx(1.05)
    interval = metrics["intervals"]["neg_elbo_over_entropy_bound"]
    assert (interval["low"], interval["high"]) == pytest.approx((1.05, 1.05))
    nats = metrics["intervals"]["data_entropy_bound_nats"]
    assert nats["low"] < entropy.mean() - 1 < entropy.mean() + 1 < nats["high"]
    apart = bound_over_entropy(1.05 * np.roll(entropy, 1), entropy, bootstrap=200)
    wide = apart["intervals"]["neg_elbo_over_entropy_bound"]
    assert wide["high"] - wide["low"] > 0.05


@pytest.mark.parametrize("bits", [1, 3, 8])
def test_quantised_latents_take_2_to_the_bits_values_within_their_range(bits: int) -> None:
    rng = np.random.default_rng(0)
    reference = rng.uniform(-1, 1, (3000, 3)) * [1, 10, 0.01] + [0, 5, 7]
    means = rng.uniform(-1, 1, (3000, 3)) * [1, 10, 0.01] + [0, 5, 7]
    metrics = quantize(means, reference, bits)
    assert [len(np.unique(column)) for column in metrics[:, :2].T] == [2**bits] * 2
    half = np.ptp(reference, axis=0) / 2 ** (bits + 1)
    inside = (means >= reference.min(axis=0)) & (means <= reference.max(axis=0))
    assert np.all((np.abs(metrics - means) <= half + 1e-9) | ~inside, axis=0)[:2].all()
    assert metrics[:, 2] == pytest.approx(reference[:, 2].mean())  # inactive
    assert np.array_equal(
        quantize(means + 1e6, reference, bits)[:, 0], np.full(3000, metrics[:, 0].max())
    )
