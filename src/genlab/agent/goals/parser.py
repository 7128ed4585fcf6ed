"""Parse goals from a sentence and options.

A number, metric or limit that cannot be read is refused, so that everything measurable in a goal is
enforced.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import replace

from genlab.agent.goals.goal import (
    DATASETS,
    SHARES,
    STATED,
    UNMEASURABLE,
    Goal,
    to_accuracy,
    write_number,
)
from genlab.agent.goals.words import (
    FILLERS,
    JOINTS,
    LIMITS,
    OPTIONS,
    Quantity,
    UnreadError,
    find_foreign_errors,
    find_paths,
    find_tokens,
    read_quantities,
    refuse,
)
from genlab.core.errors import GenlabError, did_you_mean
from genlab.core.text import make_printable


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
    foreign_errors = find_foreign_errors(tokens)
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
