"""Parse goals: a sentence becomes a metric, its threshold, a dataset and constraints.

A sentence is split into tokens: names, comparisons, quantities, other words. Every quantity is then
a phrase: a number, its unit and its comparison. A number, metric or limit that cannot be read is
refused, so that all of what a goal states is enforced.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from genlab.core.errors import GenlabError, did_you_mean
from genlab.core.text import printable

Task = Literal["classify", "generate"]


@dataclass(frozen=True)
class Metric:
    """A measured number that a goal can be about; higher: whether more of it is better."""

    name: str
    higher: bool
    task: Task
    label: str


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", True, "classify", "accuracy"),
        Metric("macro_f1", True, "classify", "macro F1"),
        Metric("val_loss", False, "classify", "validation loss (nats)"),
        Metric("bits_per_dim", False, "generate", "bits per dimension"),
        Metric("frechet_distance", False, "generate", "Fréchet distance"),
    )
}
DATASETS = ("fashion_mnist", "mnist", "cifar10", "arc_grids", "dummy")
UNFIT = {"arc_grids": ("bits_per_dim", "frechet_distance"), "dummy": ("frechet_distance",)}


@dataclass(frozen=True)
class Goal:
    """A metric of a model on a dataset that has to reach a threshold within constraints.

    dataset: one of `DATASETS`, or path:FOLDER. max_seconds: of the training of one seed.
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

    def reached(self, values: Sequence[float]) -> bool:
        """Whether every value, one per seed and at least one, meets the threshold."""
        sign = 1 if self.higher else -1
        return bool(values) and all(sign * value >= sign * self.threshold for value in values)

    @property
    def description(self) -> str:
        """The goal in words: 'accuracy >= 0.9 on fashion_mnist, at most 50,000 parameters'."""
        sign = ">=" if self.higher else "<="
        text = f"{self.metric} {sign} {self.threshold:g} on {self.dataset}"
        if self.max_parameters is not None:
            text += f", at most {self.max_parameters:,} parameters"
        if self.max_seconds is not None:
            text += f", within {self.max_seconds:g} s of training"
        return text


def _any(patterns: dict[str, str]) -> str:
    return "|".join(f"(?P<{name}>{pattern})" for name, pattern in patterns.items())


# The spellings of each name. A name ends where its word ends: MNIST-1D is not MNIST.
_DATASET_NAMES = {
    "fashion_mnist": r"fashion[-_ ]?mnist",
    "mnist": "mnist",
    "cifar10": r"cifar[-_ ]?10",
    "arc_grids": r"arc[-_ ](?:like[-_ ])?grids?",
    "dummy": "dummy",
}
_METRIC_NAMES = {
    "accuracy": r"(?:top-?1 )?accura(?:cy|cies|te)",
    "macro_f1": r"macro[-_ ](?:averaged?[-_ ])?f[-_ ]?1(?:[-_ ]score)?|f1[-_ ](?:score )?macro",
    "val_loss": r"val(?:idation)?[-_ ](?:loss|cross[-_ ]entropy(?: loss)?)",
    "bits_per_dim": r"bits?(?:[-_ ]per[-_ ]|/)dim(?:ension)?s?|bpd",
    "frechet_distance": r"fr[eé]chet[-_ ]distance",
}
_OTHER_NAMES = {
    "other_dataset": r"[\w-]*mnist[\w-]*|cifar[-_ ]?[\w-]*|[\w-]*imagenet[\w-]*|svhn|stl-?10|celeba"
    "|coco|usps|omniglot|caltech-?[0-9]*|food-?101|ffhq|lsun",
    "other_metric": r"top[- ]?\d+(?: accuracy)?|(?:micro|weighted)?[-_ ]?f[-_ ]?1(?:[-_ ]score)?"
    "|f-score|(?:roc[- ])?auc|auroc|(?:train(?:ing)?|test)[-_ ](?:loss|accuracy)|perplexity|elbo"
    "|nll|balanced[- ]accuracy|errors?(?: rate)?|(?:fr[eé]chet )?inception (?:distance|score)|fid"
    "|ssim|psnr|r?m[as]e",
    "vague_metric": "loss|precision|recall|likelihood|cross[- ]entropy|distance|score",
    "unlimited": "latency|inference time",
}
_SIGNS = {
    "more": r"\bmin\.|\b(?:at least|over|above|(?:more|greater|higher|larger) than|minimum|min"
    r"|exceed(?:s|ing)?|or (?:more|higher|above|over))(?![\w-])|>=|≥|=>|>",
    "less": r"\bmax\.|\b(?:at most|under|below|within|up to|(?:less|fewer|lower|smaller) than"
    r"|maximum|max(?! pool)|or (?:less|fewer|lower|below|under))(?![\w-])|<=|≤|=<|<",
    "better": r"\b(?:or better|better than|beat(?:s|ing)?)\b",
    "worse": r"\bworse than\b",
}
_OPPOSITE = {"more": "less", "less": "more", "better": "worse", "worse": "better"}
_TIMES = {r"s|sec(?:ond)?s?": 1.0, r"min(?:ute)?s?": 60.0, r"h|hours?|hrs?": 3600.0}
_UNITS = {
    "percent": "%",
    "parameters": "(?:(?:trainable|model|total) )*(?:param(?:eter)?s?|weights)",
    "seconds": "|".join(_TIMES),
    "count": r"(?:(?:conv(?:olutional)?|hidden|residual|dense|linear|training)[- ])?(?:layers?|d"
    "|epochs?|kernels?|filters?|channels?|blocks?|heads?|units?|neurons?|classes|stages?|seeds?)",
    "unlimited_unit": "ms|milliseconds?|[kmgt]?i?b(?:ytes?)?|[kmgt]?(?:flop|mac)s?|dollars?|days?",
}
_SCALES = {"hundred": 1e2, "k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6}
_WORDS = {
    "half an": 0.5, "half a": 0.5, "an": 1.0, "a": 1.0, "one": 1.0, "two": 2.0, "three": 3.0,
    "four": 4.0, "five": 5.0, "ten": 10.0,
}  # fmt: skip
_DIGITS = r"[-+]?(?:[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)(?:e[-+]?\d+)?"
_COUNTED = "hundred|thousand|million|seconds?|minutes?|hours?"
_KINDS = {
    "name": rf"(?<![\w-])(?:{_any(_DATASET_NAMES | _METRIC_NAMES | _OTHER_NAMES)})(?!\w|-\w)",
    "sign": rf"(?P<no>\b(?:no|not|never) (?:be |fall |drop |to )?)?(?:{_any(_SIGNS)})",
    "shape": r"(?<!\w)\d+(?:\s*[x×]\s*\d+)+(?!\w)",
    "quantity": rf"(?<![\w.])(?:(?P<digits>{_DIGITS})|(?P<words>{'|'.join(_WORDS)})(?=\s+(?:"
    rf"{_COUNTED})\b))(?P<scale>(?:\s*(?:{'|'.join(_SCALES)})\b)*)"
    rf"(?:[-\s]*(?:{_any(_UNITS)}))?(?!\w|[.,]\d)",
    "unread": r"[$€£]|\d[^\s,;]*|\b(?:(?:half|quarter|dozen|hundred|thousand|million)s?|seconds"
    r"|minutes|hours|days|twenty|thirty|forty|fifty|sixty|ninety)\b",
    "noun": r"\b(?:param(?:eter)?s?)\b",
    "word": r"[^\W\d_]\w*(?:[-'_]\w+)*",
    "stop": r"[,;.!?()]",
}
_LIMITS = "the limits that a run enforces are --max-parameters and --max-seconds"
_TOKEN = re.compile(_any(_KINDS), re.IGNORECASE)
# What follows a percentage that is an accuracy though the sentence does not name it.
_JOINTS = "|on|of|for|in|with|and|or|at|to|by|from|using|within|but|as|while|after|correct|right"


class _Token(NamedTuple):
    kind: str  # what its innermost group is called, such as mnist or less
    text: str
    match: re.Match[str]


class _Phrase(NamedTuple):
    text: str
    value: float
    unit: str
    sign: str
    after: str  # the word that follows


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
        raise _refuse("there is none", 'write "CNN for Fashion-MNIST, > 90 % accuracy"')
    tokens = _tokenise(words)
    phrases = _read_phrases(tokens)
    chosen = _choose_metric(tokens, phrases, metric)
    place = _choose_dataset(tokens, dataset)
    if chosen.name in UNFIT.get(place, ()):
        raise _refuse(f"{chosen.name} cannot be measured on {place}", "choose another --dataset")
    threshold = _choose_threshold(phrases, chosen, at_least, at_most)
    most = _choose_limit(phrases, "parameters", max_parameters)
    seconds = _choose_limit(phrases, "seconds", max_seconds)
    parameters = None if most is None else round(most)
    goal = Goal(words, place, chosen.name, threshold, parameters, seconds)
    return goal if words else replace(goal, text=goal.description)


def _refuse(reason: str, fix: str) -> GenlabError:
    return GenlabError(f"goal: {reason[:200]}; {fix}")


def _tokenise(words: str) -> list[_Token]:
    """Split a sentence; what differs in typography alone is made equal first."""
    plain = words.translate(dict.fromkeys(map(ord, "‐‑‒–—−"), "-") | {0x2019: "'", 0xFF05: "%"})
    plain = re.sub(r"\bper ?cent\b", "%", plain, flags=re.IGNORECASE)
    plain = re.sub(r"n't\b|(?<=\bcan)not\b", " not", plain, flags=re.IGNORECASE)
    tokens = []
    for match in _TOKEN.finditer(plain):
        inner = [*_DATASET_NAMES, *_METRIC_NAMES, *_OTHER_NAMES, *_SIGNS, *_KINDS]
        kind = next(name for name in inner if match[name] is not None)
        if kind in ("unread", "unlimited"):
            raise _refuse(f"{match[0]!r} cannot be read or enforced", _LIMITS)
        tokens.append(_Token(kind, match[0].strip(), match))
    return tokens


def _read_phrases(tokens: Sequence[_Token]) -> list[_Phrase]:
    """Read every quantity with its unit and comparison."""
    signs, found = _bind_signs(tokens), []
    for at, token in enumerate(tokens):
        if token.kind != "quantity":
            continue
        unit, sign = _read_unit(tokens, at), signs.get(at, "")
        if unit in ("unread", "unlimited_unit") or (unit == "count" and sign):
            raise _refuse(f"{token.text!r} is not enforced", _LIMITS)
        if unit == "seconds" and at and tokens[at - 1].text.lower() in ("in", "for"):
            sign = sign or "less"
        after = "".join(each.text for each in tokens[at + 1 : at + 2] if each.kind == "word")
        found.append(_Phrase(token.text, _read_number(token.match), unit, sign, after.lower()))
    return found


def _read_number(match: re.Match[str]) -> float:
    if match["words"]:
        value = _WORDS[match["words"].lower()]
    else:
        thousands = re.match(r"[-+]?[1-9]\d{0,2}(,\d{3})+", match["digits"])
        value = float(match["digits"].replace(",", "" if thousands else "."))
    value *= math.prod(_SCALES[scale] for scale in match["scale"].lower().split())
    if match["seconds"]:
        value *= next(s for name, s in _TIMES.items() if re.fullmatch(name, match["seconds"], re.I))
    return value


def _read_unit(tokens: Sequence[_Token], at: int) -> str:
    """Return the unit that follows a quantity, or parameters where that noun is beside it."""
    text, match = tokens[at].text, tokens[at].match
    unit = next((name for name in _UNITS if match[name]), "")
    if not unit:
        fillers = ("count", "is", "be", "of", "the", "a")
        before = [each for each in reversed(tokens[:at]) if each.text.lower() not in fillers]
        sides = (tokens[at + 1 :], before)
        kinds = [next((t.kind for t in side if t.kind not in _SIGNS), "") for side in sides]
        if "noun" in kinds and kinds[0] not in METRICS:
            unit = "parameters"
        elif match["scale"]:
            return "unread"
    # 3.000 parameters may be three thousand
    dotted = unit == "parameters" and not match["scale"] and re.match(r"\d+\.\d{3}(?!\d)", text)
    return "unread" if dotted else unit


def _bind_signs(tokens: Sequence[_Token]) -> dict[int, str]:
    """Map the index of a quantity to its comparison, which stands before it or after it."""
    bound: dict[int, str] = {}
    for at, token in enumerate(tokens):
        if token.kind in _SIGNS:
            sign = _OPPOSITE[token.kind] if token.match["no"] else token.kind
            trailing = token.text.lower().startswith("or ")
            ahead = None if trailing else _find_quantity(tokens, range(at + 1, len(tokens)))
            target = _find_quantity(tokens, range(at - 1, -1, -1)) if ahead is None else ahead
            if target is None or bound.setdefault(target, sign) != sign:
                if any(each.kind == "noun" for each in tokens[at + 1 :]):
                    raise _refuse("a limit on parameters has no number", "give --max-parameters")
                if target is not None:
                    raise _refuse(f"{tokens[target].text!r} has two comparisons", "leave one out")
    return bound


def _find_quantity(tokens: Sequence[_Token], indices: range) -> int | None:
    """Return the first quantity that no comparison, dataset or punctuation stands before."""
    passed = ("word", "noun", *METRICS)
    first = next((index for index in indices if tokens[index].kind not in passed), None)
    return first if first is not None and tokens[first].kind == "quantity" else None


def _choose_name(
    tokens: Sequence[_Token], option: str | None, what: str, known: Sequence[str]
) -> str | None:
    """Return the one known name that the sentence or the option states, if any."""
    names, kinds = ", ".join(known), {token.kind: token for token in reversed(tokens)}
    named = [name for name in known if name in kinds]
    if option is not None:
        if option not in known:
            near = did_you_mean(option, known)
            raise _refuse(f"--{what} {option!r} is unknown{near}", f"give one of {names}")
        if named and option not in named:
            raise _refuse(f"it names {named[0]}, but --{what} is {option}", "correct one of them")
        return option
    strange = kinds.get(f"other_{what}") or (None if named else kinds.get(f"vague_{what}"))
    if strange:
        raise _refuse(f"{strange.text!r} is not one of {names}", f"choose with --{what}")
    if len(named) > 1:
        raise _refuse(f"it names {' and '.join(named)}", f"choose one with --{what}")
    return named[0] if named else None


def _choose_dataset(tokens: Sequence[_Token], option: str | None) -> str:
    if option is not None and re.match("path:.", option):
        return option
    if name := _choose_name(tokens, option, "dataset", DATASETS):
        return name
    raise _refuse("it names no dataset", f"give --dataset {', '.join(DATASETS)} or path:FOLDER")


def _choose_metric(
    tokens: Sequence[_Token], phrases: Sequence[_Phrase], option: str | None
) -> Metric:
    if name := _choose_name(tokens, option, "metric", tuple(METRICS)):
        return METRICS[name]
    numbers = [phrase for phrase in phrases if phrase.unit in ("", "percent")]
    for phrase in numbers:
        if phrase.unit != "percent" or not re.fullmatch(_JOINTS, phrase.after):
            reason = f"what '{phrase.text} {phrase.after}' measures is not clear"
            raise _refuse(reason, "give --metric, such as accuracy")
    if not numbers:
        raise _refuse("it holds no metric and no number to reach", "give --metric and --at-least")
    return METRICS["accuracy"]


def _choose_threshold(
    phrases: Sequence[_Phrase], metric: Metric, at_least: float | None, at_most: float | None
) -> float:
    is_share = metric.name in ("accuracy", "macro_f1")
    better, option = ("higher", "--at-least") if metric.higher else ("lower", "--at-most")
    given, other = (at_least, at_most) if metric.higher else (at_most, at_least)
    if other is not None:
        raise _refuse(f"{metric.name} is better when {better}", f"give {option} alone")
    found = {}
    for phrase in phrases:
        if phrase.unit in ("", "percent"):
            if phrase.sign in (("less", "worse") if metric.higher else ("more", "worse")):
                reason = f"{metric.name} is better when {better}, which contradicts {phrase.text!r}"
                raise _refuse(reason, f"change the comparison, then give {option} if need be")
            if phrase.unit and not is_share and given is None:
                raise _refuse(f"{metric.name} has no {phrase.text!r}", f"give {option}")
            found[phrase.value / 100 if phrase.unit else phrase.value] = phrase.text
    if given is not None:
        found = {given: f"{given:g}"}
    if len(found) != 1:
        numbers = " and ".join(found.values())
        reason = f"it is not clear which of {numbers} is meant" if found else "it holds no number"
        raise _refuse(reason, f"give the threshold with {option}")
    value, text = next(iter(found.items()))
    if not (0 <= value <= 1 if is_share else 0 < value < math.inf):
        span = "between 0 and 1, or 0 % and 100 %" if is_share else "a positive number"
        raise _refuse(f"{metric.name} is {span}, got {text}", f"correct it, or give {option}")
    return float(value)


def _choose_limit(phrases: Sequence[_Phrase], unit: str, option: float | None) -> float | None:
    """Return the lowest limit of a unit, parameters or seconds, or None where there is none."""
    limits = [] if option is None else [float(option)]
    for phrase in phrases:
        if phrase.unit == unit:
            if phrase.sign not in ("less", "") or (not phrase.sign and option is None):
                fix = f"write 'at most {phrase.text}', or give --max-{unit}"
                raise _refuse(f"{phrase.text!r} is not an upper limit of {unit}", fix)
            limits.append(phrase.value)
    least = 1 if unit == "parameters" else 0.001
    if limits and not least <= min(limits) < math.inf:
        raise _refuse(f"{min(limits):g} {unit} are no limit", f"give a positive --max-{unit}")
    return min(limits, default=None)
