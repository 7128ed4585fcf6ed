"""Parse goals: a sentence and options become a metric, its threshold, a dataset and constraints.

A number, metric or limit that cannot be read is refused, so that all of what a goal states is
enforced.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace

from genlab.agent.goals.goal import DATASETS, METRICS, UNFIT, Goal, Metric
from genlab.agent.goals.phrases import Phrase, Token, read_phrases, refuse, tokenise
from genlab.core.errors import did_you_mean
from genlab.core.text import printable

# What follows a percentage that is an accuracy though the sentence does not name it.
_JOINTS = "|on|of|for|in|with|and|or|at|to|by|from|using|within|but|as|while|after|correct|right"


OPTIONS = {"parameters": "--max-parameters", "seconds": "--training-seconds"}


def parse_goal(
    text: str,
    *,
    dataset: str | None = None,
    metric: str | None = None,
    at_least: float | None = None,
    at_most: float | None = None,
    max_parameters: int | None = None,
    max_seconds: float | None = None,
) -> Goal:
    """Parse a goal sentence; options settle what it leaves open.

    A threshold given as an option replaces that of the sentence, and of two limits the lower one
    holds. A dataset or metric that contradicts the sentence is refused, as is everything in it that
    cannot be read or enforced: a GenlabError names the word and the option.
    """
    words = " ".join(printable(unicodedata.normalize("NFC", text)).split())
    if not words and (dataset is None or metric is None or at_least is at_most):
        raise refuse("there is none", 'write "CNN for Fashion-MNIST, > 90 % accuracy"')
    tokens = tokenise(words)
    phrases = read_phrases(tokens)
    chosen = _choose_metric(tokens, phrases, metric)
    place = _choose_dataset(tokens, dataset)
    if chosen.name in UNFIT.get(place, ()):
        raise refuse(f"{chosen.name} cannot be measured on {place}", "choose another --dataset")
    threshold = _choose_threshold(phrases, chosen, at_least, at_most)
    most = _choose_limit(phrases, "parameters", max_parameters)
    seconds = _choose_limit(phrases, "seconds", max_seconds)
    parameters = None if most is None else int(most + 1e-6)
    goal = Goal(words, place, chosen.name, threshold, parameters, seconds)
    return goal if words else replace(goal, text=goal.description)


def _choose_name(
    tokens: Sequence[Token], option: str | None, what: str, known: Sequence[str]
) -> str | None:
    """Return the one known name that the sentence or the option states, if any."""
    names, kinds = ", ".join(known), {token.kind: token for token in reversed(tokens)}
    named = [name for name in known if name in kinds]
    if option is not None:
        if option not in known:
            near = did_you_mean(option, known)
            raise refuse(f"--{what} {option!r} is unknown{near}", f"give one of {names}")
        if named and option not in named:
            raise refuse(f"it names {named[0]}, but --{what} is {option}", "correct one of them")
        return option
    strange = kinds.get(f"other_{what}") or (None if named else kinds.get(f"vague_{what}"))
    if strange:
        raise refuse(f"{strange.text!r} is not one of {names}", f"choose with --{what}")
    if len(named) > 1:
        raise refuse(f"it names {' and '.join(named)}", f"choose one with --{what}")
    return named[0] if named else None


def _choose_dataset(tokens: Sequence[Token], option: str | None) -> str:
    if option is not None and re.match("path:.", option):
        return option
    if name := _choose_name(tokens, option, "dataset", DATASETS):
        return name
    raise refuse("it names no dataset", f"give --dataset {', '.join(DATASETS)} or path:FOLDER")


def _choose_metric(
    tokens: Sequence[Token], phrases: Sequence[Phrase], option: str | None
) -> Metric:
    if name := _choose_name(tokens, option, "metric", tuple(METRICS)):
        return METRICS[name]
    numbers = [phrase for phrase in phrases if phrase.unit in ("", "percent")]
    for phrase in numbers:
        if phrase.unit != "percent" or not re.fullmatch(_JOINTS, phrase.after):
            reason = f"what '{phrase.text} {phrase.after}' measures is not clear"
            raise refuse(reason, "give --metric, such as accuracy")
    if not numbers:
        raise refuse("it holds no metric and no number to reach", "give --metric and --at-least")
    return METRICS["accuracy"]


def _choose_threshold(
    phrases: Sequence[Phrase], metric: Metric, at_least: float | None, at_most: float | None
) -> float:
    is_share = metric.name in ("accuracy", "macro_f1")
    better, option = ("higher", "--at-least") if metric.higher else ("lower", "--at-most")
    given, other = (at_least, at_most) if metric.higher else (at_most, at_least)
    if other is not None:
        raise refuse(f"{metric.name} is better when {better}", f"give {option} alone")
    found = {}
    for phrase in phrases:
        if phrase.unit in ("", "percent"):
            if phrase.sign in (("less", "worse") if metric.higher else ("more", "worse")):
                reason = f"{metric.name} is better when {better}, which contradicts {phrase.text!r}"
                raise refuse(reason, f"change the comparison, then give {option} if need be")
            if phrase.unit and not is_share and given is None:
                raise refuse(f"{metric.name} has no {phrase.text!r}", f"give {option}")
            found[phrase.value / 100 if phrase.unit else phrase.value] = phrase.text
    if given is not None:
        found = {given: f"{given:g}"}
    if len(found) != 1:
        numbers = " and ".join(found.values())
        reason = f"it is not clear which of {numbers} is meant" if found else "it holds no number"
        raise refuse(reason, f"give the threshold with {option}")
    value, text = next(iter(found.items()))
    if not (0 <= value <= 1 if is_share else 0 < value < math.inf):
        span = "between 0 and 1, or 0 % and 100 %" if is_share else "a positive number"
        raise refuse(f"{metric.name} is {span}, got {text}", f"correct it, or give {option}")
    return float(value)


def _choose_limit(phrases: Sequence[Phrase], unit: str, option: float | None) -> float | None:
    """Return the lowest limit of a unit, parameters or seconds, or None where there is none."""
    limits = [] if option is None else [float(option)]
    for phrase in phrases:
        if phrase.unit == unit:
            if phrase.sign not in ("less", "") or (not phrase.sign and option is None):
                fix = f"write 'at most {phrase.text}', or give {OPTIONS[unit]}"
                raise refuse(f"{phrase.text!r} is not an upper limit of {unit}", fix)
            limits.append(phrase.value)
    least = 1 if unit == "parameters" else 0.001
    if limits and not least <= min(limits) < math.inf:
        raise refuse(f"{min(limits):g} {unit} are no limit", f"give a positive {OPTIONS[unit]}")
    return min(limits, default=None)
