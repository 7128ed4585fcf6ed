"""What the agent is asked for: words, and the number in them that decides.

A goal without a number cannot be checked, so it is refused: the planner's own word that a goal is
reached counts for nothing (`Goal.reached`).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from genlab.core.errors import GenlabError

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
NUMBER = re.compile(
    r"(?<![\w.,-])(?P<number>-?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+(?:[.,]\d+)?))(?![\w.,]*\d)"
    r"\s*(?P<percent>%|percent\b|per cent\b)?"
)
AT_LEAST = (
    r"(?:>=|≥|=>|>|(?:no|not) less than|(?<!no )(?<!not )(?:more|greater|higher|better) than"
    r"|at least|over|above|minimum(?: of)?|exceed(?:s|ing)?|reach(?:es|ing)?)"
)
AT_MOST = (
    r"(?:<=|≤|=<|<|(?:no|not) more than|(?<!no )(?<!not )(?:less|fewer|lower) than"
    r"|at most|under|below|maximum(?: of)?)"
)
JOINTS = {
    "on", "for", "in", "with", "and", "or", "at", "to", "by", "of", "from", "using", "within",
    "after", "per", "as", "but",
}  # fmt: skip
"""Words that may follow a number that counts nothing; of any other it is a count: 3 layers."""


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

    @property
    def words(self) -> str:
        """The number that decides, for people."""
        sense = "least" if self.higher else "most"
        return f"{self.metric} at {sense} {self.bound:g} on {self.dataset}"

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
    if not math.isfinite(bound):
        raise GenlabError(f"the bound of a goal must be a finite number, got {bound:g}; give one")
    if chosen == "accuracy" and not 0 <= bound <= 1:
        raise GenlabError(
            f"an accuracy lies between 0 and 1 (or 0 % and 100 %), got {bound:g}; change the goal"
        )
    if bound < 0:
        raise GenlabError(f"{chosen} is never below 0, got {bound:g}; change the goal")
    return Goal(words, _dataset(words, dataset), chosen, float(bound), higher)


def _metric(words: str) -> str:
    lower = words.lower()
    return next((metric for name, metric in NAMED.items() if name in lower), "accuracy")


def _bound(words: str, metric: str, higher: bool) -> float | None:
    """The number that is meant; None where there is none.

    A sign behind which it stands ('more than'), a percent sign and the metric's name beside it each
    speak for a number. Raises GenlabError where the same speaks for two.
    """
    lower = words.lower()
    for pattern in DATASETS:  # their digits are no goal
        lower = re.sub(pattern, lambda found: "," * len(found[0]), lower)
    found: dict[float, int] = {}
    for hit in NUMBER.finditer(lower):
        value = _value(hit, metric)
        points = _points(lower[: hit.start()], hit, lower[hit.end() :], metric, higher)
        if value is not None and points:
            found[value] = max(points, found.get(value, 0))
    meant = [value for value, points in found.items() if points == max(found.values())]
    if len(meant) > 1:
        option = "--at-least" if higher else "--at-most"
        numbers = " and ".join(f"{value:g}" for value in meant)
        raise GenlabError(
            f"the goal {_short(words)!r} holds more than one number that may be meant, {numbers};"
            f" say which: --metric {metric} {option} {meant[0]:g}"
        )
    return meant[0] if meant else None


def _value(hit: re.Match[str], metric: str) -> float | None:
    digits = hit["number"]
    thousands = re.fullmatch(r"-?[1-9]\d{0,2}(?:,\d{3})+", digits)
    number = float(digits.replace(",", "" if thousands else "."))
    if metric != "accuracy":
        return None if hit["percent"] else number
    return number / 100 if hit["percent"] or number > 1 else number


def _points(before: str, hit: re.Match[str], after: str, metric: str, higher: bool) -> int:
    """What speaks for a number, counted; 0 where it is something else's."""
    sign, opposite = (AT_LEAST, AT_MOST) if higher else (AT_MOST, AT_LEAST)
    if re.search(rf"{opposite}\s*$", before):
        return 0
    names = "|".join(re.escape(name) for name, known in NAMED.items() if known == metric) or metric
    beside = re.search(rf"(?:{names})\s*(?:of|is|be|to|=|:)?\s*{sign}?\s*$", before) or re.match(
        rf"\s*(?:\w+\s+)?(?:{names})", after
    )
    signed = re.search(rf"{sign}\s*$", before)
    follower = re.match(r"[\s-]*([a-z]+)", after)
    counts = follower is not None and follower[1] not in JOINTS and not hit["percent"]
    points = bool(beside) + bool(hit["percent"]) + bool(signed and not counts)
    alone = re.search(r"(?:^|[^\w\s])\s*$", before) and "." in hit["number"]
    return points or int(bool(alone) and metric == "accuracy" and not counts)


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
