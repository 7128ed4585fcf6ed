"""Verdicts over trainings: met, missed or undecided by the interval; one training says so."""

from typing import Any

import pandas as pd
import pytest

from genlab.evaluation.reports.targets import Target, judge_target
from genlab.evaluation.reports.trainings import judge_trainings, select_trainings

NAME = "discriminator_accuracy"
ONE = {
    "summary": f"missed: {NAME} 0.8 (wanted <= 0.75)",
    "passed": False,
    "criteria": [{"name": NAME, "sign": "<=", "why": "", "passed": False, "value": 0.8}],
}


def make_trainings(values: list[float], threshold: float = 0.75) -> pd.DataFrame:
    """Trainings of the default image model with a discriminator's accuracy each."""
    columns = {"value": values, "threshold": threshold}
    return pd.DataFrame({f"criteria.{NAME}.{column}": cells for column, cells in columns.items()})


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ([0.70, 0.71, 0.70, 0.69, 0.70], "met"),
        ([0.80, 0.81, 0.80, 0.79, 0.80], "missed"),
        ([0.72, 0.76, 0.73, 0.77, 0.74], "undecided"),
    ],
)
def test_a_criterion_is_decided_by_the_interval_over_trainings(
    values: list[float], outcome: str
) -> None:
    verdict = judge_trainings(make_trainings(values), ONE)
    [criterion] = verdict["criteria"]
    assert (criterion["name"], criterion["outcome"]) == (NAME, outcome)
    assert criterion["interval"]["low"] < criterion["value"] < criterion["interval"]["high"]
    words = {"met": "passed", "missed": "not passed", "undecided": "undecided"}
    assert (verdict["outcome"], verdict["scope"]) == (words[outcome], "over 5 trainings")
    assert verdict["passed"] == (outcome == "met")


def test_thresholds_of_each_training_are_compared_with_its_value() -> None:
    # Each value is below its own threshold by .01, however far thresholds lie apart.
    values = [0.3, 0.4, 0.5, 0.6, 0.7]
    trainings = make_trainings(values)
    trainings[f"criteria.{NAME}.threshold"] = [value + 0.01 for value in values]
    [criterion] = judge_trainings(trainings, ONE)["criteria"]
    assert criterion["outcome"] == "met"


def test_a_value_that_one_training_lacks_is_missed() -> None:
    [criterion] = judge_trainings(make_trainings([0.7, float("nan")]), ONE)["criteria"]
    assert (criterion["outcome"], criterion["value"]) == ("missed", None)


def test_a_verdict_without_trainings_is_of_one() -> None:
    verdict = judge_trainings(pd.DataFrame(), ONE)
    assert (verdict["outcome"], verdict["scope"]) == ("not passed", "of one training")
    assert verdict["criteria"][0]["outcome"] == "missed"


def make_rows(**changes: Any) -> pd.DataFrame:
    rows = {
        "entry": "grids-default", "sweep": [["grid-seeds"]] * 5, "seed": range(5),
        "fingerprint.code": "1", "fingerprint.evaluation": "1", "machine": "A, 2 threads",
        "metrics.neg_elbo_nats": [41.0, 42.0, 43.0, 44.0, 45.0],
    }  # fmt: skip
    return pd.DataFrame({**rows, **changes}, index=[f"seed{seed}" for seed in range(5)])


def test_trainings_are_five_of_one_version_that_include_the_committed_one() -> None:
    def count(rows: pd.DataFrame, nats: float = 41.0) -> int:
        return len(select_trainings(rows, "arc_grids", {"neg_elbo_nats": nats}))

    assert count(make_rows()) == 5
    assert count(make_rows(), nats=41.5) == 0
    assert count(make_rows().iloc[:4]) == 0
    assert count(make_rows(machine=[*"AAAAB"])) == 0
    assert len(select_trainings(make_rows(), "emoji", {"neg_elbo_nats": 41.0})) == 0


@pytest.mark.parametrize(
    ("interval", "trainings", "outcome"),
    [
        ([9.0, 10.5], 5, "undecided"),
        ([9.0, 9.9], 5, "met"),
        ([9.0, 10.5], 1, "met"),  # an interval over items does not decide
    ],
)
def test_a_target_within_the_interval_over_trainings_is_undecided(
    interval: list[float], trainings: int, outcome: str
) -> None:
    target = Target(description="a", direction="minimize", target=10.0)
    entry = {"value": 9.5, "interval": interval, "trainings": trainings}
    assert judge_target(target, entry) == outcome
