"""A goal is a number that decides; a goal without one is refused in a line."""

from __future__ import annotations

from typing import Any

import pytest

from genlab.agent.goal import goal
from genlab.core.errors import GenlabError

STATED: list[tuple[str, str, str, float]] = [
    ("Design a simple CNN for Fashion-MNIST, > 90 % accuracy on quick evaluation",
     "fashion_mnist", "accuracy", 0.90),
    ("an MLP for MNIST with at least 0.97 accuracy", "mnist", "accuracy", 0.97),
    ("count objects in ARC-like grids, accuracy above 80 percent", "arc_grids", "accuracy", 0.8),
    ("92,5 % accurate classifier of fashion mnist", "fashion_mnist", "accuracy", 0.925),
    ("a 3-layer net with 2 heads for cifar10 that reaches 70", "cifar10", "accuracy", 0.7),
    ("validation loss below 0.3 on fashion_mnist", "fashion_mnist", "val_loss", 0.3),
    ("Design a CNN of 3 blocks for Fashion-MNIST, > 90 % accuracy",
     "fashion_mnist", "accuracy", 0.9),
    ("90% on MNIST", "mnist", "accuracy", 0.9),
    ("mnist with an accuracy of more than 0.95 and dropout 0.5", "mnist", "accuracy", 0.95),
    ("mnist, 50 % dropout, no less than 97 % accuracy", "mnist", "accuracy", 0.97),
    ("at least 80 % accuracy on cifar-10, ideally 90 %", "cifar10", "accuracy", 0.8),
    ("the dummy stripes in 20 minutes, 1.0 accuracy", "dummy", "accuracy", 1.0),
    ("mnist, 2 blocks of 16, val_loss 0.3", "mnist", "val_loss", 0.3),
]  # fmt: skip


@pytest.mark.parametrize(("text", "dataset", "metric", "bound"), STATED)
def test_a_goal_is_read_from_its_words(text: str, dataset: str, metric: str, bound: float) -> None:
    found = goal(text)
    assert (found.dataset, found.metric) == (dataset, metric)
    assert found.bound == pytest.approx(bound)
    assert found.higher == (metric == "accuracy")


def test_options_go_before_words() -> None:
    found = goal("mnist, > 90 % accuracy", dataset="dummy", metric="val_loss", at_most=0.2)
    assert (found.dataset, found.metric, found.bound) == ("dummy", "val_loss", 0.2)
    assert str(found) == "val_loss <= 0.2 on dummy"


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", {}, "no goal was given"),
        ("a good CNN for mnist", {}, "holds no number to reach"),
        ("a good CNN, > 90 % accuracy", {}, "names no dataset; name one of"),
        ("> 90 % accuracy", {"dataset": "imagenet"}, "--dataset must be one of"),
        ("mnist > 90 %", {"metric": "beauty"}, "--metric must be one of accuracy"),
        ("mnist, accuracy > 300 %", {}, "an accuracy lies between 0 and 1"),
        ("mnist", {"at_least": 1.0, "at_most": 2.0}, "exclude each other"),
        ("mnist, > 80 % accuracy, or > 90 % accuracy", {}, "0.8 and 0.9; say which: --metric acc"),
        ("mnist, accuracy below 50 %", {}, "holds no number to reach"),
        ("mnist with at least 3 layers", {}, "holds no number to reach"),
        ("a CNN for cifar 10 with 3x3 kernels", {}, "holds no number to reach"),
        ("mnist", {"at_least": float("nan")}, "must be a finite number, got nan"),
        ("mnist, loss below -1", {}, "val_loss is never below 0, got -1"),
        ("mnist", {"metric": "parameters", "at_most": -5.0}, "parameters is never below 0"),
        ("x" * 500, {"dataset": "mnist"}, "holds no number"),
    ],
)
def test_a_goal_that_cannot_be_checked_is_one_line(
    text: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(GenlabError, match=words) as caught:
        goal(text, **options)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_goal_is_reached_on_every_seed_or_not_at_all() -> None:
    found = goal("mnist, > 90 % accuracy")
    assert found.reached([0.9, 0.95])
    assert not found.reached([0.99, 0.89])
    assert not found.reached([])
    assert not found.reached([float("nan")])


def test_thousands_are_not_taken_for_fractions() -> None:
    found = goal("mnist, at most 12,500 parameters", metric="parameters")
    assert (found.bound, found.higher) == (12_500, False)
    assert found.words == "parameters at most 12500 on mnist"
