"""What the agent is asked for: words, and the number in them that decides.

A goal without a number cannot be checked, so it is refused: the planner's own word that a goal is
reached counts for nothing (`Goal.reached`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from genlab.core.console import GenlabError

HIGHER = {"accuracy": True, "val_loss": False, "parameters": False, "seconds": False}
"""The metrics that a goal can be about, and whether more of it is better."""

NAMED = {
    "accuracy": "accuracy",
    "accurate": "accuracy",
    "validation loss": "val_loss",
    "val_loss": "val_loss",
    "val loss": "val_loss",
    "loss": "val_loss",
}
DATASETS = {
    r"fashion[-_ ]?mnist": "fashion_mnist",
    r"cifar[-_ ]?10": "cifar10",
    r"arc[-_ ]?(?:like |agi )?grids?": "arc_grids",
    r"mnist": "mnist",
    r"dummy": "dummy",
}
NUMBER = r"(?P<number>\d+(?:[.,]\d+)?)\s*(?P<percent>%|percent|per cent)?"
AT_LEAST = r"(?:>=|≥|=>|>|at least|over|above|more than|exceed(?:s|ing)?|reach(?:es|ing)?|of)"
AT_MOST = r"(?:<=|≤|=<|<|at most|under|below|less than)"


@dataclass(frozen=True)
class Goal:
    """`metric` of a model on `dataset` shall be at least (or at most) `bound`."""

    text: str
    dataset: str
    metric: str
    bound: float
    higher: bool

    def reached(self, values: list[float]) -> bool:
        """Whether every value holds: one seed of several is luck. Not with no value at all."""
        return bool(values) and all(
            value >= self.bound if self.higher else value <= self.bound for value in values
        )

    def __str__(self) -> str:
        sign = ">=" if self.higher else "<="
        return f"{self.metric} {sign} {self.bound:g} on {self.dataset}"


def goal(
    text: str,
    *,
    dataset: str | None = None,
    metric: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
) -> Goal:
    """The goal that `text` states; what is given beside it goes before what is read from it.

    Raises GenlabError where there is no text, no dataset or no number, naming the option that
    gives it.
    """
    words = " ".join(text.split())
    if not words:
        raise GenlabError(
            'no goal was given; say one: "Design a CNN for Fashion-MNIST, > 90 % accuracy"'
        )
    if at_least is not None and at_most is not None:
        raise GenlabError("--at-least and --at-most exclude each other; leave one of them out")
    chosen = metric or _metric(words)
    if chosen not in HIGHER:
        raise GenlabError(f"--metric must be one of {', '.join(HIGHER)}, got {chosen!r}")
    higher = HIGHER[chosen]
    if at_least is not None or at_most is not None:
        higher, bound = at_least is not None, at_least if at_least is not None else at_most
    else:
        bound = _bound(words, chosen, higher)
    if bound is None:
        raise GenlabError(
            f"the goal {_short(words)!r} holds no number to reach; say one ('> 90 % accuracy'),"
            " or give --metric accuracy --at-least 0.90"
        )
    if chosen == "accuracy" and not 0 <= bound <= 1:
        raise GenlabError(
            f"an accuracy lies between 0 and 1 (or 0 % and 100 %), got {bound:g}; change the goal"
        )
    return Goal(words, _dataset(words, dataset), chosen, float(bound), higher)


def _metric(words: str) -> str:
    lower = words.lower()
    return next((metric for name, metric in NAMED.items() if name in lower), "accuracy")


def _bound(words: str, metric: str, higher: bool) -> float | None:
    """The number behind 'more than' (or 'less than'), or else one that stands beside the metric."""
    lower = words.lower()
    signs = AT_LEAST if higher else AT_MOST
    names = "|".join(re.escape(name) for name, known in NAMED.items() if known == metric) or metric
    patterns = [rf"{signs}\s*{NUMBER}", rf"{NUMBER}\s*(?:\w+\s+)?(?:{names})"]
    for pattern in patterns:
        for found in re.finditer(pattern, lower):
            number = float(found["number"].replace(",", "."))
            if metric == "accuracy" and (found["percent"] or number > 1):
                number /= 100
            elif found["percent"]:
                continue
            return number
    return None


def dataset_in(words: str) -> str | None:
    """The dataset that a goal's words name, if any."""
    lower = words.lower()
    return next((name for pattern, name in DATASETS.items() if re.search(pattern, lower)), None)


def _dataset(words: str, given: str | None) -> str:
    known = ", ".join(DATASETS.values())
    if given is not None and given not in DATASETS.values():
        raise GenlabError(f"--dataset must be one of {known}, got {given!r}")
    found = given or dataset_in(words)
    if found is None:
        raise GenlabError(
            f"the goal {_short(words)!r} names no dataset; name one of {known}, or give --dataset"
        )
    return found


def _short(words: str) -> str:
    return words if len(words) <= 60 else words[:57] + "..."
