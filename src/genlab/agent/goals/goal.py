"""Goals: a metric of a model on a dataset, the threshold that it has to reach, and constraints.

`parse_goal` reads them from a sentence and options. A number, metric or limit that it cannot read
is refused, so that all of what a goal states is enforced.
"""

import math
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import Any, Literal, NamedTuple

from genlab.agent.goals.numbers import find_numbers
from genlab.agent.goals.words import (
    FILLERS,
    JOINTS,
    LIMITS,
    OPTIONS,
    Quantity,
    UnreadError,
    find_paths,
    find_tokens,
    join_tokens,
    read_quantities,
    refuse,
    split_text,
)
from genlab.core.errors import GenlabError, did_you_mean
from genlab.core.params.catalogue import DUMMY_DATASET
from genlab.core.text import make_printable

Task = Literal["classify", "generate"]


class Metric(NamedTuple):
    """A measured number that a goal can be about; higher: whether more of it is better."""

    higher: bool
    task: Task
    label: str


METRICS = {
    "accuracy": Metric(True, "classify", "accuracy"),
    "macro_f1": Metric(True, "classify", "macro F1"),
    "val_loss": Metric(False, "classify", "validation loss (nats)"),
    "bits_per_dim": Metric(False, "generate", "bits per dimension"),
    "frechet_distance": Metric(False, "generate", "Fréchet distance"),
}
SHARES = ("accuracy", "macro_f1", "error_rate")
DATASETS = ("fashion_mnist", "mnist", "cifar10", "arc_grids", DUMMY_DATASET)
STATED = METRICS | {"error_rate": Metric(False, "classify", "error rate")}
"""What a goal may state: an error rate of at most 0.05 is an accuracy of at least 0.95."""
UNFIT = {"arc_grids": ("bits_per_dim", "frechet_distance"), DUMMY_DATASET: ("frechet_distance",)}


@dataclass(frozen=True)
class Goal:
    """A metric of a model on a dataset that has to reach a threshold within constraints.

    dataset: one of `DATASETS`, one's own, or path:FOLDER. max_seconds: of the training of one seed.
    quotes: words of `text` that a language model has read the rest from; (): the parser has.
    """

    text: str
    dataset: str
    metric: str
    threshold: float
    max_parameters: int | None = None
    max_seconds: float | None = None
    quotes: tuple[str, ...] = field(default=(), compare=False)

    @property
    def values(self) -> dict[str, Any]:
        """What attempts are measured by; words of the sentence are left out."""
        fields = asdict(self) | {"text": ""}
        del fields["quotes"]
        return fields

    @property
    def higher(self) -> bool:
        """Whether more of the metric is better."""
        return METRICS[self.metric].higher

    @property
    def task(self) -> Task:
        """What the model does: classify or generate."""
        return METRICS[self.metric].task

    def score(self, value: float | None) -> float:
        """A value of the metric such that more is better; no value is the worst."""
        return -math.inf if value is None else value if self.higher else -value

    @property
    def description(self) -> str:
        """The goal in words: 'accuracy >= 0.9 on fashion_mnist, at most 50,000 parameters'."""
        sign = ">=" if self.higher else "<="
        parameters, seconds = self.max_parameters, self.max_seconds
        return (
            f"{self.metric} {sign} {write_number(self.threshold)} on {self.dataset}"
            + (f", at most {parameters:,} parameters" if parameters is not None else "")
            + (f", within {write_number(seconds)} s of training" if seconds is not None else "")
        )


def parse_goal(
    text: str,
    *,
    dataset: str | None = None,
    own: Collection[str] = (),
    metric: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    max_parameters: int | None = None,
    max_seconds: float | None = None,
) -> Goal:
    """Parse a goal sentence; options decide what it leaves open.

    own: names of datasets of one's own, which the option may state. A threshold given as an option
    replaces that of the sentence, and of two limits the lower one holds. A dataset or metric that
    contradicts the sentence is refused, as is everything in it that cannot be read or enforced: a
    GenlabError names the word and the option.
    """
    sentence = " ".join(make_printable(text).split())
    tokens = find_tokens(sentence)
    others = _find_other_errors(tokens)
    measures = [token for at, token in enumerate(tokens) if at not in others]
    name = _choose_name(measures, metric, "metric", STATED)
    place = dataset
    if dataset is None or not re.match("path:.", dataset):
        place = _choose_name(tokens, dataset, "dataset", (*DATASETS, *own))
    quantities = read_quantities(tokens)
    if others and not name:
        words = next(iter(others.values()))
        raise refuse(f"what {words!r} measures is not clear", "give --metric", UnreadError)
    name = name or _guess_metric(quantities, place or "")
    if place is None:
        fix = f"give --dataset {', '.join((*DATASETS, *own))} or path:FOLDER"
        raise refuse("it names no dataset", fix, UnreadError)
    if name in UNFIT.get(place, ()):
        raise refuse(f"{name} cannot be measured on {place}", "choose another --dataset")
    threshold = _choose_threshold(quantities, name, at_least, at_most)
    if name == "error_rate":
        name = "accuracy"
        threshold = accuracy_of(threshold)
    most = _choose_limit(quantities, "parameters", max_parameters)
    seconds = _choose_limit(quantities, "seconds", max_seconds)
    goal = Goal(sentence, place, name, threshold, None if most is None else round(most), seconds)
    return goal if sentence else replace(goal, text=goal.description)


def write_number(value: float) -> str:
    """The shortest digits that mean this number: 3.5005, never 3.5."""
    return repr(float(value)).removesuffix(".0")


def accuracy_of(error_rate: float) -> float:
    """The accuracy that an error rate means, without an error of rounding: 0.93 for 0.07."""
    return float(1 - Decimal(repr(error_rate)))


def _choose_name(
    tokens: Sequence[re.Match[str]], option: str | None, what: str, known: Collection[str]
) -> str | None:
    """The one known name that the sentence or the option states, if any."""
    kinds = {token.lastgroup: token[0] for token in tokens}
    names = ", ".join(known)
    words = {token[0].lower() for token in tokens}
    named = [name for name in known if name in kinds]
    if what == "dataset":
        named += find_paths(tokens)
        named = named or [name for name in known if name.lower() in words]
    if option is not None:
        if option not in known:
            near = did_you_mean(option, known)
            raise refuse(f"--{what} {option!r} is unknown{near}", f"give one of {names}")
        if named and option not in named:
            raise refuse(f"it names {named[0]}, but --{what} is {option}", "correct one of them")
        return option
    other = kinds.get(f"other_{what}", "")
    if other and other.lower() not in map(str.lower, known):
        raise refuse(f"{other!r} is not one of {names}", f"choose with --{what}")
    if len(named) > 1:
        raise refuse(f"it names {' and '.join(named)}", f"choose one with --{what}")
    return named[0] if named else None


def _guess_metric(quantities: Sequence[Quantity], dataset: str) -> str:
    """Accuracy, which is what a percentage without the name of a metric means."""
    numbers = [each for each in quantities if each.unit in ("", "percent")]
    for each in numbers:
        is_named = each.before.lower() == dataset.lower()
        is_plain = JOINTS.fullmatch(each.after) and (is_named or FILLERS.fullmatch(each.before))
        if each.unit != "percent" or not is_plain:
            words = f"{each.before} {each.text} {each.after}".strip()
            raise refuse(f"what {words!r} measures is not clear", "give --metric", UnreadError)
    if not numbers:
        fix = "give --metric and --at-least"
        raise refuse("it holds no metric and no number to reach", fix, UnreadError)
    return "accuracy"


def _find_other_errors(tokens: Sequence[re.Match[str]]) -> dict[int, str]:
    """Where an error is none of classification, such as a calibration error: words by place."""
    found = {}
    for at, token in enumerate(tokens):
        beside = tokens[max(0, at - 1) : at + 2]
        words = [each[0] for each in beside if each["word"] or each["error_rate"]]
        if token["error_rate"] and not all(
            FILLERS.fullmatch(each[0]) for each in beside if each["word"]
        ):
            found[at] = " ".join(words)
    return found


def _choose_threshold(
    quantities: Sequence[Quantity], metric: str, at_least: float | None, at_most: float | None
) -> float:
    """The one number of the metric, or the option's; a percentage is a share."""
    higher = STATED[metric].higher
    is_share = metric in SHARES
    better, option = ("higher", "--at-least") if higher else ("lower", "--at-most")
    given, other = (at_least, at_most) if higher else (at_most, at_least)
    if other is not None:
        raise refuse(f"{metric} is better when {better}", f"give {option} alone")
    found = {} if given is None else {given: write_number(given)}
    for each in quantities:
        if each.unit not in ("", "percent"):
            continue
        if each.sign in ("worse", "less" if higher else "more"):
            if not each.unit and not JOINTS.fullmatch(each.after):
                words = f"{each.text} {each.after}"
                raise refuse(f"{words!r} cannot be read or enforced", LIMITS, UnreadError)
            reason = f"{metric} is better when {better}, which contradicts {each.text!r}"
            raise refuse(reason, f"change the comparison, then give {option} if need be")
        if given is None:
            if each.unit and not is_share:
                raise refuse(f"{metric} has no {each.text!r}", f"give {option}")
            found[float(each.value / 100 if each.unit else each.value)] = each.text
    if len(found) != 1:
        numbers = " and ".join(found.values())
        reason = f"it is not clear which of {numbers} is meant" if found else "it holds no number"
        units = {each.unit for each in quantities if each.unit in ("", "percent")}
        kind = GenlabError if len(found) > 1 and len(units) == 1 else UnreadError
        raise refuse(reason, f"give the threshold with {option}", kind)
    ((value, text),) = found.items()
    if not (0 <= value <= 1 if is_share else 0 < value < math.inf):
        span = "between 0 and 1, or 0 % and 100 %" if is_share else "a positive number"
        raise refuse(f"{metric} is {span}, got {text}", f"correct it, or give {option}")
    return value


def _choose_limit(quantities: Sequence[Quantity], unit: str, option: float | None) -> float | None:
    """The lowest limit of a unit, parameters or seconds, or None where there is none."""
    limits = [] if option is None else [float(option)]
    for each in (each for each in quantities if each.unit == unit):
        if each.sign not in ("less", "") or (not each.sign and option is None):
            fix = f"write 'at most {each.text}', or give {OPTIONS[unit]}"
            kind = GenlabError if each.sign else UnreadError
            raise refuse(f"{each.text!r} is not an upper limit of {unit}", fix, kind)
        limits.append(float(each.value))
    least = 1 if unit == "parameters" else 0.001
    if limits and not least <= min(limits) < math.inf:
        limit = write_number(min(limits))
        raise refuse(f"{limit} {unit} are no limit", f"give a positive {OPTIONS[unit]}")
    return min(limits, default=None)


def split_words(goal: Goal) -> tuple[Sequence[str], Sequence[str]]:
    """The phrases of a goal's sentence that are enforced, and those that only a planner reads."""
    if goal.quotes:
        return goal.quotes, split_text(goal.text, goal.quotes)
    tokens = find_tokens(goal.text)
    held = {
        at
        for at, token in enumerate(tokens)
        if token.lastgroup in (goal.dataset, *STATED)
        or goal.dataset in (token[0].lower(), *find_paths([token]))
    } - {*_find_other_errors(tokens)}
    with suppress(GenlabError):  # an older parser has read it
        for each in read_quantities(tokens):
            share = float(each.value / 100 if each.unit == "percent" else each.value)
            is_number = each.unit in ("", "percent")
            is_threshold = is_number and goal.threshold in (share, accuracy_of(share))
            if is_threshold or each.unit in OPTIONS:
                held |= each.places
    phrases = join_tokens(goal.text, tokens, held)
    return phrases, split_text(goal.text, phrases)


def quote_enforced(goal: Goal) -> str:
    """The phrases of a goal's sentence that a run enforces, in quotation marks."""
    return ", ".join(f'"{phrase}"' for phrase in split_words(goal)[0])


def quote_unenforced(goal: Goal) -> str:
    """The phrases that a planner reads and nothing enforces, in quotation marks; "": none."""
    return ", ".join(f'"{phrase}"' for phrase in split_words(goal)[1])


def explain_error(goal: Goal) -> str:
    """What the error rate means that a goal's sentence states; empty where it states none."""
    stated = find_numbers(goal.text)
    shares = {
        value / (100 if each.is_percentage else 1) for each in stated for value in each.values
    }
    threshold = Decimal(repr(goal.threshold))
    if goal.metric != "accuracy" or threshold in shares or 1 - threshold not in shares:
        return ""
    error_rate = write_number(accuracy_of(goal.threshold))
    return f"at most {error_rate} is at least {write_number(goal.threshold)}"
