"""Schedules of beta and the learning rate, and the phases of a run."""

import itertools

import pytest
import tiny

from genlab.vae.training.schedules import LR_WARMUP, Phases, beta_at, lr_at

SCHEDULES = ["constant", "linear", "sigmoid", "cyclical"]
STEPS = [i / 200 for i in range(201)]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_every_schedule_ends_at_beta_max(schedule: str) -> None:
    assert beta_at(1.0, schedule, 0.7, 0.3) == pytest.approx(0.7)
    assert beta_at(0.0, schedule, 1.5, 0.0) == pytest.approx(1.5)  # without a warm-up
    assert {beta_at(progress, schedule, 0.0, 0.3) for progress in STEPS} == {0.0}


@pytest.mark.parametrize("schedule", ["linear", "sigmoid"])
def test_the_rise_is_monotone_and_over_after_the_warm_up(schedule: str) -> None:
    betas = [beta_at(progress, schedule, 2.0, 0.4) for progress in STEPS]
    assert betas[0] == pytest.approx(0.0, abs=1e-12)
    assert all(a < b for a, b in itertools.pairwise(betas[:81]))
    assert betas[80:] == pytest.approx([2.0] * 121)
    assert betas[40] == pytest.approx(1.0)  # both pass one half in the middle of the rise
    assert betas[20] == pytest.approx(0.5) if schedule == "linear" else betas[20] < 0.2


def test_cyclical_falls_back_to_0_once_a_cycle() -> None:
    betas = [beta_at(progress, "cyclical", 1.0, 0.5) for progress in STEPS]
    assert sum(b < a for a, b in itertools.pairwise(betas)) == 3
    assert betas[:50] == pytest.approx(betas[50:100])
    assert max(betas) == pytest.approx(1.0)


@pytest.mark.parametrize(("schedule", "half", "end"), [("constant", 1, 1), ("cosine", 0.5, 0)])
def test_the_learning_rate_rises_to_its_peak_and_is_never_0_before_the_end(
    schedule: str, half: float, end: float
) -> None:
    rates = [lr_at(progress, schedule, 0.01) for progress in STEPS]
    assert 0 < rates[0] < 0.001
    assert max(rates) == pytest.approx(0.01, rel=1e-3)
    assert rates.index(max(rates)) == round(LR_WARMUP * 200)
    assert all(rate > 0 for rate in rates[:-1])
    assert (rates[100], rates[200]) == pytest.approx((0.01 * half, 0.01 * end), abs=1e-12)


@pytest.mark.parametrize(
    ("changes", "delay", "joint"),
    [
        ({"beta_delay": 0.25, "prior_share": 0.5}, 5, 10),
        ({"beta_delay": 0.25, "prior_share": 0.5, "prior": "standard"}, 5, 20),
        ({"beta_delay": 0.99, "prior_share": 0.99}, 19, 20),
        ({"beta_delay": 0.5, "prior_share": 0.9}, 10, 11),
    ],
)
def test_the_phases_follow_each_other_and_one_epoch_trains_everything(
    changes: dict[str, float], delay: int, joint: int
) -> None:
    phases = Phases.from_params(tiny.params(**{"epochs": 20, "prior": "autoregressive", **changes}))
    assert (phases.delay, phases.joint, phases.epochs) == (delay, joint, 20)
    states = [(phases.is_delayed(epoch), phases.is_prior_alone(epoch)) for epoch in range(20)]
    expected = [(True, False)] * delay + [(False, False)] * (joint - delay)
    assert states == expected + [(False, True)] * (20 - joint)
    assert phases.autoencoder_progress(delay) == 0
    assert phases.autoencoder_progress(joint) == 1
    assert phases.prior_progress(0) == phases.prior_progress(delay) == 0
    assert phases.prior_progress(20) == 1
