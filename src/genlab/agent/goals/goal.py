"""Goals: a metric of a model on a dataset, the threshold that it has to reach, and constraints.

`parse_goal` reads them from a sentence and options. It refuses a number, metric or limit that it
cannot read, so that everything measurable in a goal is enforced.
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
    """A measured number that a goal can be about; higher: whether larger values are better."""

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
"""Metrics that a sentence may state; an error rate becomes an accuracy."""
UNMEASURABLE = {
    "arc_grids": ("bits_per_dim", "frechet_distance"),
    DUMMY_DATASET: ("frechet_distance",),
}


@dataclass(frozen=True)
class Goal:
    """A metric of a model on a dataset that has to reach a threshold within constraints.

    dataset: one of `DATASETS`, a user's own, or path:FOLDER. max_seconds: of the training of one
    seed. quotes: the phrases of `text` that a language model has read the goal from; () where the
    parser has read it.
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
        """The fields that attempts are measured by, without the words of the sentence."""
        fields = asdict(self) | {"text": ""}
        del fields["quotes"]
        return fields

    @property
    def higher(self) -> bool:
        """Whether larger values of the metric are better."""
        return METRICS[self.metric].higher

    @property
    def task(self) -> Task:
        """What the model does: classify or generate."""
        return METRICS[self.metric].task

    def score(self, value: float | None) -> float:
        """Map a value of the metric to a score of which more is better; None is the worst."""
        if value is None:
            return -math.inf
        return value if self.higher else -value

    @property
    def description(self) -> str:
        """The goal in words: 'accuracy >= 0.9 on fashion_mnist, at most 50,000 parameters'."""
        sign = ">=" if self.higher else "<="
        words = f"{self.metric} {sign} {write_number(self.threshold)} on {self.dataset}"
        if self.max_parameters is not None:
            words += f", at most {self.max_parameters:,} parameters"
        if self.max_seconds is not None:
            words += f", within {write_number(self.max_seconds)} s of training"
        return words


def parse_goal(
    text: str,
    *,
    dataset: str | None = None,
    own_datasets: Collection[str] = (),
    metric: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    max_parameters: int | None = None,
    max_seconds: float | None = None,
) -> Goal:
    """Parse a goal sentence; options decide what it leaves open.

    own_datasets: names of the user's datasets, which sentence and option may state. A threshold
    given as an option replaces that of the sentence, and of two limits the lower one holds. Raises
    a GenlabError that names the word and the option for a dataset or metric that contradicts the
    sentence, and for everything in it that cannot be read or enforced.
    """
    sentence = " ".join(make_printable(text).split())
    tokens = find_tokens(sentence)
    datasets = (*DATASETS, *own_datasets)
    foreign_errors = _find_foreign_errors(tokens)
    metric_tokens = [token for at, token in enumerate(tokens) if at not in foreign_errors]
    metric = _choose_name(metric_tokens, metric, "metric", STATED)
    if dataset is None or not re.match("path:.", dataset):
        dataset = _choose_name(tokens, dataset, "dataset", datasets)
    quantities = read_quantities(tokens)
    if foreign_errors and not metric:
        words = next(iter(foreign_errors.values()))
        raise refuse(f"what {words!r} measures is not clear", "give --metric", UnreadError)
    metric = metric or _guess_metric(quantities, dataset or "")
    if dataset is None:
        fix = f"give --dataset {', '.join(datasets)} or path:FOLDER"
        raise refuse("it names no dataset", fix, UnreadError)
    if metric in UNMEASURABLE.get(dataset, ()):
        raise refuse(f"{metric} cannot be measured on {dataset}", "choose another --dataset")
    threshold = _choose_threshold(quantities, metric, at_least, at_most)
    if metric == "error_rate":
        metric = "accuracy"
        threshold = to_accuracy(threshold)
    parameters = _choose_limit(quantities, "parameters", max_parameters)
    goal = Goal(
        text=sentence,
        dataset=dataset,
        metric=metric,
        threshold=threshold,
        max_parameters=None if parameters is None else round(parameters),
        max_seconds=_choose_limit(quantities, "seconds", max_seconds),
    )
    return goal if sentence else replace(goal, text=goal.description)


def write_number(value: float) -> str:
    """Write a number with the fewest digits that keep its value: 3.5005, and 90 for 90.0."""
    return repr(float(value)).removesuffix(".0")


def to_accuracy(error_rate: float) -> float:
    """Convert an error rate to an accuracy without an error of rounding: 0.07 to 0.93."""
    return float(1 - Decimal(repr(error_rate)))


def _choose_name(
    tokens: Sequence[re.Match[str]], option: str | None, what: str, choices: Collection[str]
) -> str | None:
    """Return the one choice that the sentence or the option states, None where there is none.

    what: metric or dataset.
    """
    kinds = {token.lastgroup: token[0] for token in tokens}
    words = {token[0].lower() for token in tokens}
    stated = [name for name in choices if name in kinds]
    if what == "dataset":
        stated += find_paths(tokens)
        stated = stated or [name for name in choices if name.lower() in words]
    if option is not None:
        if option not in choices:
            hint = did_you_mean(option, choices)
            fix = f"give one of {', '.join(choices)}"
            raise refuse(f"--{what} {option!r} is unknown{hint}", fix)
        if stated and option not in stated:
            raise refuse(f"it names {stated[0]}, but --{what} is {option}", "correct one of them")
        return option
    foreign = kinds.get(f"other_{what}", "")  # such as CIFAR-100 or perplexity
    if foreign and foreign.lower() not in map(str.lower, choices):
        raise refuse(f"{foreign!r} is not one of {', '.join(choices)}", f"choose with --{what}")
    if len(stated) > 1:
        raise refuse(f"it names {' and '.join(stated)}", f"choose one with --{what}")
    return stated[0] if stated else None


def _guess_metric(quantities: Sequence[Quantity], dataset: str) -> str:
    """Return accuracy, which a percentage without the name of a metric means, or refuse."""
    numbers = _select_numbers(quantities)
    for number in numbers:
        follows_dataset = number.before.lower() == dataset.lower()
        has_plain_start = follows_dataset or FILLERS.fullmatch(number.before)
        is_plain = JOINTS.fullmatch(number.after) and has_plain_start
        if number.unit != "percent" or not is_plain:
            words = f"{number.before} {number.text} {number.after}".strip()
            raise refuse(f"what {words!r} measures is not clear", "give --metric", UnreadError)
    if not numbers:
        fix = "give --metric and --at-least"
        raise refuse("it holds no metric and no number to reach", fix, UnreadError)
    return "accuracy"


def _find_foreign_errors(tokens: Sequence[re.Match[str]]) -> dict[int, str]:
    """Find errors that are none of classification, such as a calibration error.

    Returns the words by the position of their token.
    """
    phrases = {}
    for at, token in enumerate(tokens):
        neighbours = tokens[max(0, at - 1) : at + 2]
        words = [neighbour[0] for neighbour in neighbours if neighbour["word"]]
        if token["error_rate"] and not all(FILLERS.fullmatch(word) for word in words):
            phrase = [n[0] for n in neighbours if n["word"] or n["error_rate"]]
            phrases[at] = " ".join(phrase)
    return phrases


def _select_numbers(quantities: Sequence[Quantity]) -> list[Quantity]:
    """Return the numbers that may be a threshold: those without a unit, and percentages."""
    return [quantity for quantity in quantities if quantity.unit in ("", "percent")]


def _choose_threshold(
    quantities: Sequence[Quantity], metric: str, at_least: float | None, at_most: float | None
) -> float:
    """Return the one number of the metric, or the option's; a percentage becomes a share."""
    higher = STATED[metric].higher
    is_share = metric in SHARES
    better = "higher" if higher else "lower"
    option = "--at-least" if higher else "--at-most"
    threshold = at_least if higher else at_most
    contradiction = at_most if higher else at_least
    if contradiction is not None:
        raise refuse(f"{metric} is better when {better}", f"give {option} alone")
    numbers = _select_numbers(quantities)
    texts = {} if threshold is None else {threshold: write_number(threshold)}
    for number in numbers:
        if number.sign in ("worse", "less" if higher else "more"):
            if not number.unit and not JOINTS.fullmatch(number.after):
                words = f"{number.text} {number.after}"
                raise refuse(f"{words!r} cannot be read or enforced", LIMITS, UnreadError)
            reason = f"{metric} is better when {better}, which contradicts {number.text!r}"
            raise refuse(reason, f"change the comparison, then give {option} if need be")
        if threshold is None:
            if number.unit and not is_share:
                raise refuse(f"{metric} has no {number.text!r}", f"give {option}")
            texts[float(number.value / 100 if number.unit else number.value)] = number.text
    if len(texts) != 1:
        reason = "it holds no number"
        if texts:
            reason = f"it is not clear which of {' and '.join(texts.values())} is meant"
        units = {number.unit for number in numbers}
        kind = GenlabError if len(texts) > 1 and len(units) == 1 else UnreadError
        raise refuse(reason, f"give the threshold with {option}", kind)
    ((value, text),) = texts.items()
    if not (0 <= value <= 1 if is_share else 0 < value < math.inf):
        span = "between 0 and 1, or 0 % and 100 %" if is_share else "a positive number"
        raise refuse(f"{metric} is {span}, got {text}", f"correct it, or give {option}")
    return value


def _choose_limit(quantities: Sequence[Quantity], unit: str, option: float | None) -> float | None:
    """Return the lowest limit of a unit, parameters or seconds; None where there is none."""
    limits = [] if option is None else [float(option)]
    for quantity in quantities:
        if quantity.unit != unit:
            continue
        if quantity.sign not in ("less", "") or (not quantity.sign and option is None):
            fix = f"write 'at most {quantity.text}', or give {OPTIONS[unit]}"
            kind = GenlabError if quantity.sign else UnreadError
            raise refuse(f"{quantity.text!r} is not an upper limit of {unit}", fix, kind)
        limits.append(float(quantity.value))
    least = 1 if unit == "parameters" else 0.001
    if limits and not least <= min(limits) < math.inf:
        limit = write_number(min(limits))
        raise refuse(f"{limit} {unit} are no limit", f"give a positive {OPTIONS[unit]}")
    return min(limits, default=None)


def split_words(goal: Goal) -> tuple[Sequence[str], Sequence[str]]:
    """Split a sentence into phrases that are enforced, and those that only a planner reads."""
    if goal.quotes:
        return goal.quotes, split_text(goal.text, goal.quotes)
    tokens = find_tokens(goal.text)
    enforced = {
        at
        for at, token in enumerate(tokens)
        if token.lastgroup in (goal.dataset, *STATED)
        or goal.dataset in (token[0].lower(), *find_paths([token]))
    }
    enforced -= set(_find_foreign_errors(tokens))
    with suppress(GenlabError):  # an older parser has read it
        for quantity in read_quantities(tokens):
            if quantity.unit in OPTIONS or _is_threshold(quantity, goal):
                enforced |= quantity.places
    phrases = join_tokens(goal.text, tokens, enforced)
    return phrases, split_text(goal.text, phrases)


def _is_threshold(quantity: Quantity, goal: Goal) -> bool:
    """Whether a number is the threshold of a goal, perhaps as a percentage or an error rate."""
    if quantity.unit not in ("", "percent"):
        return False
    value = float(quantity.value / 100 if quantity.unit == "percent" else quantity.value)
    return goal.threshold in (value, to_accuracy(value))


def quote_enforced(goal: Goal) -> str:
    """Quote the phrases of a goal's sentence that a run enforces."""
    return ", ".join(f'"{phrase}"' for phrase in split_words(goal)[0])


def quote_unenforced(goal: Goal) -> str:
    """Quote the phrases that a planner reads and nothing enforces; empty where there are none."""
    return ", ".join(f'"{phrase}"' for phrase in split_words(goal)[1])


def explain_error(goal: Goal) -> str:
    """Explain the error rate that a goal's sentence states; empty where it states none."""
    shares = {
        value / (100 if number.is_percentage else 1)
        for number in find_numbers(goal.text)
        for value in number.values
    }
    threshold = Decimal(repr(goal.threshold))
    if goal.metric != "accuracy" or threshold in shares or 1 - threshold not in shares:
        return ""
    error_rate = write_number(to_accuracy(goal.threshold))
    return f"at most {error_rate} is at least {write_number(goal.threshold)}"
