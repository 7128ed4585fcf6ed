"""Goal sentences are parsed in full or refused in one line that names the word and the option."""

import math
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from genlab.agent.goals import DATASETS, METRICS, Goal, parse_goal
from genlab.core.errors import GenlabError

SENTENCES = yaml.safe_load((Path(__file__).parent / "sets/goals.yaml").read_text(encoding="utf-8"))


def refusal(text: str, **options: Any) -> str:
    with pytest.raises(GenlabError) as caught:
        parse_goal(text, **options)
    return str(caught.value)


@pytest.mark.parametrize("case", SENTENCES, ids=lambda case: case["goal"])
def test_the_sentences_of_the_set(case: dict[str, Any]) -> None:
    if "refused" in case:
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
    ],
)
def test_an_option_settles_what_is_open(
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
        ("mnist > 90 % with at most 10⁵ parameters", {}, "10⁵"),
        ("mnist > 90 %, under 50.000 parameters", {}, "50.000"),
        ("mnist > 90 % within a quarter of an hour", {}, "quarter"),
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
    ],
)
def test_limits_are_read(text: str, parameters: int | None, seconds: float | None) -> None:
    goal = parse_goal(text)
    assert (goal.threshold, goal.max_parameters, goal.max_seconds) == (0.9, parameters, seconds)


def test_every_seed_decides() -> None:
    goal = parse_goal("mnist > 90 %")
    assert goal.reached([0.9, 0.95])
    assert not goal.reached([0.95, 0.89])
    assert not goal.reached([])
    assert not goal.reached([math.nan])
    assert parse_goal("mnist val_loss < 1").reached([1.0, 0.2])
