"""Goal sentences are parsed completely, or refused in one line that names word and option."""

import math
import re
from dataclasses import asdict
from typing import Any

import pytest
from goal_answers import SETS
from hypothesis import given
from hypothesis import strategies as st
from judged import read_set
from pydantic import TypeAdapter

from genlab.agent.goals.goal import (
    DATASETS,
    METRICS,
    Goal,
    explain_error,
    quote_enforced,
    quote_unenforced,
)
from genlab.agent.goals.parser import parse_goal
from genlab.agent.goals.words import UnreadError
from genlab.core.errors import GenlabError

SENTENCES = [entry for name in SETS for entry in read_set(name)]


def refusal(text: str, **options: Any) -> str:
    with pytest.raises(GenlabError) as caught:
        parse_goal(text, **options)
    return str(caught.value)


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case["goal"])
def test_the_sentences_of_the_set(case: dict[str, Any]) -> None:
    if "answer" in case:
        with pytest.raises(UnreadError, match=f"(?i){case['unread']}"):
            parse_goal(case["goal"])
    elif "refused" in case:
        assert re.search(case["refused"], refusal(case["goal"]), re.IGNORECASE)
    else:
        goal = parse_goal(case["goal"])
        expected = {"max_parameters": None, "max_seconds": None, **case["expect"]}
        assert {name: getattr(goal, name) for name in expected} == expected


@pytest.mark.parametrize("name", METRICS)
def test_a_description_is_a_sentence_of_the_same_goal(name: str) -> None:
    goal = Goal("", "fashion_mnist", name, 0.25, 50_000, 90.0)
    parsed = parse_goal(goal.description)
    assert parsed == Goal(goal.description, "fashion_mnist", name, 0.25, 50_000, 90.0)


@given(st.floats(1e-6, 1e9), st.floats(0.001, 1e6))
def test_a_description_keeps_every_digit(threshold: float, seconds: float) -> None:
    goal = Goal("", "mnist", "val_loss", threshold, None, seconds)
    parsed = parse_goal(goal.description)
    assert (parsed.threshold, parsed.max_seconds) == (threshold, seconds)


def test_a_description_has_no_needless_digits() -> None:
    goal = parse_goal("bits/dim below 3.5005 on mnist, within 90 s")
    assert goal.description == "bits_per_dim <= 3.5005 on mnist, within 90 s of training"
    assert parse_goal("mnist accuracy > 89.1 %").description == "accuracy >= 0.891 on mnist"


@pytest.mark.parametrize("dataset", [*DATASETS, "path:images/mine"])
def test_options_alone_are_a_goal(dataset: str) -> None:
    goal = parse_goal("", dataset=dataset, metric="val_loss", at_most=0.5, max_seconds=20)
    assert goal == Goal(goal.description, dataset, "val_loss", 0.5, None, 20.0)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("Reach 99 % F1 on MNIST", {"metric": "macro_f1"}, ("mnist", "macro_f1", 0.99)),
        ("90 % or 92 % on mnist", {"at_least": 0.92}, ("mnist", "accuracy", 0.92)),
        ("MNIST and Fashion-MNIST, > 90 %", {"dataset": "mnist"}, ("mnist", "accuracy", 0.9)),
        ("my photos, > 90 %", {"dataset": "path:photos"}, ("path:photos", "accuracy", 0.9)),
        ("MNIST loss < 0.2", {"metric": "val_loss"}, ("mnist", "val_loss", 0.2)),
        ("mnist calibration error < 3 %", {"metric": "error_rate"}, ("mnist", "accuracy", 0.97)),
        ("my_cats > 90 %", {"own_datasets": ["other", "my_cats"]}, ("my_cats", "accuracy", 0.9)),
    ],
)
def test_an_option_decides_what_the_sentence_leaves_open(
    text: str, options: dict[str, Any], expected: tuple[str, str, float]
) -> None:
    assert refusal(text).count("--") >= 1
    goal = parse_goal(text, **options)
    assert (goal.dataset, goal.metric, goal.threshold) == expected


def test_of_two_limits_the_lower_one_holds() -> None:
    text = "mnist > 90 %, under 50k parameters, within 60 s"
    goal = parse_goal(text, max_parameters=20_000, max_seconds=90.0)
    assert (goal.max_parameters, goal.max_seconds) == (20_000, 60.0)


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("", {}, "--metric"),
        ("mnist > 90 %", {"dataset": "fashion_mnist"}, "names mnist"),
        ("mnist > 90 %", {"dataset": "cifar"}, "did you mean cifar10"),
        ("mnist > 90 %", {"at_most": 0.95}, "--at-least"),
        ("mnist", {"metric": "val_loss", "at_least": 1.0}, "--at-most"),
        ("mnist > 90 %", {"at_least": math.nan}, "accuracy"),
        ("mnist > 90 %", {"max_seconds": math.inf}, "--training-seconds"),
        ("mnist > 90 % in 50k parameters", {}, "'50k parameters'.*--max-parameters"),
        ("mnist > 90 %, under 50.000 parameters", {}, "50.000"),
        ("mnist > 90 % with a quarter of LeNet's parameters", {}, "quarter"),
        ("mnist > 90 % within 30 s 1 min", {}, "30 s 1 min"),
        ("mnist > 90 % accuracy within a day", {}, "day"),
        ("mnist > 90 % accuracy on at most 2 GPUs", {}, "2 GPUs"),
        ("reduce the error rate on mnist by 5 %", {}, "by 5 %"),
        ("3 % fewer errors than LeNet on mnist", {}, "errors"),
        ("Fehler unter 5 % in mnist", {}, "unter 5 %"),
        ("> 90 % accuracy on ~/digits", {"dataset": "mnist"}, r"~/digits"),
        ("mnist > 90 %, parameters < 50,000", {}, "50,000"),
        ("mnist > 90 % with fewer than 5 layers", {}, "5 layers"),
        ("mnist > 90 % with at most as many parameters as LeNet", {}, "--max-parameters"),
        ("mnist with 95 % sparsity", {}, "sparsity.*--metric"),
        ("mnist at 0.9", {}, "0.9.*--metric"),
        ("mnist > 90 % for under $5", {}, r"\$"),
        ("MNIST-1D > 90 %", {}, "MNIST-1D.*--dataset"),
        ("mnist bits per dimension below 20 %", {}, "20 %"),
    ],
)
def test_what_cannot_be_enforced_is_refused(
    text: str, options: dict[str, Any], reason: str
) -> None:
    assert re.search(reason, refusal(text, **options))


@pytest.mark.parametrize(
    ("text", "parameters", "seconds"),
    [
        ("ResNet-18 for mnist > 90 %, no more than 0.5 million weights", 500_000, None),
        ("mnist > 90 %, never exceeding 5e4 parameters, within an hour", 50_000, 3600.0),
        ("mnist > 90 % — 2 conv layers, max-pooling, 3 × 3 kernels, ≤ 1.5 min", None, 90.0),
        ("mnist: 90 % or better after 2 minutes at most", None, 120.0),
        ("mnist > 90 % with at most 10⁵ parameters", 100_000, None),
        ("mnist > 90 % within sixteen minutes and forty-five seconds", None, 1005.0),
        ("mnist > 90 % acc, without exceeding 2 minutes; don't exceed 1M params", 10**6, 120.0),
        ("mnist > 90 % accuracy with error bars, half-hour training at most", None, 1800.0),
    ],
)
def test_limits_are_read(text: str, parameters: int | None, seconds: float | None) -> None:
    goal = parse_goal(text)
    assert (goal.threshold, goal.max_parameters, goal.max_seconds) == (0.9, parameters, seconds)


@pytest.mark.parametrize(
    ("text", "enforced", "others"),
    [
        (
            "A vision transformer without BatchNorm for Fashion-MNIST, at least 90 % accuracy with"
            " at most 50k parameters",
            '"Fashion-MNIST", "at least 90 % accuracy", "at most 50k parameters"',
            '"vision transformer without BatchNorm"',
        ),
        ("Get to 97 % on MNIST", '"97 %", "MNIST"', ""),
        (
            "An accuracy of at least 0.9 on mnist: 2 conv layers, no dropout, within half an hour",
            '"accuracy of at least 0.9", "mnist", "within half an hour"',
            '"2 conv layers, no dropout"',
        ),
        (
            "Keep the error below 5 % for the photographs in ./photos, and be quick",
            '"error below 5 %", "./photos"',
            '"photographs", "quick"',
        ),
    ],
)
def test_enforced_and_other_phrases_are_quoted(text: str, enforced: str, others: str) -> None:
    goal = parse_goal(text)
    assert quote_enforced(goal) == enforced
    assert quote_unenforced(goal) == others


def test_a_number_that_an_option_replaces_is_not_enforced() -> None:
    goal = parse_goal("90 % or 92 % on mnist", at_least=0.92)
    assert quote_enforced(goal) == '"92 %", "mnist"'
    assert quote_unenforced(goal) == '"90 %"'


@pytest.mark.parametrize("goal", SENTENCES, ids=lambda case: case["goal"])
def test_every_number_is_quoted(goal: dict[str, Any]) -> None:
    if "expect" in goal and "answer" not in goal:
        parsed = parse_goal(goal["goal"])
        quotes = f"{quote_enforced(parsed)} {quote_unenforced(parsed)}"
        numbers = r"\w*\d\w*"
        assert sorted(re.findall(numbers, quotes)) == sorted(re.findall(numbers, goal["goal"]))


def test_an_error_rate_is_explained() -> None:
    goal = parse_goal("error below 7 % on mnist")
    assert explain_error(goal) == "at most 0.07 is at least 0.93"
    assert explain_error(parse_goal("accuracy above 93 % on mnist")) == ""


def test_goals_of_older_runs_are_read_and_keep_their_key() -> None:
    stored = {"text": "mnist > 90 %", "dataset": "mnist", "metric": "accuracy", "threshold": 0.9,
              "max_parameters": None, "max_seconds": None}  # fmt: skip
    goal = TypeAdapter(Goal).validate_python(stored)
    assert goal == parse_goal("mnist > 90 %")
    assert goal.values == stored | {"text": ""}
    again = TypeAdapter(Goal).validate_python(asdict(goal))
    assert quote_unenforced(again) == quote_unenforced(goal) == ""
