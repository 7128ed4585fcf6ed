"""Goals: a metric of a model on a dataset, the threshold that it has to reach, and constraints.

`parse_goal` reads them from a sentence and options. A number, metric or limit that it cannot read
is refused, so that all of what a goal states is enforced.
"""

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from genlab.core.errors import GenlabError, did_you_mean
from genlab.core.params.catalogue import DRAWN
from genlab.core.text import printable

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
DATASETS = ("fashion_mnist", "mnist", "cifar10", "arc_grids", DRAWN)
UNFIT = {"arc_grids": ("bits_per_dim", "frechet_distance"), DRAWN: ("frechet_distance",)}


@dataclass(frozen=True)
class Goal:
    """A metric of a model on a dataset that has to reach a threshold within constraints.

    dataset: one of `DATASETS`, one's own, or path:FOLDER. max_seconds: of the training of one seed.
    """

    text: str
    dataset: str
    metric: str
    threshold: float
    max_parameters: int | None = None
    max_seconds: float | None = None

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

    def reached(self, values: Sequence[float]) -> bool:
        """Whether every value, one per seed and at least one, meets the threshold."""
        least = self.score(self.threshold)
        return bool(values) and all(self.score(value) >= least for value in values)

    @property
    def description(self) -> str:
        """The goal in words: 'accuracy >= 0.9 on fashion_mnist, at most 50,000 parameters'."""
        sign = ">=" if self.higher else "<="
        parameters, seconds = self.max_parameters, self.max_seconds
        return (
            f"{self.metric} {sign} {self.threshold:g} on {self.dataset}"
            + (f", at most {parameters:,} parameters" if parameters is not None else "")
            + (f", within {seconds:g} s of training" if seconds is not None else "")
        )


_NAMES = {
    "fashion_mnist": "fashion[-_ ]?mnist",
    "mnist": "mnist",
    "cifar10": "cifar[-_ ]?10",
    "arc_grids": "arc[-_ ](?:like[-_ ])?grids?",
    "dummy": "dummy",
    "other_dataset": r"[\w-]*mnist[\w-]*|cifar[-_ ]?[\w-]*|[\w-]*imagenet[\w-]*",
    "accuracy": "(?:top-?1 )?accura(?:cy|te)",
    "macro_f1": "macro[-_ ](?:averaged?[-_ ])?f[-_ ]?1(?:[-_ ]score)?",
    "val_loss": "val(?:idation)?[-_ ]loss",
    "bits_per_dim": "bits?(?:[-_ ]per[-_ ]|/)dim(?:ension)?s?",
    "frechet_distance": "fr[eé]chet[-_ ]distance",
    "other_metric": r"top[- ]?\d+(?: accuracy)?|(?:\w+-)?f[-_ ]?1(?:[-_ ]score)?|auc|auroc|fid"
    "|errors?(?: rate)?|(?:train(?:ing)?|test)[-_ ](?:loss|accuracy)|balanced[- ]accuracy"
    "|precision|recall|perplexity|elbo|nll|ssim|psnr|mse",
}
_SIGNS = {
    "more": r"\bmin\.|\b(?:at least|over|above|(?:more|greater|higher|larger) than|minimum|min"
    r"|exceed(?:s|ing)?|or (?:more|higher|above|over))(?![\w-])|>=|≥|>",
    "less": r"\bmax\.|\b(?:at most|under|below|within|up to|(?:less|fewer|lower|smaller) than"
    r"|maximum|max|or (?:less|fewer|lower|below|under))(?![\w-])|<=|≤|<",
    "better": r"\b(?:or better|better than)\b",
    "worse": r"\bworse than\b",
}
_OPPOSITE = {"more": "less", "less": "more", "better": "worse", "worse": "better"}
_SCALES = {"": 1.0, "k": 1e3, "t": 1e3, "m": 1e6}  # by first letters, as are seconds
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
_UNITS = {
    "percent": "%|per ?cent",
    "parameters": "(?:(?:trainable|model|total) )?(?:param(?:eter)?s?|weights)",
    "seconds": "s|sec(?:ond)?s?|min(?:ute)?s?|h|hours?",
    "count": "(?:(?:conv(?:olutional)?|hidden|residual) )?(?:layers?|epochs?|blocks?|heads?)",
    "unlimited": "ms|[kmgt]?i?b(?:ytes?)?|[kmgt]?(?:flop|mac)s?",
}
_DIGITS = r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+|\d+(?:[.,]\d+)?|\.\d+)(?:e[-+]?\d+)?"


def _any(patterns: dict[str, str]) -> str:
    return "|".join(f"(?P<{name}>{pattern})" for name, pattern in patterns.items())


# A name ends where its word ends: MNIST-1D is not MNIST.
_TOKENS = {name: rf"(?<![\w-])(?:{each})(?!\w|-\w)" for name, each in _NAMES.items()} | {
    "not": r"\b(?:no|not|never)\b(?: be\b| fall\b| drop\b)?",
    **_SIGNS,
    "shape": r"(?<!\w)\d+(?:\s*[x×]\s*\d+)+(?!\w)",
    "quantity": rf"(?<![\w.])(?:(?P<digits>{_DIGITS})|(?:an?|one)(?= (?:second|minute|hour)\b))"
    r"(?:\s*(?P<scale>k|thousand|m|million)\b)?"
    rf"(?:[-\s]*(?:{_any(_UNITS)}))?(?!\w|[.,]\d)",
    "unread": r"[$€£]|\d[^\s,;]*|\b(?:half|quarter|thousand|million|seconds|minutes|hours|days)\b",
    "word": r"[^\W\d_]\w*(?:[-'_]\w+)*",
    "stop": r"[,;.!?()]",
}
_TOKEN = re.compile(_any(_TOKENS), re.IGNORECASE)
# What follows a percentage that is an accuracy though the sentence does not name it.
_JOINTS = "|on|of|for|in|with|and|or|at|to|by|from|using|within|but|as|while|after|correct|right"
OPTIONS = {"parameters": "--max-parameters", "seconds": "--training-seconds"}
_LIMITS = f"the limits that a run enforces are {' and '.join(OPTIONS.values())}"


class Quantity(NamedTuple):
    """A number of the sentence, its unit, and the comparison that belongs to it."""

    text: str
    value: float
    unit: str
    sign: str
    after: str  # the word that follows


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
    words = " ".join(printable(text).split())
    tokens = list(_TOKEN.finditer(re.sub("[‐‑‒–—−]", "-", words)))
    quantities = _read_quantities(tokens)
    name = _choose_name(tokens, metric, "metric", METRICS) or _guess_metric(quantities)
    place = dataset
    if dataset is None or not re.match("path:.", dataset):
        place = _choose_name(tokens, dataset, "dataset", (*DATASETS, *own))
    if place is None:
        fix = f"give --dataset {', '.join((*DATASETS, *own))} or path:FOLDER"
        raise _refuse("it names no dataset", fix)
    if name in UNFIT.get(place, ()):
        raise _refuse(f"{name} cannot be measured on {place}", "choose another --dataset")
    threshold = _choose_threshold(quantities, name, at_least, at_most)
    most = _choose_limit(quantities, "parameters", max_parameters)
    seconds = _choose_limit(quantities, "seconds", max_seconds)
    goal = Goal(words, place, name, threshold, None if most is None else round(most), seconds)
    return goal if words else replace(goal, text=goal.description)


def _refuse(reason: str, fix: str) -> GenlabError:
    """The error of one line: why a goal is refused, and the fix."""
    return GenlabError(f"goal: {reason[:200]}; {fix}")


def _read_quantities(tokens: Sequence[re.Match[str]]) -> list[Quantity]:
    """Read every number with its unit and comparison."""
    for token in tokens:
        if token["unread"]:
            raise _refuse(f"{token[0]!r} cannot be read or enforced", _LIMITS)
    signs, found = _bind_signs(tokens), []
    for at, token in enumerate(tokens):
        if not (text := token["quantity"]):
            continue
        unit, sign = next((name for name in _UNITS if token[name]), ""), signs.get(at, "")
        digits, scale = token["digits"] or "1", (token["scale"] or "").lower()[:1]
        # 3.000 parameters may be three thousand
        unclear = "." in digits and unit == "parameters" if not scale else not unit
        if unit == "unlimited" or (unit == "count" and sign) or unclear:
            raise _refuse(f"{text!r} cannot be enforced", _LIMITS)
        thousands = re.match(r"[-+]?[1-9]\d{0,2}(,\d{3})+", digits)
        value = float(digits.replace(",", "" if thousands else ".")) * _SCALES[scale]
        if unit == "seconds":
            value *= _SECONDS[token[unit][0].lower()]
        after = "".join(each[0].lower() for each in tokens[at + 1 : at + 2] if each["word"])
        found.append(Quantity(text, value, unit, sign, after))
    return found


def _bind_signs(tokens: Sequence[re.Match[str]]) -> dict[int, str]:
    """Map the index of a quantity to its comparison, which stands before it or after it.

    Between the two are words, negations and names of metrics alone.
    """
    kinds = {"quantity": "q", **dict.fromkeys(("word", "not", *METRICS), "w")}
    letters = "".join(kinds.get(each.lastgroup or "", "x") for each in tokens)
    bound: dict[int, str] = {}
    for at, token in enumerate(tokens):
        if (sign := token.lastgroup or "") not in _SIGNS:
            continue
        if at and tokens[at - 1]["not"]:
            sign = _OPPOSITE[sign]
        after, before = re.match("w*q", letters[at + 1 :]), re.search("qw*$", letters[:at])
        target = before.start() if before else -1
        if after and not token[0].lower().startswith("or "):
            target = at + after.end()
        if target < 0 or bound.setdefault(target, sign) != sign:
            raise _refuse(f"{token[0]!r} has no number that belongs to it alone", _LIMITS)
    return bound


def _choose_name(
    tokens: Sequence[re.Match[str]], option: str | None, what: str, known: Collection[str]
) -> str | None:
    """The one known name that the sentence or the option states, if any."""
    kinds, names = {token.lastgroup: token[0] for token in tokens}, ", ".join(known)
    named = [name for name in known if name in kinds]
    if option is not None:
        if option not in known:
            near = did_you_mean(option, known)
            raise _refuse(f"--{what} {option!r} is unknown{near}", f"give one of {names}")
        if named and option not in named:
            raise _refuse(f"it names {named[0]}, but --{what} is {option}", "correct one of them")
        return option
    if other := kinds.get(f"other_{what}"):
        raise _refuse(f"{other!r} is not one of {names}", f"choose with --{what}")
    if len(named) > 1:
        raise _refuse(f"it names {' and '.join(named)}", f"choose one with --{what}")
    return named[0] if named else None


def _guess_metric(quantities: Sequence[Quantity]) -> str:
    """Accuracy, which is what a percentage without the name of a metric means."""
    numbers = [each for each in quantities if each.unit in ("", "percent")]
    for each in numbers:
        if each.unit != "percent" or not re.fullmatch(_JOINTS, each.after):
            words = f"{each.text} {each.after}".strip()
            raise _refuse(f"what {words!r} measures is not clear", "give --metric")
    if not numbers:
        raise _refuse("it holds no metric and no number to reach", "give --metric and --at-least")
    return "accuracy"


def _choose_threshold(
    quantities: Sequence[Quantity], metric: str, at_least: float | None, at_most: float | None
) -> float:
    """The one number of the metric, or the option's; a percentage is a share."""
    higher, is_share = METRICS[metric].higher, metric in ("accuracy", "macro_f1")
    better, option = ("higher", "--at-least") if higher else ("lower", "--at-most")
    given, other = (at_least, at_most) if higher else (at_most, at_least)
    if other is not None:
        raise _refuse(f"{metric} is better when {better}", f"give {option} alone")
    found = {} if given is None else {given: f"{given:g}"}
    for each in quantities:
        if each.unit not in ("", "percent"):
            continue
        if each.sign in ("worse", "less" if higher else "more"):
            reason = f"{metric} is better when {better}, which contradicts {each.text!r}"
            raise _refuse(reason, f"change the comparison, then give {option} if need be")
        if given is None:
            if each.unit and not is_share:
                raise _refuse(f"{metric} has no {each.text!r}", f"give {option}")
            found[each.value / 100 if each.unit else each.value] = each.text
    if len(found) != 1:
        numbers = " and ".join(found.values())
        reason = f"it is not clear which of {numbers} is meant" if found else "it holds no number"
        raise _refuse(reason, f"give the threshold with {option}")
    ((value, text),) = found.items()
    if not (0 <= value <= 1 if is_share else 0 < value < math.inf):
        span = "between 0 and 1, or 0 % and 100 %" if is_share else "a positive number"
        raise _refuse(f"{metric} is {span}, got {text}", f"correct it, or give {option}")
    return float(value)


def _choose_limit(quantities: Sequence[Quantity], unit: str, option: float | None) -> float | None:
    """The lowest limit of a unit, parameters or seconds, or None where there is none."""
    limits = [] if option is None else [float(option)]
    for each in (each for each in quantities if each.unit == unit):
        if each.sign not in ("less", "") or (not each.sign and option is None):
            fix = f"write 'at most {each.text}', or give {OPTIONS[unit]}"
            raise _refuse(f"{each.text!r} is not an upper limit of {unit}", fix)
        limits.append(each.value)
    least = 1 if unit == "parameters" else 0.001
    if limits and not least <= min(limits) < math.inf:
        raise _refuse(f"{min(limits):g} {unit} are no limit", f"give a positive {OPTIONS[unit]}")
    return min(limits, default=None)
